#include "passes/example_shapes.h"

namespace evoq {

std::map<std::string, std::vector<int64_t>> ExampleShapes(const Graph& graph) {
  std::map<std::string, std::vector<int64_t>> shapes;
  std::map<std::string, int64_t> symbols;
  for (ValueId in : graph.inputs()) {
    const Shape& shape = graph.value(in).type.shape;
    if (!shape.ranked()) continue;
    auto& sizes = shapes[graph.value(in).name];
    for (int i = 0; i < shape.rank(); ++i) {
      const int64_t example = i == 0 ? 1 : 64;
      sizes.push_back(shape[i].known() ? shape[i].value
                      : shape[i].symbol.empty()
                          ? example
                          : symbols.emplace(shape[i].symbol, example).first->second);
    }
  }
  return shapes;
}

}  // namespace evoq
