#!/bin/sh
# Installs what building needs, builds the command, and does the main job on the built-in model.
# Arguments go to `evoq demo`.
set -eu
here=$(pwd)
cd "$(dirname "$0")/.."
tools/setup.sh
cmake --preset release -DEVOQ_TESTS=OFF -DEVOQ_BENCH=OFF >/dev/null
cmake --build --preset release --target evoq
root=$(pwd)
cd "$here"
exec "$root/build/release/bin/evoq" demo "$@"
