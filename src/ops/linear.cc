#include "ops/linear.h"

#include "kernels/activation.h"
#include "ops/util.h"

namespace evoq {

Status CheckTable(const InferArgs& args, size_t i) {
  if (!args.has(i)) return {};
  const TensorType& table = args.inputs[i];
  if (table.dtype != DType::kUint8 && table.dtype != DType::kFloat32)
    return InvalidInput("table (input {}) is {}, expected uint8", i, table.ToString());
  if (!(table.shape == Shape{256}))
    return InvalidInput("table (input {}) is {}, expected 256 elements", i, table.ToString());
  return {};
}

Status CheckLinearExtras(const InferArgs& args, const Dim& channels, const Shape& y, bool table) {
  EVOQ_ASSIGN(const ProductActivation activation, ProductActivationFromAttrs(args.node.attrs));
  if (const auto wrong = channels.known() ? activation.WhyNot(channels.value) : std::nullopt)
    return InvalidInput("{}", *wrong);
  if (args.has(2)) {
    const TensorType& bias = args.inputs[2];
    if (!IsFloat(bias.dtype) && bias.dtype != DType::kInt32)
      return InvalidInput("bias (input 2) is {}, expected a float type or int32", bias.ToString());
    EVOQ_TRY(CheckRank(args, 2, 1));
    if (bias.shape.ranked() && bias.shape[0].known() && channels.known() &&
        bias.shape[0] != channels)
      return InvalidInput("bias (input 2) has {} elements, expected {}", bias.shape[0].value,
                          channels.value);
  }
  if (table) EVOQ_TRY(CheckTable(args, 4));
  if (!args.has(3)) return {};
  EVOQ_TRY(CheckFloat(args, 3));
  const Shape& residual = args.inputs[3].shape;
  if (!residual.ranked() || !y.ranked()) return {};
  bool agree = residual.rank() == y.rank();
  for (int i = 0; agree && i < y.rank(); ++i)
    agree = !y[i].known() || !residual[i].known() || y[i].value == residual[i].value;
  if (!agree)
    return InvalidInput("residual (input 3) is {}, expected {}", residual.ToString(), y.ToString());
  return {};
}

Result<DType> LinearOutputDType(const InferArgs& args) {
  const DType x = args.inputs[0].dtype;
  if (!args.node.attrs.Has("output_dtype")) return x;
  const int64_t wanted = args.node.attrs.Int("output_dtype");
  if (wanted == static_cast<int64_t>(DType::kFloat32) && IsFloat(x)) return DType::kFloat32;
  return InvalidInput(
      "attribute output_dtype is {} for {} inputs, expected 1 (float32) for a float type", wanted,
      DTypeName(x));
}

}  // namespace evoq
