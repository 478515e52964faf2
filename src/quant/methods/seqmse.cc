// Sequential MSE, as the AI Model Efficiency Toolkit (AIMET) has it:
// layer by layer, on the inputs that the layers before give with their weights rounded, scales are
// taken of the least squared error to what the float model gives.
#include "quant/method.h"
#include "quant/rounding_method.h"
#include "quant/scale_search.h"

namespace evoq {
namespace {

Result<RoundedMatrix> Round(const RoundedLayer& layer) {
  RoundedMatrix rounded =
      layer.before != nullptr ? *layer.before : Nearest(layer.grid, layer.group, layer.w, {});
  SearchScales(layer.grid, layer.group, layer.w, layer.damped, BesideBlock::kErrors, layer.tools,
               rounded);
  return rounded;
}

}  // namespace

extern const QuantMethod kMethodSeqmse = {
    .name = "seqmse",
    .doc =
        "Sequential MSE: layer by layer, on inputs of layers already rounded, the scale of each "
        "block or channel becomes the one whose nearest numbers, beside those of the other blocks, "
        "give the layer the least error to the float model's results.",
    .paper = "AIMET, Sequential MSE (quic.github.io/aimet-pages)",
    .stage = MethodStage::kRounding,
    .needs_samples = true,
    .refuses = HasNoScales,
    .run = [](MethodRun& run) { return RoundMatrices(run, Round); },
};

}  // namespace evoq
