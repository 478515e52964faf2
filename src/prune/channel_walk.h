// The walk behind FollowChannels: each operator's effect on channels, from its row (ops/roles.h).
#pragma once

#include <optional>

#include "ops/op.h"
#include "prune/channels.h"

namespace evoq {

class ChannelWalk {
 public:
  ChannelWalk(const Graph& graph, bool follow_computed)
      : graph_(graph), follow_computed_(follow_computed) {}

  Channels Run();

 private:
  using Ids = std::vector<int32_t>;  // channels, which union-find makes groups of
  struct Along {
    int axis;
    Ids ids;
  };

  // What becomes of the channels that a node reads.
  void Visit(const Node& node);
  void VisitProduct(NodeId id, const Node& node);
  void VisitView(const Node& node);
  void VisitElementwise(const Node& node);
  void VisitSpatial(const Node& node);
  void VisitTransposed(const Node& node);
  void VisitAxis(const Node& node);
  void VisitConcat(const Node& node, int axis);
  void VisitSplit(NodeId id, const Node& node);
  void VisitReduced(const Node& node, const std::vector<int>& axes);
  void VisitListed(const Node& node);
  void VisitPad(const Node& node);
  void VisitGather(const Node& node);
  void VisitExpand(const Node& node);
  // Its channels cannot go: each of those that the node reads stays.
  void Stop(const Node& node, const std::string& why);

  // Input i has the channels `ids` along `axis` too: those of a constant are slices of it, those of
  // a value become the same. False where the sizes do not fit.
  bool Join(const Node& node, size_t i, int axis, const Ids& ids, bool scored = false,
            bool consumes = false);
  // The list of sizes at input i: followed, or a reason to stop.
  bool Sizes(const Node& node, size_t i, int axis, size_t channels);
  void Pass(const Node& node, int axis, Ids ids);  // to output 0
  // The axes that input i lists; without it all up to `count`. Nothing where they are computed.
  std::optional<std::vector<int>> AxesOf(const Node& node, size_t i, int count, int rank) const;
  std::optional<std::vector<int64_t>> Ints(ValueId id) const;
  void KnowLists();  // that nodes compute from constants: pads, axes, sizes
  const Along* Of(const Node& node, size_t i) const;
  const Shape& ShapeOf(ValueId id) const { return graph_.value(id).type.shape; }
  NodeId IdOf(const Node& node) const { return graph_.value(node.outputs[0]).producer; }

  int32_t Root(int32_t id);
  Ids Fresh(int64_t count);
  void Unite(int32_t a, int32_t b);
  void Fix(const Ids& ids, const std::string& why);
  void FixSharedConstants();
  void FixOutputs();
  void Number(Channels& out);

  struct Held {
    ChannelSlices slices;
    Ids ids;
    std::vector<std::pair<std::string, size_t>> readers;  // nodes and inputs
  };

  const Graph& graph_;
  const bool follow_computed_;
  std::vector<int32_t> parent_;
  std::vector<std::string> stays_;  // of roots
  std::map<ValueId, Along> values_;
  std::map<ValueId, Tensor> lists_;
  std::map<std::pair<ValueId, int>, Held> held_;  // by constant and axis
  struct Layer {
    NodeId node;
    ValueId weight;
    Ids outputs, inputs;
  };
  std::vector<Layer> layers_;
  Channels found_;
};

}  // namespace evoq
