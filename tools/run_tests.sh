#!/bin/sh
# Runs every test binary and script of a build folder and adds up their counts: 'N passed, N failed'.
#   tools/run_tests.sh BUILD_DIR
set -u
build=$1
passed=0
failed=0
for binary in "$build"/evoq_*_test "$build"/tests/evoq_*_test; do
  [ -x "$binary" ] || continue
  echo "== $(basename "$binary")"
  output=$("$binary" --gtest_brief=1 2>&1)
  status=$?
  echo "$output" | grep -v -E '^Running main|^\[==========\]|^\[  PASSED'
  p=$(echo "$output" | sed -n 's/^\[  PASSED  \] \([0-9]*\) test.*/\1/p' | tail -n 1)
  f=$(echo "$output" | grep -c '^\[  FAILED  \] .* ms)$')
  passed=$((passed + ${p:-0}))
  if [ "$status" -ne 0 ] && [ "$f" -eq 0 ]; then f=1; echo "$binary ended with status $status"; fi
  failed=$((failed + f))
done
for script in tests/*_test.sh tests/*_test.py; do
  [ -e "$script" ] || continue
  echo "== $script"
  case "$script" in
    *.py) EVOQ_BUILD="$build" python3 "$script" ;;
    *) EVOQ_BUILD="$build" sh "$script" ;;
  esac
  if [ $? -eq 0 ]; then passed=$((passed + 1)); else failed=$((failed + 1)); echo "FAILED: $script"; fi
done
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
