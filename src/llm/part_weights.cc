#include "llm/part_weights.h"

#include <algorithm>
#include <set>

#include "kernels/layout.h"
#include "llm/language_model.h"
#include "llm/parts.h"

namespace evoq {
namespace {

// Bytes of scales as files hold them: two each where float16 holds all, else four. One scale counts
// for nothing.
int64_t ScaleBytes(const Tensor& constant) {
  const TensorType& type = constant.type();
  if (!type.quantized()) return 0;
  if (type.quant->inside)
    return FindLayout(constant.layout())->scale_bytes(type, constant.layout()).scales;
  if (type.quant->scales.size() < 2) return 0;
  const std::vector<float>& scales = type.quant->scales;
  const bool halves = std::ranges::all_of(
      scales, [](float scale) { return HalfToFloat(FloatToHalf(scale)) == scale; });
  return static_cast<int64_t>(scales.size()) * (halves ? 2 : 4);
}

}  // namespace

std::vector<PartWeights> WeightsByPart(const Graph& graph) {
  std::vector<PartWeights> all;
  std::set<const void*> seen;
  for (int i = 0; i < graph.value_count(); ++i) {
    const Value& v = graph.value(ValueId{i});
    if (!v.is_constant() || v.users.empty()) continue;
    if (!v.type.quantized() && !IsFloat(v.type.dtype)) continue;
    const std::string part = PartOf(graph, ValueId{i});
    auto found = std::ranges::find(all, part, &PartWeights::part);
    if (found == all.end()) found = all.insert(all.end(), PartWeights{.part = part});
    const int64_t elements =
        IsTiedHead(graph, ValueId{i}) ? 0 : v.type.shape.elements().value_or(0);
    found->parameters += elements;
    // Two constants may be views of the same bytes of a file.
    if (seen.insert(v.constant.raw()).second)
      found->bytes += BytesWithScales(v.constant) - ScaleBytes(v.constant);
    found->scale_bytes += ScaleBytes(v.constant);
    found->precisions[DTypeName(v.type.dtype)] += elements;
  }
  const auto place = [](const PartWeights& w) {
    const std::string first = w.part.substr(0, w.part.find(" + "));
    return std::pair(std::ranges::find(ModelParts(), first) - ModelParts().begin(), w.part);
  };
  std::ranges::sort(all, {}, place);
  return all;
}

bool IsTiedHead(const Graph& graph, ValueId constant) {
  return graph.metadata.contains(kTiedFact) && graph.value(constant).type.shape.rank() == 2 &&
         PartOf(graph, constant) == "head";
}

int64_t BytesWithScales(const Tensor& constant) {
  const TensorType& type = constant.type();
  const auto bytes = static_cast<int64_t>(constant.bytes());
  return type.quantized() && type.quant->inside ? bytes : bytes + ScaleBytes(constant);
}

}  // namespace evoq
