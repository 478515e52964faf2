#!/bin/sh
# Runs a fuzzer: run.sh NAME [--seconds S | --inputs N] [--build DIR]. Limits for each input: 5 s of
# processor time (300 s by the clock) and 1 GiB of memory, 256 MB for data. All start from crafted
# files (tests/craft) that the fuzzer makes and from tests/fuzz/corpus/NAME; onnx also from the
# conformance models, tests/must_fail and tests/bombs. The corpus grows in the build folder. Ends
# with the number of inputs; findings are files crash-*, oom-*, timeout-* there.
set -eu
name=$1
shift
root=$(cd "$(dirname "$0")/../.." && pwd)
build=$root/build/asan-ubsan
end="-max_total_time=60"
while [ $# -gt 0 ]; do
  case $1 in
    --seconds) end="-max_total_time=$2" ;;
    --inputs) end="-runs=$2" ;;
    --build) build=$(cd "$2" && pwd) ;;
    *) echo "run.sh: unknown option $1" >&2; exit 2 ;;
  esac
  shift 2
done
if [ ! -x "$build/tests/fuzz/fuzz_$name" ]; then
  echo "run.sh: $build/tests/fuzz/fuzz_$name is not built:" \
    "cmake --build $build --target fuzz_$name" >&2
  exit 2
fi
data=${EVOQ_DATA:-$root/../shared/data}
corpus=$build/fuzz/$name
mkdir -p "$corpus/start" "$corpus/found"
if [ "$name" = onnx ]; then
  find "$data/onnx-backend-tests" -name model.onnx -size -16k 2>/dev/null | while read -r file; do
    folder=${file%/*}
    start=$corpus/start/${folder##*/}.onnx
    if [ ! -e "$start" ]; then cp "$file" "$start"; fi
  done
  cp "$root"/tests/must_fail/*.onnx "$root"/tests/bombs/*.onnx "$corpus/start/"
fi
if [ -d "$root/tests/fuzz/corpus/$name" ]; then
  cp -n "$root/tests/fuzz/corpus/$name"/* "$corpus/start/"
fi
memory=1024
if [ "$name" = data ]; then memory=256; fi
resident=$memory
case $build in
  *asan*) resident=1024 ;;  # with what the sanitizer itself takes
  *tsan*) resident=4096 ;;
esac
leaks=1
# The server's threads allocate between inputs, which libFuzzer takes for a leak of each: looking
# for it took 90% of the time. serve_test.py looks for leaks at its end.
if [ "$name" = serve ]; then leaks=0; fi
chmod -R u+w "$corpus/start"
cd "$corpus"
export ASAN_OPTIONS="quarantine_size_mb=32:malloc_context_size=2:${ASAN_OPTIONS:-}"
exec "$build/tests/fuzz/fuzz_$name" "$end" -timeout=300 -rss_limit_mb=$resident \
  -malloc_limit_mb=$memory -max_len=16384 -mutate_depth=2 -keep_seed=1 -print_final_stats=1 \
  -detect_leaks=$leaks \
  found start
