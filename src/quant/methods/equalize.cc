#include "quant/equalize.h"

#include "quant/method.h"
#include "quant/plan.h"

namespace evoq {
namespace {

std::string Refuses(const QuantScheme& scheme, const QuantizeOptions& options) {
  if (scheme.values != DType::kUint8) return "it widens channels of integer activations";
  return options.per_channel ? "" : "weights with one scale (--per-tensor) would pay for it";
}

Status Run(MethodRun& run) {
  const QuantPlan plan = MakePlan(run.graph, run.ranges, run.options);
  EqualizeChannels(run.graph, plan.integer, run.ranges);
  return {};
}

}  // namespace

extern const QuantMethod kMethodEqualize = {
    .name = "equalize",
    .doc =
        "Channels that use little of an activation's range are scaled up where weights per channel "
        "make them and down where they are read. A default of int8.",
    .paper = "after Meller et al. 2019, arXiv:1902.01917",
    .stage = MethodStage::kFloat,
    .refuses = Refuses,
    .run = Run,
};

}  // namespace evoq
