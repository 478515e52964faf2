#include "quant/method.h"
#include "quant/rounding_method.h"

namespace evoq {
namespace {

constexpr int kSweeps = 8;

Result<RoundedMatrix> Round(const RoundedLayer& layer) {
  RoundedMatrix rounded =
      layer.before != nullptr ? *layer.before : Nearest(layer.grid, layer.group, layer.w, {});
  Descend(layer.grid, layer.group, layer.w, layer.damped, kSweeps, layer.tools, rounded);
  return rounded;
}

}  // namespace

extern const QuantMethod kMethodQuantease = {
    .name = "quantease",
    .doc =
        "Coordinate descent on the error of each layer's results: numbers and scales in turn, from "
        "what a method before has chosen or from the nearest.",
    .paper = "Behdin et al. 2023, arXiv:2309.01885",
    .stage = MethodStage::kRounding,
    .needs_samples = true,
    .refuses = RoundsNoWeights,
    .run = [](MethodRun& run) { return RoundMatrices(run, Round); },
};

}  // namespace evoq
