#include "cli/common.h"
#include "cli/verb.h"
#include "workflow/benchmark.h"

namespace evoq {
namespace {

VerbRun Declare(const VerbOptions& options, const CommonOptions&) {
  auto job = std::make_shared<PerfCompareJob>();
  options.Add("--baseline", job->baseline, "What `benchmark` wrote of the model as it was")
      .Required();
  options.Add("--optimized", job->optimized, "What `benchmark` wrote of the optimized model")
      .Required();
  options.Add("--report", job->report,
              "Also write both side by side as one HTML file that opens offline");
  return [job]() -> Result<nlohmann::json> {
    EVOQ_ASSIGN(const PerfCompared compared, PerfCompare(*job));
    return Print(Tell(compared));
  };
}

}  // namespace

extern const VerbDef kVerbPerfCompare = {
    .name = "perf_compare",
    .doc = "Compares two files of benchmark, as the Ascend tool of that name.",
    .example =
        "evoq perf_compare --baseline=baseline_perf --optimized=optimized_perf "
        "--report=comparison.html",
    .declare = Declare,
};

}  // namespace evoq
