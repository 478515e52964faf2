// What keeps OpenVINO's integers apart.
#include "foreign/profiles/rule.h"

namespace evoq {
namespace {

bool IsBytes(const ForeignTensor& tensor) { return BitsOf(tensor.precision) == 8; }

// Float convolutions and products by weights that the model has as integers.
std::vector<Loss> FindIntegerWeights(const ProfileCase& c) {
  std::vector<Loss> losses;
  for (size_t i = 0; i < c.run.layers.size(); ++i) {
    const ForeignLayer& layer = c.run.layers[i];
    const bool linear = layer.group == LayerGroup::kConv || layer.group == LayerGroup::kMatMul;
    if (linear && layer.inputs.size() > 1 && layer.inputs[1].of_integers)
      losses.push_back({i, layer.ms * NarrowingShare(layer)});
  }
  std::erase_if(losses, [](const Loss& loss) { return loss.ms <= 0; });
  return losses;
}

// What follows a Convert and only makes its float values integers again.
void AddRequantization(const ProfileCase& c, size_t layer, std::vector<Loss>& losses) {
  for (const size_t reader : c.wiring.Readers(layer)) {
    const ForeignLayer& next = c.run.layers[reader];
    if (next.type == "Reorder") AddRequantization(c, reader, losses);
    const bool writes_bytes = !next.outputs.empty() && IsBytes(next.outputs[0]);
    if (next.type == "Reorder" || next.conversion == Conversion::kQuantize ||
        (next.type == "Eltwise" && writes_bytes))
      losses.push_back({reader, next.ms});
  }
}

// Integers that one layer wrote and a Convert makes float, so that a zero point can be subtracted.
std::vector<Loss> FindZeroPoints(const ProfileCase& c) {
  std::vector<Loss> losses;
  for (size_t i = 0; i < c.run.layers.size(); ++i) {
    const ForeignLayer& layer = c.run.layers[i];
    if (layer.conversion != Conversion::kDequantize || layer.outputs.empty() ||
        !IsFloat(layer.outputs[0].precision) || c.wiring.Writers(i).empty())
      continue;
    losses.push_back({i, layer.ms});
    AddRequantization(c, i, losses);
  }
  return losses;
}

}  // namespace

extern const ProfileRule kRuleIntegerWeightsInFloat = {
    .code = "integer-weights-in-float",
    .tool = "openvino",
    .sentence =
        "Convolutions and matrix products compute in float although the model has their weights as "
        "integers: for uint8 weights, weights with a zero point, and ConvInteger and MatMulInteger "
        "there is no integer kernel; the weights become float when the model is loaded.",
    .fix =
        "Quantize weights to int8 with zero point 0, per output channel, and activations with "
        "QuantizeLinear and static scales.",
    .source =
        "OpenVINO 2026.4 on a CPU: of a ResNet-20 with uint8 weights all 19 convolutions compute "
        "in float, with int8 weights none",
    .find = FindIntegerWeights,
};

extern const ProfileRule kRuleZeroPoints = {
    .code = "zero-points-between",
    .tool = "openvino",
    .sentence =
        "What an integer layer wrote becomes float and is quantized again, because its zero point "
        "is not 0 and can be no part of the layer behind it.",
    .fix =
        "Quantize activations symmetrically (zero point 0; uint8 behind a Relu, ONNX Runtime's "
        "ActivationSymmetric with int8), and put no Q/DQ between a convolution and its activation.",
    .source =
        "OpenVINO 2026.4 on a CPU: of a ResNet-20 with zero points 20 Convert layers and 18 sums "
        "and activations in float remain, with symmetric activations none",
    .find = FindZeroPoints,
};

}  // namespace evoq
