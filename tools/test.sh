#!/bin/sh
# Installs what the tests need, builds evoq and runs every test. Ends with 'N passed, N failed, N
# skipped'.
set -eu
cd "$(dirname "$0")/.."
tools/setup.sh --test
# The Python package and comparisons with other runtimes take packages from PyPI; without them those
# tests skip and say so.
if [ ! -x build/venv/bin/python ]; then python3 -m venv build/venv; fi
build/venv/bin/pip install -q --disable-pip-version-check \
  numpy onnx onnxruntime pillow ml_dtypes nanobind scikit-build-core pytest matplotlib \
  tokenizers sentencepiece jinja2 gguf ai-edge-litert flatbuffers tensorboard \
  'tritonclient[grpc,http]' openai kubernetes-validate \
  ruff==0.17.6 ||
  echo "test: PyPI is not reachable; tests that compare with other runtimes will skip" >&2
# nginx is unpacked, not installed: Debian's package starts a server on port 80.
if [ ! -x build/nginx/usr/sbin/nginx ]; then
  mkdir -p build/nginx
  { (cd build/nginx && apt-get download -q nginx) >/dev/null 2>&1 &&
    dpkg -x build/nginx/nginx_*.deb build/nginx; } ||
    echo "test: no package nginx; the test with it will skip" >&2
fi
python=OFF
if build/venv/bin/python -c "import nanobind" 2>/dev/null; then python=ON; fi
cmake --preset release -DEVOQ_TESTS=ON -DEVOQ_BENCH=ON -DEVOQ_PYTHON=$python \
  -DPython_EXECUTABLE="$PWD/build/venv/bin/python" >/dev/null
started=$(date +%s)
cmake --build --preset release
echo "built in $(($(date +%s) - started)) s"
tools/run_tests.py build/release
