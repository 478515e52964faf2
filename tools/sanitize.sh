#!/bin/sh
# Builds with a sanitizer preset (asan-ubsan or tsan) and runs every test under it.
set -eu
cd "$(dirname "$0")/.."
tools/setup.sh --test
cmake --preset "$1" >/dev/null
cmake --build --preset "$1"
tools/run_tests.py "build/$1"
