#!/bin/sh
# Runs every test binary and script of a build folder and adds up their counts: 'N passed, N failed, N skipped'.
#   tools/run_tests.sh BUILD_DIR
# Scripts are tests/*_test.py and tests/*/*_test.py; exit status 77 means skipped. They use build/venv's Python where it is.
set -u
cd "$(dirname "$0")/.."
build=$1
passed=0
failed=0
skipped=0
python=python3
if [ -x build/venv/bin/python ]; then python=build/venv/bin/python; fi
for binary in "$build"/evoq_*_test "$build"/tests/evoq_*_test; do
  [ -x "$binary" ] || continue
  echo "== $(basename "$binary")"
  output=$("$binary" --gtest_brief=1 2>&1)
  status=$?
  if [ "$status" -ne 0 ]; then echo "$output"; else echo "$output" | grep -E 'SKIPPED|Skipped|_test.cc:[0-9]+:' ; fi
  p=$(echo "$output" | sed -n 's/^\[  PASSED  \] \([0-9]*\) test.*/\1/p' | tail -n 1)
  s=$(echo "$output" | sed -n 's/^\[  SKIPPED \] \([0-9]*\) test.*/\1/p' | tail -n 1)
  f=$(echo "$output" | grep -c '^\[  FAILED  \] .* ms)$')
  passed=$((passed + ${p:-0}))
  skipped=$((skipped + ${s:-0}))
  if [ "$status" -ne 0 ] && [ "$f" -eq 0 ]; then f=1; echo "$binary ended with status $status"; fi
  failed=$((failed + f))
done
for script in tests/*_test.py tests/*/*_test.py; do
  [ -e "$script" ] || continue
  echo "== $script"
  EVOQ_BUILD="$build" "$python" "$script"
  case $? in
    0) passed=$((passed + 1)) ;;
    77) skipped=$((skipped + 1)) ;;
    *) failed=$((failed + 1)); echo "FAILED: $script" ;;
  esac
done
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
