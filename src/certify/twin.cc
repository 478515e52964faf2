#include "certify/twin.h"

#include <cmath>
#include <random>

#include "reference/reference.h"

namespace evoq {
namespace {

constexpr int64_t kPrinted = 8;  // as Print has it

// Vectors (biases, factors, variances) in [0.5, 1.5], weights so small that sums stay near 1
// whichever dimension they run over.
Tensor MadeUp(const TensorType& type, std::mt19937& random) {
  Tensor t = Tensor::Allocate(type);
  const std::vector<int64_t> sizes = t.sizes();
  const bool vector = sizes.size() < 2;
  const double most = vector ? 0
                             : static_cast<double>(t.elements()) /
                                   static_cast<double>(std::min(sizes.front(), sizes.back()));
  const double size = vector ? 0.5 : std::sqrt(3 / most);
  for (int64_t i = 0; i < t.elements(); ++i) {
    const double uniform = static_cast<double>(random()) * 0x1p-31 - 1;
    t.mutable_data<float>()[i] = static_cast<float>((vector ? 1 : 0) + size * uniform);
  }
  return t;
}

}  // namespace

std::string TwinText(const Graph& graph) { return Print(graph); }

Result<Graph> BuildTwin(std::string_view text) {
  EVOQ_ASSIGN(Graph graph, ParseGraph(text));
  std::mt19937 random(1);
  for (int i = 0; i < graph.value_count(); ++i) {
    const Value& value = graph.value(ValueId{i});
    if (!value.is_constant() || value.type.dtype != DType::kFloat32 ||
        value.constant.elements() <= kPrinted)
      continue;
    graph.SetConstant(ValueId{i}, MadeUp(value.type, random));
  }
  EVOQ_TRY(InferTypes(graph));
  EVOQ_TRY(graph.Verify());
  return graph;
}

}  // namespace evoq
