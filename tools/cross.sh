#!/bin/sh
# Builds evoq for 64-bit Arm on another processor, and runs its test binaries by qemu-user, an
# emulator: results are those of a real machine, times are not.
#   tools/cross.sh [--build] [--jobs N] [NAME[:FILTER]...]
# NAME: of test binaries (evoq_kernels_test); default: those of all rooms. --build: builds only.
# Debian's libraries for Arm go to build/sysroot-aarch64, which needs no root.
set -eu
cd "$(dirname "$0")/.."
jobs=$(nproc) build=""
while [ $# -gt 0 ]; do
  case $1 in
    --build) build=1 ;;
    --jobs) jobs=$2; shift ;;
    --*)
      echo "cross.sh: unknown argument $1, expected --build, --jobs N or names of tests" >&2
      exit 2
      ;;
    *) break ;;
  esac
  shift
done
tools/setup.sh --test --cross
sysroot=build/sysroot-aarch64
packages=libc6-dev,libstdc++-12-dev,libgcc-12-dev,libhwy-dev,libcpuinfo-dev,libexpected-dev
packages=$packages,libfmt-dev,libcli11-dev,nlohmann-json3-dev,libjpeg62-turbo-dev,libpng-dev
packages=$packages,zlib1g-dev,libzstd-dev,libre2-dev,libflatbuffers-dev,libprotobuf-dev
packages=$packages,libpcre2-dev,libutf8proc-dev
packages=$packages,libonnx-dev,libgtest-dev
if [ ! -e "$sysroot/usr/lib/aarch64-linux-gnu/libonnx.so" ]; then
  rm -rf "$sysroot"
  mmdebstrap --quiet --arch=arm64 --variant=extract --include="$packages" bookworm "$sysroot"
  # Links to / are this machine's.
  find "$sysroot/usr" "$sysroot/lib" -type l -lname '/*' | while read -r link; do
    ln -srf "$sysroot$(readlink "$link")" "$link"
  done
fi
cmake --preset aarch64 -DEVOQ_TESTS=ON -DEVOQ_SERVER=OFF >/dev/null
cmake --build --preset aarch64 -j "$jobs"
if [ -n "$build" ]; then exit 0; fi
if [ $# -gt 0 ]; then set -- --only "$@"; fi
tools/run_tests.py build/aarch64 --limit-s 3600 --jobs "$jobs" \
  --runner "qemu-aarch64 -cpu max -L $sysroot" "$@"
