#include "compile/batch.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "ops/op.h"

namespace evoq {
namespace {

class Follower {
 public:
  Follower(const Graph& graph, int64_t samples)
      : graph_(graph), samples_(samples), rows_(graph.value_count(), 0) {}

  bool Run() {
    for (ValueId id : graph_.inputs()) rows_[id.index] = 1;
    for (NodeId id : graph_.order()) {
      if (!Follow(graph_.node(id))) return false;
    }
    return std::all_of(graph_.outputs().begin(), graph_.outputs().end(),
                       [&](ValueId id) { return Carries(id); });
  }

 private:
  const Shape& ShapeOf(ValueId id) const { return graph_.value(id).type.shape; }
  bool Carries(ValueId id) const { return id.valid() && rows_[id.index] > 0; }
  bool CarriesAny(const Node& node) const {
    return std::any_of(node.inputs.begin(), node.inputs.end(),
                       [&](ValueId id) { return Carries(id); });
  }

  // Whether an output holds its samples one behind the other, and in how many rows each.
  bool Mark(ValueId id) {
    if (!id.valid()) return true;
    const Shape& shape = ShapeOf(id);
    if (!shape.ranked() || shape.rank() == 0 || shape[0].value % samples_ != 0) return false;
    rows_[id.index] = shape[0].value / samples_;
    return rows_[id.index] > 0;
  }

  bool Follow(const Node& node) {
    if (!CarriesAny(node)) return true;  // the same for every sample
    if (!Independent(node)) return false;
    for (ValueId id : node.outputs) {
      if (!Mark(id)) return false;
    }
    return true;
  }

  bool Independent(const Node& node) const {
    const OpDef* op = FindOp(node);
    if (op == nullptr || op->random || op->ranges_at_run_time)
      return false;  // ranges over the whole batch
    if (op->view) return Carries(node.input(0)) && OnlyInputZero(node);
    if (op->elementwise) return Broadcasts(node);
    if (HasTwoOperands(*op)) return MatMul(node);
    if (op->spatial) return SameRows(node, InputWith(*op, Role::kResidual));
    if (node.op == "Transpose") return Permutation(node);
    if (op->axes == AxisUse::kAttribute || op->axes == AxisUse::kAttributeReduced ||
        op->axes == AxisUse::kTrailing)
      return Axis(node, *op);
    return false;
  }

  bool OnlyInputZero(const Node& node) const {
    for (size_t i = 1; i < node.inputs.size(); ++i) {
      if (Carries(node.inputs[i])) return false;
    }
    return true;
  }

  // Input 0, and a residual at input `residual`, have the output's rows; nothing else carries
  // samples.
  bool SameRows(const Node& node, int residual) const {
    const Dim& rows = ShapeOf(node.outputs[0])[0];
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      if (!Carries(node.inputs[i])) continue;
      if ((i != 0 && static_cast<int>(i) != residual) || ShapeOf(node.inputs[i])[0] != rows)
        return false;
    }
    return Carries(node.input(0));
  }

  // Inputs that carry samples lie along axis 0 of the output; the others repeat along it.
  bool Broadcasts(const Node& node) const {
    const Shape& y = ShapeOf(node.outputs[0]);
    for (ValueId id : node.inputs) {
      if (!id.valid()) continue;
      const Shape& x = ShapeOf(id);
      const bool reaches = x.rank() == y.rank() && x.rank() > 0;
      if (Carries(id) ? !reaches || x[0] != y[0] : reaches && x[0].value != 1 && y[0].value != 1)
        return false;
    }
    return true;
  }

  // Rows of a are samples; b is the same for all of them, or holds a matrix for each.
  bool MatMul(const Node& node) const {
    const ValueId a = node.input(0), b = node.input(1);
    if (!Carries(a) || ShapeOf(a).rank() < 2 || ShapeOf(node.outputs[0])[0] != ShapeOf(a)[0])
      return false;
    if (node.input(2).valid() && Carries(node.input(2))) return false;
    if (node.input(3).valid() && Carries(node.input(3)) &&
        ShapeOf(node.input(3))[0] != ShapeOf(a)[0])
      return false;
    if (!Carries(b))
      return ShapeOf(b).rank() <= 2 ||
             (ShapeOf(b).rank() == ShapeOf(a).rank() && ShapeOf(b)[0].value == 1);
    return ShapeOf(b).rank() == ShapeOf(a).rank() && ShapeOf(a).rank() >= 3 &&
           ShapeOf(b)[0] == ShapeOf(a)[0];
  }

  static bool HasTwoOperands(const OpDef& op) {
    return op.linear != nullptr && op.linear->two_operands;
  }

  bool Permutation(const Node& node) const {
    const std::vector<int64_t> order = node.attrs.Ints("perm");
    return !order.empty() && order[0] == 0;
  }

  bool Axis(const Node& node, const OpDef& op) const {
    const int64_t rank = ShapeOf(node.input(0)).rank();
    const int64_t axis = node.attrs.Int("axis", op.default_axis);
    if ((axis < 0 ? axis + rank : axis) == 0) return false;
    if (op.max_inputs >= 0) return Carries(node.input(0)) && OnlyInputZero(node);
    // What does not carry samples would have to be repeated.
    return std::all_of(node.inputs.begin(), node.inputs.end(),
                       [&](ValueId id) { return Carries(id); });
  }

  const Graph& graph_;
  const int64_t samples_;
  std::vector<int64_t>
      rows_;  // by value: rows along axis 0 for each sample; 0 when it is the same for all
};

}  // namespace

int64_t IndependentSamples(const Graph& bound) {
  int64_t samples = 0;
  for (ValueId id : bound.inputs()) {
    const Shape& shape = bound.value(id).type.shape;
    if (!shape.ranked() || shape.rank() == 0 || !shape[0].known()) return 1;
    if (samples != 0 && shape[0].value != samples) return 1;
    samples = shape[0].value;
  }
  if (samples < 2) return 1;
  return Follower(bound, samples).Run() ? samples : 1;
}

}  // namespace evoq
