// Measurements that are saved to be compared later: what the programs `benchmark` and
// `perf_compare` do (docs/ascend.md).
#pragma once

#include <string>

#include "profile/compare.h"
#include "workflow/follow.h"
#include "workflow/told.h"

namespace evoq {

struct BenchmarkJob {
  std::string model, output;  // a model; the file to write, JSON whatever it is called
  int batch = 0;              // samples per run, where the model leaves it free
  int streams = 0;            // 0: what the model's file says, else 1
  int threads = 0;
  int64_t runs = 10;  // at least
  double warmup_ms = 200, duration_s = 3;
};

struct Benchmarked {
  std::string output;
  nlohmann::json bench;  // docs/cli.md's fields of `bench`
};

// Measures whole runs, and steps after them, and writes both. Errors: those of loading, of runs and
// of files.
Result<Benchmarked> Benchmark(const BenchmarkJob& job, const Follow& follow = {});
Told Tell(const Benchmarked& done);

struct PerfCompareJob {
  std::string baseline, optimized;  // files that Benchmark wrote
  std::string report;               // an HTML file to write; "": none
};

struct PerfCompared {
  nlohmann::json baseline, optimized;  // docs/cli.md's fields of `bench`
  Comparison result;                   // of `optimized` against `baseline`
  std::string report;
};

// Errors: kInvalidInput for files of another kind.
Result<PerfCompared> PerfCompare(const PerfCompareJob& job);
Told Tell(const PerfCompared& compared);

}  // namespace evoq
