#include "quant/method.h"
#include "quant/rounding_method.h"

namespace evoq {
namespace {

// Scales are chosen before any row is rounded, so that rows can be taken by size.
Result<RoundedMatrix> Round(const RoundedLayer& layer) {
  const RoundedMatrix nearest = layer.before != nullptr ? *layer.before : NearestBySize(layer);
  return Gptq(layer.grid, layer.w, layer.damped, nearest, layer.tools);
}

}  // namespace

extern const QuantMethod kMethodGptq = {
    .name = "gptq",
    .doc =
        "Weights are rounded row by row, those of the largest inputs first, each error made up for "
        "by the rows still to come.",
    .paper = "Frantar et al. 2022, arXiv:2210.17323; Li et al. 2025, arXiv:2504.02692",
    .stage = MethodStage::kRounding,
    .needs_samples = true,
    .refuses = RoundsNoWeights,
    .run = [](MethodRun& run) { return RoundMatrices(run, Round); },
};

}  // namespace evoq
