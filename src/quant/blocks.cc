#include "quant/blocks.h"

#include <algorithm>
#include <map>

#include "reference/reference.h"

namespace evoq {
namespace {

class Cutter {
 public:
  Cutter(const Graph& graph, const std::set<std::string>& layers) : graph_(graph) {
    // Nodes that depend on a layer, in order, and which of them read each of their values last.
    for (NodeId id : graph.order()) {
      const Node& node = graph.node(id);
      const bool layer = layers.contains(node.name);
      const bool behind = std::ranges::any_of(
          node.inputs, [&](ValueId v) { return v.valid() && last_reader_.contains(v); });
      if (!layer && !behind) continue;
      for (ValueId v : node.inputs) {
        if (v.valid() && last_reader_.contains(v)) last_reader_[v] = nodes_.size();
      }
      for (ValueId v : node.outputs) {
        if (v.valid()) last_reader_[v] = nodes_.size();
      }
      nodes_.push_back(id);
      is_layer_.push_back(layer);
    }
  }

  Result<std::vector<Block>> Run(size_t least) {
    std::vector<Block> blocks;
    auto left = static_cast<size_t>(std::ranges::count(is_layer_, true));
    size_t begin = 0, layers = 0;
    ValueId carried;
    std::set<ValueId> open;  // what nodes behind i read of those up to it
    for (size_t i = 0; i < nodes_.size(); ++i) {
      layers += is_layer_[i] ? 1 : 0;
      left -= is_layer_[i] ? 1 : 0;
      const Node& node = graph_.node(nodes_[i]);
      for (ValueId v : node.outputs) {
        if (v.valid() && last_reader_.at(v) > i) open.insert(v);
      }
      std::erase_if(open, [&](ValueId v) { return last_reader_.at(v) == i; });
      const bool last = i + 1 == nodes_.size();
      const bool enough = layers >= least || (layers > 0 && left == 0);
      if (!last && !(enough && open.size() == 1 && IsReal(*open.begin()))) continue;
      const ValueId next = last ? ValueId() : *open.begin();
      EVOQ_ASSIGN(Block block, Cut(begin, i + 1, carried, next));
      blocks.push_back(std::move(block));
      carried = next;
      begin = i + 1;
      layers = 0;
    }
    return blocks;
  }

 private:
  bool IsReal(ValueId v) const {
    const TensorType& type = graph_.value(v).type;
    return type.is_tensor() && type.dtype == DType::kFloat32 && !type.quantized();
  }

  Result<Block> Cut(size_t begin, size_t end, ValueId carried, ValueId next) const {
    Block block;
    block.graph.name = graph_.name;
    std::map<ValueId, ValueId> copies;
    const auto input = [&](ValueId v) {
      const Value& value = graph_.value(v);
      copies[v] = value.is_constant() ? block.graph.AddConstant(value.name, value.constant)
                                      : block.graph.AddInput(value.name, value.type);
    };
    if (carried.valid()) {
      block.carried = graph_.value(carried).name;
      input(carried);
    }
    for (size_t i = begin; i < end; ++i) {
      Node node = graph_.node(nodes_[i]);
      if (is_layer_[i]) block.layers.push_back(node.name);
      for (ValueId& v : node.inputs) {
        if (!v.valid()) continue;
        if (!copies.contains(v)) input(v);
        v = copies.at(v);
      }
      for (ValueId& v : node.outputs) {
        if (!v.valid()) continue;
        const ValueId own = v;
        v = copies[own] = block.graph.AddValue(graph_.value(own).name, graph_.value(own).type);
        if (own == next || graph_.IsOutput(own)) block.graph.MarkOutput(v);
      }
      block.graph.AddNode(std::move(node));
    }
    EVOQ_TRY(block.graph.Sort());
    EVOQ_TRY(InferTypes(block.graph));
    return block;
  }

  const Graph& graph_;
  std::vector<NodeId> nodes_;  // that depend on a layer
  std::vector<bool> is_layer_;
  std::map<ValueId, size_t> last_reader_;  // places in nodes_; of the values that these compute
};

}  // namespace

Result<std::vector<Block>> BlocksOf(const Graph& graph, const std::set<std::string>& layers,
                                    size_t least) {
  return Cutter(graph, layers).Run(least);
}

}  // namespace evoq
