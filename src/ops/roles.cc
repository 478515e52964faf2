#include "ops/roles.h"

#include <algorithm>

#include "ops/op.h"

namespace evoq {
namespace {

int Positive(int axis, int rank) { return axis < 0 ? axis + rank : axis; }

// The other axis where the form's attribute swaps the two.
bool IsTransposed(const LinearForm& form, const Node& node) {
  return form.transposed != nullptr && node.attrs.Int(form.transposed) != 0;
}

}  // namespace

const LinearForm* LinearFormOf(const Node& node) {
  const OpDef* op = FindOp(node);
  return op == nullptr ? nullptr : op->linear;
}

Role RoleOf(const Node& node, size_t i) {
  const OpDef* op = FindOp(node);
  return op == nullptr || i >= op->roles.size() ? Role::kData : op->roles[i];
}

int InputWith(const OpDef& op, Role role) {
  const auto at = std::find(op.roles.begin(), op.roles.end(), role);
  return at == op.roles.end() ? -1 : static_cast<int>(at - op.roles.begin());
}

bool HasRealWeights(const Node& node) {
  const OpDef* op = FindOp(node);
  return op != nullptr && node.domain.empty() && InputWith(*op, Role::kWeight) >= 0 &&
         InputWith(*op, Role::kZeroPoint) < 0;
}

bool IsWeighted(const Node& node) {
  const OpDef* op = FindOp(node);
  return op != nullptr && op->quant == QuantTrait::kLinear && node.domain.empty();
}

bool IsLinear(const Node& node) {
  return IsWeighted(node) && InputWith(*FindOp(node), Role::kResidual) >= 0;
}

bool HasComputedOperand(const Graph& graph, const Node& node) {
  return IsLinear(node) && LinearFormOf(node)->two_operands &&
         graph.ConstantInput(node, 1) == nullptr;
}

int WeightAxis(const Node& node, int rank) {
  const LinearForm& form = *LinearFormOf(node);
  return Positive(IsTransposed(form, node) ? form.in_axis : form.out_axis, rank);
}

int ChannelAxis(const Node& node, int rank) {
  return Positive(LinearFormOf(node)->channel_axis, rank);
}

bool HasOneOutputAxis(const Node& node) {
  const LinearForm& form = *LinearFormOf(node);
  return !form.outputs_by_group || node.attrs.Int("group", 1) == 1;
}

bool IsConversion(const Node& node) {
  const OpDef* op = FindOp(node);
  return op != nullptr && op->conversion != PrecisionChange::kNone && op->outputs == 1;
}

namespace {
bool Converts(const Node& node, PrecisionChange conversion) {
  return IsConversion(node) && FindOp(node)->conversion == conversion;
}
}  // namespace

bool IsQuantize(const Node& node) { return Converts(node, PrecisionChange::kQuantize); }
bool IsDequantize(const Node& node) { return Converts(node, PrecisionChange::kDequantize); }

bool QuantizesOrDequantizes(const OpDef* op) {
  return op != nullptr && (op->conversion == PrecisionChange::kQuantize ||
                           op->conversion == PrecisionChange::kDequantize);
}

bool ComputesSixteenBits(const Graph& graph, const Node& node) {
  for (const auto* values : {&node.inputs, &node.outputs}) {
    for (const ValueId v : *values) {
      if (!v.valid()) continue;
      const TensorType& type = graph.value(v).type;
      if (type.quantized() && IsInteger(type.dtype) && DTypeBits(type.dtype) == 16) return true;
    }
  }
  return false;
}

int IndexInput(const Node& node) {
  const OpDef* op = FindOp(node);
  return op == nullptr ? -1 : op->indices;
}

bool GivesSizes(const Node& node) {
  const OpDef* op = FindOp(node);
  return op != nullptr && (op->axes == AxisUse::kShapeOf || op->axes == AxisUse::kSizeOf);
}

bool Gathers(const Node& node) {
  const OpDef* op = FindOp(node);
  return op != nullptr && op->axes == AxisUse::kGathered;
}

bool ReadsByIndex(const Node& node) { return IndexInput(node) >= 0; }

WeightIndex::WeightIndex(const Node& node, std::span<const int64_t> sizes) {
  const LinearForm& form = *LinearFormOf(node);
  const int rank = static_cast<int>(sizes.size());
  int out = Positive(form.out_axis, rank), in = Positive(form.in_axis, rank);
  if (IsTransposed(form, node)) std::swap(out, in);
  const auto stride = [&](int axis) {
    int64_t product = 1;
    for (int i = axis + 1; i < rank; ++i) product *= sizes[i];
    return product;
  };
  out_size_ = sizes[out], in_size_ = sizes[in];
  out_stride_ = stride(out), in_stride_ = stride(in);
  by_group_ = form.outputs_by_group;
  groups_ = form.grouped ? std::max<int64_t>(node.attrs.Int("group", 1), 1) : 1;
  outputs_ = by_group_ ? out_size_ * groups_ : out_size_;
  inputs_ = by_group_ ? in_size_ / groups_ : in_size_;
  taps_ = stride(std::max(out, in));
}

}  // namespace evoq
