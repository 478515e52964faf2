#include "passes/transposed.h"

#include <cstring>
#include <limits>

#include "passes/match.h"

namespace evoq {

Tensor Repeated(const Tensor& vector, int64_t times) {
  TensorType type = vector.type();
  type.shape = Shape{vector.elements() * times};
  Tensor to = Tensor::Allocate(type);
  for (int64_t i = 0; i < times; ++i)
    std::memcpy(to.mutable_raw() + static_cast<size_t>(i) * vector.bytes(), vector.raw(),
                vector.bytes());
  return to;
}

ValueId WithoutEdges(Graph& graph, const std::string& name, ValueId y,
                     const std::vector<int64_t>& first, const std::vector<int64_t>& cut) {
  std::vector<int64_t> ends, axes;
  bool whole = true;
  for (size_t i = 0; i < first.size(); ++i) {
    whole = whole && first[i] == 0 && cut[i] == 0;
    ends.push_back(cut[i] == 0 ? std::numeric_limits<int64_t>::max() : -cut[i]);
    axes.push_back(static_cast<int64_t>(i + 2));
  }
  if (whole) return y;
  TensorType type = graph.value(y).type;  // with its scale
  type.shape = Shape::UnknownRank();
  return graph.Apply("Slice", name + "_inner",
                     {y, AddInts(graph, name + "_first", first),
                      AddInts(graph, name + "_ends", ends), AddInts(graph, name + "_axes", axes)},
                     {}, type);
}

}  // namespace evoq
