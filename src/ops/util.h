// What operator files share: shapes and axes, typed dispatch, simple inference functions, element
// conversions.
#pragma once

#include <array>
#include <functional>
#include <span>
#include <utility>
#include <vector>

#include "ops/op.h"

namespace evoq {

using InferResult = Result<std::vector<TensorType>>;
using EvalResult = Result<std::vector<Tensor>>;

// ---- shapes and axes

// Numpy broadcasting, right-aligned. A dimension that is unknown on one side takes the other side's
// size when that is greater than 1, its own symbol when that is 1. Unknown rank if either has it.
// Errors: kInvalidInput naming both shapes.
Result<Shape> BroadcastShapes(const Shape& a, const Shape& b);

// Element strides that read a row-major tensor of `from` sizes as if broadcast to `to` sizes (0
// where repeated).
std::vector<int64_t> BroadcastStrides(const std::vector<int64_t>& from,
                                      const std::vector<int64_t>& to);

// NormalizeAxis of each. Errors: kInvalidInput when one is out of range or named twice.
Result<std::vector<int>> NormalizeAxes(std::span<const int64_t> axes, int rank);

// Sizes before, of and after one axis: index = (outer * size + i) * inner_size + inner.
struct AxisSplit {
  int64_t outer = 1, size = 1, inner = 1;
};
AxisSplit SplitAt(std::span<const int64_t> sizes, int axis);

// Calls body(i, offsets) for every index of `sizes` in row-major order; offsets[k] = sum_d index[d]
// * strides[k][d].
template <size_t N, typename Body>
void ForEachIndex(const std::vector<int64_t>& sizes,
                  const std::array<std::vector<int64_t>, N>& strides, const Body& body) {
  int64_t total = 1;
  for (int64_t s : sizes) total *= s;
  std::vector<int64_t> index(sizes.size(), 0);
  std::array<int64_t, N> offsets{};
  for (int64_t i = 0; i < total; ++i) {
    body(i, offsets);
    for (size_t d = sizes.size(); d-- > 0;) {
      for (size_t k = 0; k < N; ++k) offsets[k] += strides[k][d];
      if (++index[d] < sizes[d]) break;
      for (size_t k = 0; k < N; ++k) offsets[k] -= strides[k][d] * sizes[d];
      index[d] = 0;
    }
  }
}

// ---- checks of infer functions. Messages name the input; the driver puts the node in front.

// Errors unless input i has rank `rank` (an unknown rank passes).
Status CheckRank(const InferArgs& args, size_t i, int rank);
// Errors unless input i is omitted or of one of these types.
Status CheckDType(const InferArgs& args, size_t i, std::span<const DType> allowed);
// Errors unless input i is omitted or of type float16, bfloat16, float32 or float64.
Status CheckFloat(const InferArgs& args, size_t i);

// The elements of input i, when it is a constant integer tensor; nothing when it is omitted or not
// constant.
Result<std::optional<std::vector<int64_t>>> ConstantInts(const InferArgs& args, size_t i);

// An integer attribute. Errors: kInvalidInput when it is there but of another kind.
Result<int64_t> IntAttr(const Node& node, const std::string& name, int64_t fallback);
Result<float> FloatAttr(const Node& node, const std::string& name, float fallback);
Result<std::vector<int64_t>> IntsAttr(const Node& node, const std::string& name,
                                      std::vector<int64_t> fallback = {});

// ---- whole inference functions

InferResult SameAsInput0(const InferArgs& args);  // one output: input 0's type
InferResult BroadcastInputs(
    const InferArgs& args);  // input 0's dtype, all inputs' shapes broadcast; dtypes must agree
InferResult BroadcastToBool(
    const InferArgs& args);  // bool, all inputs' shapes broadcast; dtypes must agree
InferResult FloatSameAsInput0(const InferArgs& args);  // SameAsInput0 for a float input only

// ---- typed dispatch: body(T{}) with the element type; the body returns a Result. kUnsupported for
// other types (the 16-bit floats are among them: the driver computes those in float32).

template <typename Body>
auto DispatchFloat(DType dtype, Body&& body) -> decltype(body(float{})) {
  switch (dtype) {
    case DType::kFloat32: return body(float{});
    case DType::kFloat64: return body(double{});
    default: return Unsupported("element type {}, expected float32 or float64", DTypeName(dtype));
  }
}

template <typename Body>
auto DispatchInteger(DType dtype, Body&& body) -> decltype(body(int32_t{})) {
  switch (dtype) {
    case DType::kUint8: return body(uint8_t{});
    case DType::kInt8: return body(int8_t{});
    case DType::kUint16: return body(uint16_t{});
    case DType::kInt16: return body(int16_t{});
    case DType::kInt32: return body(int32_t{});
    case DType::kInt64: return body(int64_t{});
    case DType::kUint32: return body(uint32_t{});
    case DType::kUint64: return body(uint64_t{});
    default:
      return Unsupported("element type {}, expected an integer type of 8 to 64 bits",
                         DTypeName(dtype));
  }
}

// Integers, float32 and float64.
template <typename Body>
auto DispatchNumber(DType dtype, Body&& body) -> decltype(body(float{})) {
  if (dtype == DType::kFloat32) return body(float{});
  if (dtype == DType::kFloat64) return body(double{});
  return DispatchInteger(dtype, body);
}

// Numbers and bool.
template <typename Body>
auto DispatchElement(DType dtype, Body&& body) -> decltype(body(float{})) {
  if (dtype == DType::kBool) return body(bool{});
  return DispatchNumber(dtype, body);
}

// For operators that only move elements: an unsigned integer of the element's width. Fewer than 8
// bits, strings: the driver brings them into integers (evaluate.cc).
template <typename Body>
auto DispatchWidth(DType dtype, Body&& body) -> decltype(body(uint8_t{})) {
  switch (DTypeBits(dtype)) {
    case 8: return body(uint8_t{});
    case 16: return body(uint16_t{});
    case 32: return body(uint32_t{});
    case 64: return body(uint64_t{});
    default: return Unsupported("element type {}, expected one of whole bytes", DTypeName(dtype));
  }
}

// ---- evaluation. The driver infers again from the tensors at hand, so `args.output_types` fit the
// inputs.

// Types that `infer` gives for the tensors at hand, all of them taken as constants.
InferResult InferFromValues(const EvalArgs& args, InferResult (*infer)(const InferArgs&));

// Bytes of one element. Errors: kUnsupported for the 4-bit types.
Result<int64_t> ElementBytes(const Tensor& tensor);

// Zero-filled. Errors: kTooLarge when the type is not static or absurdly large.
Result<Tensor> AllocateOutput(const TensorType& type);

// One output.
inline EvalResult One(Tensor tensor) {
  std::vector<Tensor> outputs;
  outputs.push_back(std::move(tensor));
  return outputs;
}

// `x` with axes in the order `permutation`: y[i_0, ...] = x at axis permutation[d] = i_d. For
// whole-byte types.
Result<Tensor> Permuted(const Tensor& x, const std::vector<int>& permutation);

// The elements of a type of fewer than 8 bits, each in a byte: int8 for a signed integer type, else
// uint8. Same shape, no quantization. Other types pass unchanged.
Tensor UnpackBits(const Tensor& tensor);
// The inverse, keeping the low bits: `dtype` has at most 8.
Tensor PackBits(const Tensor& tensor, DType dtype);

// float32 -> any floating-point type, to nearest even (FloatToTinyFloat says what `saturate` and
// `rounding` mean).
Result<Tensor> FromFloat32(const Tensor& tensor, DType dtype, bool saturate = true,
                           Rounding rounding = Rounding::kUp);

}  // namespace evoq
