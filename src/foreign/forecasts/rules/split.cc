// Activations that the runtime does not take into the operator before them: each wants a pair on
// its input, as quant/unfuse.h places it (QdqTarget::split_activation) when the quantizer has
// calibrated that value.
#include <algorithm>
#include <cmath>

#include "foreign/forecasts/qdq.h"
#include "foreign/forecasts/rule.h"
#include "passes/match.h"

namespace evoq {
namespace {

// The type of x in y = f(x), from y's: numbers outside it saturate y or are within half a step of
// its bounds. An empty type where f is no function that ONNX Runtime computes on integers.
TensorType InputQuantType(const Graph& graph, const Node& node) {
  const TensorType* y = node.outputs.empty() ? nullptr : WrittenQuantType(graph, node.outputs[0]);
  if (y == nullptr || !y->quant->per_tensor() || DTypeBits(y->dtype) != 8) return {};
  const Shape& shape = graph.value(node.input(0)).type.shape;
  if (node.op == "LeakyRelu") {
    const double alpha = node.attrs.Float("alpha", 0.01f);
    return alpha > 0 && alpha <= 1
               ? QuantTypeFor(LowOf(*y) / alpha, HighOf(*y), y->dtype, false, shape)
               : TensorType();
  }
  if (node.op != "Sigmoid") return {};
  const double half = y->quant->scales[0] / 2.0, low = std::max(LowOf(*y), half),
               high = std::min(HighOf(*y), 1 - half);
  if (!(low < high)) return {};
  const auto logit = [](double p) { return std::log(p / (1 - p)); };
  return QuantTypeFor(logit(low), logit(high), y->dtype, false, shape);
}

std::vector<Fault> Find(const PlacementCase& c) {
  return FaultsWhere(c, [&](NodeId id, const Node& node) -> std::optional<Fault> {
    if (!c.IsFloat(id) || !node.domain.empty() || (node.op != "LeakyRelu" && node.op != "Sigmoid"))
      return std::nullopt;
    if (!IsActivation(c.graph, node.input(0)) || ReadQuantType(c.graph, node.input(0)) != nullptr)
      return std::nullopt;
    if (!InputQuantType(c.graph, node).quantized() || !NearIntegers(c, node)) return std::nullopt;
    return Fault{};
  });
}

Result<bool> Split(Graph& graph, const PlacementCase&, const Fault& fault) {
  const Node node = graph.node(fault.node);
  const TensorType type = InputQuantType(graph, node);
  if (!type.quantized()) return false;
  graph.SetInput(fault.node, 0, AddPair(graph, node.input(0), type));
  return true;
}

}  // namespace

extern const PlacementRule kPlaceActivationNotSplit = {
    .code = "activation-not-split",
    .runtimes = "ort-cpu",
    .sentence =
        "LeakyRelu or Sigmoid stands between an operator and its QuantizeLinear without a pair on "
        "its own input: both run in float.",
    .fix =
        "Q/DQ between the two: each is an integer operator of its own (the range follows from the "
        "result's).",
    .source = "ONNX Runtime 1.31 UnarySelector (QLinearLeakyRelu, QLinearSigmoid)",
    .find = Find,
    .repair = Split,
};

}  // namespace evoq
