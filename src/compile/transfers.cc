#include "compile/transfers.h"

#include <fmt/format.h>

#include <map>

#include "compile/roots.h"

namespace evoq {
namespace {

class Transfers {
 public:
  Transfers(Graph& graph, std::vector<const MemorySpace*> space_of)
      : graph_(graph),
        roots_(graph),
        values_(graph.value_count()),
        space_of_(std::move(space_of)) {}

  // Null for constants, which every memory has.
  const MemorySpace* SpaceOf(ValueId id) const {
    const Value& value = graph_.value(RootOf(id));
    if (value.is_constant()) return nullptr;
    return value.producer.valid() ? space_of_[value.producer.index] : &kHostMemory;
  }

  // The value, or its copy, in `space`.
  ValueId In(ValueId id, const MemorySpace* space) {
    const MemorySpace* const from = SpaceOf(id);
    if (from == nullptr || from == space) return id;
    const auto made = made_.find({id, space});
    if (made != made_.end()) return made->second;
    if (const ValueId root = RootOf(id); root != id)
      return made_[{id, space}] = View(In(root, space), id, space);
    const std::string name = fmt::format("copy_{}_to_{}", graph_.value(id).name, space->name);
    const bool apart = from != &kHostMemory && space != &kHostMemory;
    const ValueId copy = AddCopy(graph_, apart ? In(id, &kHostMemory) : id, name);
    const auto node = static_cast<size_t>(graph_.value(copy).producer.index);
    if (space_of_.size() <= node) space_of_.resize(node + 1, &kHostMemory);
    space_of_[node] = space;
    made_[{id, space}] = copy;
    return copy;
  }

  Result<std::vector<const MemorySpace*>> Run() {
    const std::vector<NodeId> order = graph_.order();
    for (NodeId id : order) {
      // By value: adding a copy moves the graph's nodes.
      const std::vector<ValueId> inputs = graph_.node(id).inputs;
      if (Roots::IsView(graph_, graph_.node(id)) || Roots::IsCopy(graph_, graph_.node(id)))
        continue;
      for (size_t i = 0; i < inputs.size(); ++i) {
        if (!inputs[i].valid()) continue;
        const ValueId here = In(inputs[i], space_of_[id.index]);
        if (here != inputs[i]) graph_.SetInput(id, i, here);
      }
    }
    for (size_t i = 0; i < graph_.outputs().size(); ++i) {
      const ValueId out = graph_.outputs()[i];
      if (const ValueId copy = In(out, &kHostMemory); copy != out) graph_.ReplaceOutput(i, copy);
    }
    EVOQ_TRY(graph_.Sort());
    return std::move(space_of_);
  }

 private:
  ValueId RootOf(ValueId id) const { return id.index < values_ ? roots_[id] : id; }

  // The copy of a value under the shape of a view of it.
  ValueId View(ValueId copy, ValueId of, const MemorySpace* space) {
    const TensorType type = graph_.value(of).type;
    if (graph_.value(copy).type == type) return copy;
    const std::string name = fmt::format("{}_in_{}", graph_.value(of).name, space->name);
    const ValueId shape = graph_.AddConstant(
        name + "_shape", Tensor::FromValues<int64_t>(Shape{type.shape.rank()}, type.shape.sizes()));
    return graph_.Apply("Reshape", name, {copy, shape}, Attrs::Of("allowzero", 1), type);
  }

  Graph& graph_;
  const Roots roots_;
  const int values_;  // that roots_ knows
  std::vector<const MemorySpace*> space_of_;
  std::map<std::pair<ValueId, const MemorySpace*>, ValueId> made_;
};

}  // namespace

Result<std::vector<const MemorySpace*>> AddTransfers(Graph& graph,
                                                     std::vector<const MemorySpace*> space_of) {
  return Transfers(graph, std::move(space_of)).Run();
}

}  // namespace evoq
