// DynamicQuantizeLSTM of com.microsoft: LSTM on data that is rounded when it runs.
#include <algorithm>

#include "kernels/gemm/blocks/block_data.h"
#include "onnx/upgrade.h"

namespace evoq {
namespace {

// Inputs (x, W, R, B?, lengths?, h?, c?, P?, scale of W, zero point, scale of R, zero point).
constexpr size_t kOfLstm = 8;

// W [directions, K, rows] with a scale and zero point for each direction, or each row, as
// DequantizeLinear of [directions, rows, K].
Result<ValueId> RowsOf(Upgrade& u, const std::string& name, size_t input, size_t scale_input) {
  const Tensor *w = u.Constant(input), *scale = u.Constant(scale_input),
               *zero = u.Constant(scale_input + 1);
  if (w == nullptr || scale == nullptr || zero == nullptr)
    return Unsupported("weights that are not constant");
  if ((w->dtype() != DType::kInt8 && w->dtype() != DType::kUint8) || w->shape().rank() != 3)
    return InvalidInput("input {} is {}, expected int8 or uint8 of rank 3", input,
                        w->type().ToString());
  const std::vector<int64_t> sizes = w->sizes();
  const int64_t directions = sizes[0], depth = sizes[1], rows = sizes[2];
  const bool by_direction = scale->elements() == directions && scale->shape().rank() <= 1;
  if (scale->dtype() != DType::kFloat32 ||
      (!by_direction && scale->elements() != directions * rows))
    return InvalidInput("input {} is {}, expected float32 of {} or {} scales", scale_input,
                        scale->type().ToString(), directions, directions * rows);
  if (zero->dtype() != w->dtype() || zero->elements() != scale->elements())
    return InvalidInput("input {} is {}, expected {} of {} elements", scale_input + 1,
                        zero->type().ToString(), DTypeName(w->dtype()), scale->elements());
  Tensor turned = Tensor::Allocate(TensorType(w->dtype(), Shape{directions, rows, depth}));
  for (int64_t d = 0; d < directions; ++d) {
    for (int64_t k = 0; k < depth; ++k) {
      for (int64_t n = 0; n < rows; ++n)
        turned.mutable_raw()[(d * rows + n) * depth + k] = w->raw()[(d * depth + k) * rows + n];
    }
  }
  Attrs attrs;
  Shape shape{scale->elements()};
  if (by_direction) {
    attrs.Set("axis", 0);
  } else if (directions == 1) {
    attrs.Set("axis", 1);
  } else {
    attrs.Set("axis", 2);
    attrs.Set("block_size", depth);
    shape = Shape{directions, rows, 1};
  }
  return u.Apply(
      "DequantizeLinear", name + "_real",
      {u.AddConstant(name, std::move(turned)),
       u.AddConstant(name + "_scale", scale->Clone().WithType(TensorType(DType::kFloat32, shape))),
       u.AddConstant(name + "_zero", zero->Clone().WithType(TensorType(zero->dtype(), shape)))},
      std::move(attrs));
}

Status DynamicLstm(Upgrade& u) {
  for (size_t i : {0, 1, 2, 8, 9, 10, 11}) {
    if (!u.HasInput(i)) return InvalidInput("input {} is missing", i);
  }
  EVOQ_ASSIGN(const ValueId w, RowsOf(u, "W", 1, 8));
  EVOQ_ASSIGN(const ValueId r, RowsOf(u, "R", 2, 10));
  Node lstm = u.node();
  const std::vector<int64_t> w_sizes = u.Constant(1)->sizes(), r_sizes = u.Constant(2)->sizes();
  lstm.op = "LSTM";
  lstm.domain = "";
  lstm.inputs.resize(kOfLstm);
  lstm.inputs[1] = w, lstm.inputs[2] = r;
  while (!lstm.inputs.back().valid()) lstm.inputs.pop_back();
  // ONNX Runtime rounds all of the data with one scale; here each row has its own.
  lstm.attrs.Set(kDataBlock, std::max({w_sizes[1], r_sizes[1], int64_t{1}}));
  u.graph().RemoveNode(u.id());
  u.AddNode(std::move(lstm));
  return {};
}

constexpr UpgradeRule kRules[] = {
    {"DynamicQuantizeLSTM", "com.microsoft", kAnyVersion, DynamicLstm},
};

}  // namespace

std::span<const UpgradeRule> RecurrentRules() { return kRules; }

}  // namespace evoq
