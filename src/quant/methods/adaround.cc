#include "quant/method.h"
#include "quant/rounding_method.h"

namespace evoq {
namespace {

Result<RoundedMatrix> Round(const RoundedLayer& layer) {
  RoundedMatrix rounded = layer.before != nullptr ? *layer.before : NearestBySize(layer);
  AdaRound(layer.grid, layer.w, layer.damped, layer.tools, rounded);
  return rounded;
}

}  // namespace

extern const QuantMethod kMethodAdaround = {
    .name = "adaround",
    .doc =
        "Whether each weight is rounded up or down is learned by gradient descent on the error of "
        "its layer's results, with the scales of a method before or those of the nearest.",
    .paper = "Nagel et al. 2020, arXiv:2004.10568",
    .stage = MethodStage::kRounding,
    .needs_samples = true,
    .refuses = RoundsNoWholeNumbers,
    .run = [](MethodRun& run) { return RoundMatrices(run, Round); },
};

}  // namespace evoq
