#include "ops/util.h"

#include "ops/driver.h"
#include "reference/definition.h"
#include "reference/util.h"

namespace evoq {

InferResult InferFromValues(const EvalArgs& args) {
  const OpDef* op = FindOp(args.node);
  EVOQ_CHECK(op != nullptr, "{} has no row", args.node.op);
  std::vector<TensorType> types;
  std::vector<const Tensor*> constants;
  for (const Tensor& tensor : args.inputs) {
    types.push_back(tensor.type());
    constants.push_back(tensor.defined() ? &tensor : nullptr);
  }
  return op->infer(
      {.node = args.node, .inputs = types, .constants = constants, .evaluator = kNoEvaluator});
}

Result<int64_t> ElementBytes(const Tensor& tensor) {
  const int bits = DTypeBits(tensor.dtype());
  if (bits < 8 || tensor.dtype() == DType::kString)
    return Unsupported("element type {}, expected one of whole bytes", DTypeName(tensor.dtype()));
  return bits / 8;
}

Result<Tensor> AllocateOutput(const TensorType& type) {
  const auto bytes = type.bytes();
  if (!bytes || *bytes > kMaxTensorBytes)
    return Fail(ErrorCode::kTooLarge, "an output of {}", type.ToString());
  return Tensor::Allocate(type);
}

Result<Tensor> Permuted(const Tensor& x, const std::vector<int>& permutation) {
  const std::vector<int64_t> sizes = x.sizes(), strides = RowMajorStrides(sizes);
  EVOQ_CHECK(permutation.size() == sizes.size(), "{} axes, rank {}", permutation.size(),
             sizes.size());
  std::vector<int64_t> to_sizes, to_strides;
  for (int axis : permutation) {
    to_sizes.push_back(sizes[axis]);
    to_strides.push_back(strides[axis]);
  }
  if (DTypeBits(x.dtype()) < 8) {
    EVOQ_ASSIGN(const Tensor wide, Permuted(UnpackBits(x), permutation));
    return PackBits(wide, x.dtype());
  }
  return DispatchWidth(x.dtype(), [&](auto tag) -> Result<Tensor> {
    using T = decltype(tag);
    Tensor y = Tensor::Allocate(TensorType(x.dtype(), Shape(to_sizes)));
    const T* in = x.data<T>();
    T* out = y.mutable_data<T>();
    ForEachIndex<1>(to_sizes, {to_strides},
                    [&](int64_t i, const auto& offset) { out[i] = in[offset[0]]; });
    return y;
  });
}

Tensor UnpackBits(const Tensor& tensor) {
  const int bits = DTypeBits(tensor.dtype());
  if (bits >= 8) return tensor;
  const bool is_signed = IsInteger(tensor.dtype()) && IsSigned(tensor.dtype());
  Tensor wide =
      Tensor::Allocate(TensorType(is_signed ? DType::kInt8 : DType::kUint8, tensor.shape()));
  uint8_t* out = wide.mutable_data<uint8_t>();
  for (int64_t i = 0; i < tensor.elements(); ++i) {
    const uint8_t value = PackedBits(tensor.raw(), i, bits);
    out[i] =
        static_cast<uint8_t>(is_signed && value >> (bits - 1) ? value | (0xff << bits) : value);
  }
  return wide;
}

Tensor PackBits(const Tensor& tensor, DType dtype) {
  const int bits = DTypeBits(dtype);
  if (bits >= 8) return tensor.WithType(TensorType(dtype, tensor.shape()));
  Tensor packed = Tensor::Allocate(TensorType(dtype, tensor.shape()));
  const uint8_t* in = tensor.data<uint8_t>();
  for (int64_t i = 0; i < tensor.elements(); ++i)
    SetPackedBits(packed.mutable_raw(), i, bits, in[i]);
  return packed;
}

Result<Tensor> FromFloat32(const Tensor& tensor, DType dtype, bool saturate, Rounding rounding) {
  if (dtype == DType::kFloat32) return tensor;
  Tensor out = Tensor::Allocate(TensorType(dtype, tensor.shape()));
  const float* x = tensor.data<float>();
  if (IsTinyFloat(dtype)) {
    const int bits = DTypeBits(dtype);
    for (int64_t i = 0; i < tensor.elements(); ++i)
      SetPackedBits(out.mutable_raw(), i, bits, FloatToTinyFloat(dtype, x[i], saturate, rounding));
    return out;
  }
  for (int64_t i = 0; i < tensor.elements(); ++i) {
    switch (dtype) {
      case DType::kFloat16: out.mutable_data<uint16_t>()[i] = FloatToHalf(x[i]); break;
      case DType::kBfloat16: out.mutable_data<uint16_t>()[i] = FloatToBfloat16(x[i]); break;
      case DType::kFloat64: out.mutable_data<double>()[i] = x[i]; break;
      default: return Unsupported("float32 to {}", DTypeName(dtype));
    }
  }
  return out;
}
}  // namespace evoq
