#!/bin/sh
# Builds evoq, installs ONNX Runtime from PyPI into build/venv and runs both side by side. Arguments go to bench/peers.py.
set -eu
cd "$(dirname "$0")/.."
tools/setup.sh --test
cmake --preset release >/dev/null
cmake --build --preset release --target evoq
if [ ! -x build/venv/bin/python ]; then python3 -m venv build/venv; fi
build/venv/bin/pip install -q numpy onnxruntime
exec build/venv/bin/python bench/peers.py --evoq build/release/bin/evoq "$@"
