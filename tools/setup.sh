#!/bin/sh
# Installs what building (and, with --test, testing) evoq needs on Debian 12. Works as root and with
# sudo.
#   tools/setup.sh [--test] [--cross]      --cross: for tools/cross.sh
set -eu

build="clang-19 lld-19 cmake ninja-build pkg-config ccache libhwy-dev libcpuinfo-dev libexpected-dev
libfmt-dev libcli11-dev nlohmann-json3-dev libjpeg62-turbo-dev libpng-dev zlib1g-dev libzstd-dev
libre2-dev libpcre2-dev libutf8proc-dev libsimdjson-dev
libflatbuffers-dev flatbuffers-compiler flatbuffers-compiler-dev
protobuf-compiler libprotobuf-dev libonnx-dev libjs-chart.js
libboost-dev libssl-dev prometheus-cpp-dev libgrpc++-dev
python3-dev python3-venv"
tests="libgtest-dev libbenchmark-dev libclang-rt-19-dev llvm-19 g++ python3 chromium
clang-format-19 openmpi-bin"

packages=$build
for argument in "$@"; do
  case $argument in
    --test) packages="$packages $tests" ;;
    --cross) packages="$packages mmdebstrap qemu-user" ;;
    *)
      echo "setup.sh: unknown argument $argument, expected --test or --cross" >&2
      exit 2
      ;;
  esac
done

missing=""
for package in $packages; do
  dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q 'install ok installed' ||
    missing="$missing $package"
done
if [ -z "$missing" ]; then
  echo "setup: all packages are installed" >&2
  exit 0
fi

run=""
if [ "$(id -u)" -ne 0 ]; then
  if ! command -v sudo >/dev/null 2>&1; then
    echo "setup: these packages are missing, and installing them needs root or sudo:$missing" >&2
    exit 1
  fi
  run="sudo"
fi
echo "setup: installing$missing" >&2
export DEBIAN_FRONTEND=noninteractive
$run apt-get update -qq
# shellcheck disable=SC2086
$run env DEBIAN_FRONTEND=noninteractive \
  apt-get install -y -qq --no-install-recommends $missing >/dev/null
echo "setup: done" >&2
