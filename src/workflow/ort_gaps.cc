// Tried with ONNX Runtime 1.32 on its CPU provider: products of 2-bit weights were right with 4, 8,
// 12, ... 256 columns and noise with 7, 10 and 33, unless optimized at most to ORT_ENABLE_BASIC.
#include "workflow/ort_gaps.h"

#include "base/printable.h"
#include "graph/weight_bits.h"
#include "ops/roles.h"

namespace evoq {
namespace {

// Nodes with one gap: the first by name, how many.
struct Gap {
  std::string first;
  int count = 0;

  void Add(const Node& node) {
    if (count++ == 0) first = node.name;
  }
  std::string Where() const {
    return count > 1 ? FormatPrintable("{} and {} more", first, count - 1)
                     : FormatPrintable("{}", first);
  }
};

bool IsUneven(const Node& node, const Shape& weights) {
  const auto rank = weights.rank();
  return rank == 2 && weights[WeightAxis(node, rank)].value % 4 != 0;
}

}  // namespace

std::vector<std::string> OrtGaps(const Graph& graph) {
  Gap bfloats, float4, convolutions, products;
  for (NodeId id : graph.order()) {
    const Node& node = graph.node(id);
    for (ValueId v : node.outputs) {
      if (!v.valid() || graph.value(v).type.dtype != DType::kBfloat16) continue;
      bfloats.Add(node);
      break;
    }
    if (!IsWeighted(node) || !node.input(1).valid()) continue;
    const TensorType& weights = graph.value(node.input(1)).type;
    if (weights.dtype == DType::kFloat4E2M1) float4.Add(node);
    if (DTypeBits(weights.dtype) != 2 && WeightBitsOf(node) != 2) continue;
    if (weights.shape.rank() > 2) convolutions.Add(node);
    if (IsUneven(node, weights.shape)) products.Add(node);
  }
  std::vector<std::string> out;
  const std::pair<const Gap*, const char*> unloadable[] = {
      {&bfloats, "operators on bfloat16"},
      {&float4, "weights of float4"},
      {&convolutions, "convolutions with weights of 2 bits"}};
  for (const auto& [gap, what] : unloadable) {
    if (gap->count > 0)
      out.push_back(fmt::format("ONNX Runtime 1.32 does not load this file: it has no {} ({})",
                                what, gap->Where()));
  }
  if (products.count > 0)
    out.push_back(
        fmt::format("ONNX Runtime 1.32 computes products of 2-bit weights wrongly where their "
                    "columns are no multiple of 4 ({}); with graph optimizations at most "
                    "ORT_ENABLE_BASIC it computes them right",
                    products.Where()));
  return out;
}

}  // namespace evoq
