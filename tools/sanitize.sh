#!/bin/sh
# Builds with the sanitizers and runs the tests under them.
#   tools/sanitize.sh [--quick] [--jobs N] [asan-ubsan] [tsan]
# Without a name: both. Each is a preset with a build folder of its own (build/NAME), optimized a
# little (-O1), with few variants of each kernel and every instruction set (src/kernels/variants.h).
# Everything runs: test binaries, scripts, fuzzers for a few seconds.
# --quick is what .ci/run does on each submission: asan-ubsan over every room of src/rooms.txt up to
# the public interface, of the kernels one test of each family.
# What passed is kept in build/sanitize/NAME: the commit, the date, the seconds, the counts;
# "+changes" where the tree was dirty.
set -euf
cd "$(dirname "$0")/.."
quick="" names="" jobs=$(nproc)
while [ $# -gt 0 ]; do
  case $1 in
    --quick) quick=1 ;;
    --jobs) jobs=$2; shift ;;
    asan-ubsan | tsan) names="$names $1" ;;
    *)
      echo "sanitize.sh: unknown argument $1, expected --quick, --jobs N, asan-ubsan or tsan" >&2
      exit 2
      ;;
  esac
  shift
done
if [ -n "$quick" ]; then names=${names:-asan-ubsan}; fi
names=${names:-asan-ubsan tsan}
rooms=$(sed -n 's/^\([a-z]*\):.*/\1/p; /^api$/q' src/rooms.txt)  # --quick
kernels=":*RandomShapes*"  # of those: one test of each family

tools/setup.sh --test
mkdir -p build/sanitize
# An allocation that a test asks for and cannot get is an error of evoq's, not the sanitizer's.
export ASAN_OPTIONS="allocator_may_return_null=1:detect_stack_use_after_return=1:${ASAN_OPTIONS:-}"
export UBSAN_OPTIONS="print_stacktrace=1:${UBSAN_OPTIONS:-}"
export TSAN_OPTIONS="allocator_may_return_null=1:second_deadlock_stack=1:${TSAN_OPTIONS:-}"
for name in $names; do
  started=$(date +%s)
  log=build/sanitize/$name.log
  cmake --preset "$name" -DEVOQ_TESTS=ON >/dev/null
  if [ -n "$quick" ]; then
    targets="" tests=""
    for room in $rooms; do
      if find "src/$room" -name '*_test.cc' | grep -q .; then
        targets="$targets evoq_${room}_test"
        filter=""
        if [ "$room" = kernels ]; then filter=$kernels; fi
        tests="$tests evoq_${room}_test$filter"
      fi
    done
    # shellcheck disable=SC2086
    cmake --build --preset "$name" -j "$jobs" --target $targets
    # shellcheck disable=SC2086
    set -- --only $tests
  else
    cmake --build --preset "$name" -j "$jobs"
    set --
  fi
  built=$(($(date +%s) - started))
  status=0
  {
    tools/run_tests.py "build/$name" --limit-s 1800 --jobs "$jobs" "$@" || echo "status $?"
  } 2>&1 | tee "$log"
  if grep -q '^status ' "$log"; then status=1; fi
  seconds=$(($(date +%s) - started))
  echo "$name: built in $built s, $seconds s in all"
  if [ "$status" -ne 0 ]; then exit 1; fi
  if [ -z "$quick" ]; then
    changes=""
    if [ -n "$(git status --porcelain 2>/dev/null)" ]; then changes="+changes"; fi
    stamp="$(git rev-parse HEAD)$changes $(date -u +%FT%TZ) $seconds s, $(tail -1 "$log")"
    echo "$stamp" > "build/sanitize/$name"
  fi
done
