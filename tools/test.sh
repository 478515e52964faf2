#!/bin/sh
# Installs what the tests need, builds evoq and runs every test. Ends with 'N passed, N failed'.
set -eu
cd "$(dirname "$0")/.."
tools/setup.sh --test
cmake --preset release >/dev/null
cmake --build --preset release
tools/run_tests.sh build/release
