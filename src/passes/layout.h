// Moves Transposes through a graph by giving values a second, permuted form.
#pragma once

#include <map>
#include <set>
#include <utility>

#include "passes/match.h"

namespace evoq {

// A walk in execution order. A value that exists in permuted form u = Transpose(x, perm), because a
// Transpose or a channels-last operator made it so, lets its reader compute on u when the reader is
// indifferent to the order of axes: element-wise operators, quantization, Concat, Split, Slice,
// Pad, reductions, Softmax, and reshapes that only split, merge or drop neighbouring axes. The
// reader's output then has a permuted form too, and a Transpose back to the plain form, which dies
// when nobody wants it. What is left are the Transposes in front of readers that need the plain
// order.
class LayoutWalk {
 public:
  // With `channels_last`, spatial operators take the attribute channels_last=1, and only Transposes
  // to and from that layout start a permuted form; without, every Transpose does.
  LayoutWalk(Graph& graph, bool channels_last) : graph_(graph), channels_last_(channels_last) {}

  // Returns the number of operators that became channels-last. The graph needs Sort and
  // RemoveDeadNodes afterwards.
  int Run();

 private:
  struct Form {
    Permutation perm;
    ValueId value;  // Transpose(x, perm)
  };

  void Visit(NodeId id);
  void VisitTranspose(NodeId id);
  void VisitSpatial(NodeId id);
  // Operators that are as quick on planes: only neighbours make channels-last worth a Transpose.
  bool StaysPlain(NodeId id) const;
  // Fills ends_.
  void FindEnds();
  void VisitElementwise(NodeId id, const Permutation& perm);
  void VisitAxis(NodeId id,
                 const Permutation& perm);  // Concat, Split, Softmax, ArgMax, ...: attribute `axis`
  void VisitReduce(NodeId id, const Permutation& perm);  // input `axes`
  void SetAxes(NodeId id, const Permutation& perm, std::vector<int64_t> axes);
  void VisitSlice(NodeId id, const Permutation& perm);
  void VisitPad(NodeId id, const Permutation& perm);
  void VisitGather(NodeId id, const Permutation& perm);
  void VisitExpand(NodeId id, const Permutation& perm);
  void VisitShape(NodeId id, const Form& form);
  void VisitReshape(NodeId id, const Form& form);

  // The permuted form of x, made by a Transpose when there is none yet.
  ValueId Get(ValueId x, const Permutation& perm);
  const Form* FormOf(ValueId x) const;
  // The node's output i now holds the permuted form; a Transpose back makes the plain one.
  void SetPermuted(NodeId id, size_t i, const Permutation& perm);
  ValueId AddTranspose(ValueId x, const Permutation& perm);
  // Output 0 of a node that drops the `dropped` axes (sorted, of the plain order).
  void SetReduced(NodeId id, const Permutation& perm, const std::vector<int64_t>& dropped);
  const Shape& ShapeOf(ValueId x) const { return graph_.value(x).type.shape; }

  Graph& graph_;
  bool channels_last_;
  bool only_resizes_ = true;  // no other spatial operator
  int converted_ = 0;
  // Of what they give nothing is joined with other values or read by a spatial operator but Resize:
  // no Transpose that channels-last puts behind them can vanish.
  std::set<NodeId> ends_;
  std::map<ValueId, Form> forms_;                              // made by what computes the value
  std::map<std::pair<ValueId, Permutation>, ValueId> cached_;  // made by Get
};

// Transposes that move bytes.
int CountTransposes(const Graph& graph);

// The permutation of a reshaped value. Reshaping x (shape `from`) to `to` keeps groups of
// neighbouring axes together; of x in the order `perm`, `gathered` is the order of x's axes with
// each group together, and `result` the order of the reshaped axes that it gives. Nothing when the
// shapes do not tell the groups.
struct ReshapedPermutation {
  Permutation gathered, result;
};
std::optional<ReshapedPermutation> ReshapePermutation(Shape from, Shape to,
                                                      const Permutation& perm);

}  // namespace evoq
