// What operator files share: shapes and axes, checks, typed dispatch, simple inference
// functions.
#pragma once

#include <array>
#include <span>
#include <vector>

#include "ops/op.h"

namespace evoq {

using InferResult = Result<std::vector<TensorType>>;

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

}  // namespace evoq
