#!/bin/sh
# Runs a fuzzer: run.sh NAME [SECONDS [BUILD]]. The corpus of onnx starts from small conformance models and from tests/must_fail,
# that of etm from models which the fuzzer makes; both stay in the build folder. Findings are files crash-*, oom-* and timeout-* there.
set -eu
name=$1
seconds=${2:-60}
root=$(cd "$(dirname "$0")/../.." && pwd)
build=${3:-$root/build/asan-ubsan}
data=${EVOQ_DATA:-$root/../shared/data}
corpus=$build/fuzz/$name
mkdir -p "$corpus/start" "$corpus/found"
if [ "$name" = onnx ]; then
  find "$data/onnx-backend-tests" -name model.onnx -size -4k 2>/dev/null | while read -r file; do
    cp -n "$file" "$corpus/start/$(basename "$(dirname "$file")").onnx"
  done
  cp "$root"/tests/must_fail/*.onnx "$corpus/start/"
fi
chmod -R u+w "$corpus/start"
cd "$corpus"
exec "$build/tests/fuzz/fuzz_$name" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=2048 -max_len=16384 \
  -keep_seed=1 -print_final_stats=1 found start
