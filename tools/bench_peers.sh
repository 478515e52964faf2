#!/bin/sh
# Builds evoq, installs the peers that can be had, and runs them side by side. Arguments go to
# bench/peers.py. Peers are optional: onnxruntime and openvino from PyPI (into build/venv), oneDNN
# from Debian's libdnnl-dev.
set -eu
cd "$(dirname "$0")/.."
tools/setup.sh --test
cmake --preset release >/dev/null
cmake --build --preset release --target evoq
if [ ! -x build/venv/bin/python ]; then python3 -m venv build/venv; fi
build/venv/bin/pip install -q numpy onnx
for peer in onnxruntime openvino; do
  build/venv/bin/pip install -q "$peer" ||
    echo "bench: $peer cannot be installed; the benchmark runs without it" >&2
done
if [ ! -e /usr/include/oneapi/dnnl/dnnl.hpp ]; then
  run=""
  if [ "$(id -u)" -ne 0 ]; then run="sudo -n"; fi
  $run env DEBIAN_FRONTEND=noninteractive \
    apt-get install -y -qq --no-install-recommends libdnnl-dev >/dev/null ||
    echo "bench: libdnnl-dev cannot be installed; matrix products run without oneDNN" >&2
fi
build/venv/bin/python bench/peers.py --prepare "$@"
build/venv/bin/python bench/peers.py "$@"
