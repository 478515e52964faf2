// Cast and CastLike. Float to integer drops the fraction and saturates (NaN gives 0); integer to integer keeps the low
// bits; to bool is x != 0; float64 goes to the 16-bit floats through float32, floats to the 4-bit integers through int64.
#include <cmath>
#include <limits>

#include "ops/op.h"
#include "ops/util.h"

namespace evoq {
namespace {

InferResult InferCast(const InferArgs& args) {
  if (!args.node.attrs.Has("to")) return InvalidInput("attribute to is missing");
  EVOQ_ASSIGN(const int64_t to, IntAttr(args.node, "to", 0));
  const auto dtype = to > 0 && to < 1000 ? DTypeFromOnnx(static_cast<int>(to)) : std::nullopt;
  if (!dtype) return Unsupported("cast to ONNX element type {}", to);
  return std::vector<TensorType>{TensorType(*dtype, args.inputs[0].shape)};
}

InferResult InferCastLike(const InferArgs& args) {
  return std::vector<TensorType>{TensorType(args.inputs[1].dtype, args.inputs[0].shape)};
}

template <typename To, typename From>
To ConvertElement(From x) {
  if constexpr (std::is_same_v<To, bool>) {
    return x != 0;
  } else if constexpr (std::is_integral_v<To> && std::is_floating_point_v<From>) {
    // The limits as floats: the minimum is exact, the maximum may round up to one past it.
    constexpr From kLow = static_cast<From>(std::numeric_limits<To>::min());
    constexpr From kHigh = static_cast<From>(std::numeric_limits<To>::max());
    if (!(x == x)) return 0;
    if (x <= kLow) return std::numeric_limits<To>::min();
    if (x >= kHigh) return std::numeric_limits<To>::max();
    return static_cast<To>(x);
  } else {
    return static_cast<To>(x);
  }
}

// To and from types with whole-byte elements that C++ knows.
Result<Tensor> ConvertPlain(const Tensor& x, DType to) {
  if (x.dtype() == to) return x;
  return DispatchElement(x.dtype(), [&](auto from_tag) {
    return DispatchElement(to, [&](auto to_tag) -> Result<Tensor> {
      using From = decltype(from_tag);
      using To = decltype(to_tag);
      EVOQ_ASSIGN(Tensor y, AllocateOutput(TensorType(to, x.shape())));
      for (int64_t i = 0; i < x.elements(); ++i) y.mutable_data<To>()[i] = ConvertElement<To>(x.data<From>()[i]);
      return y;
    });
  });
}

bool IsSmallFloat(DType dtype) { return dtype == DType::kFloat16 || dtype == DType::kBfloat16; }

Result<Tensor> Convert(const Tensor& x, DType to) {
  if (x.dtype() == to) return x;
  if (IsSmallFloat(x.dtype())) {
    EVOQ_ASSIGN(const Tensor wide, ToFloat32(x));
    return Convert(wide, to);
  }
  if (DTypeBits(x.dtype()) == 4) return Convert(UnpackNibbles(x), to);
  if (IsSmallFloat(to)) {
    EVOQ_ASSIGN(const Tensor wide, ConvertPlain(x, DType::kFloat32));
    return FromFloat32(wide, to);
  }
  if (DTypeBits(to) != 4) return ConvertPlain(x, to);
  if (IsFloat(x.dtype())) {
    EVOQ_ASSIGN(const Tensor wide, ConvertPlain(x, DType::kInt64));
    return Convert(wide, to);
  }
  EVOQ_ASSIGN(const Tensor bytes, ConvertPlain(x, DType::kUint8));
  return PackNibbles(bytes, to);
}

EvalResult EvaluateCast(const EvalArgs& args) {
  EVOQ_ASSIGN(const std::vector<TensorType> types, InferFromValues(args, InferCast));
  EVOQ_ASSIGN(Tensor y, Convert(args.inputs[0], types[0].dtype));
  return One(std::move(y));
}

EvalResult EvaluateCastLike(const EvalArgs& args) {
  EVOQ_ASSIGN(Tensor y, Convert(args.inputs[0], args.inputs[1].dtype()));
  return One(std::move(y));
}

}  // namespace

extern const OpDef kCast = {.name = "Cast", .elementwise = true, .infer = InferCast, .evaluate = EvaluateCast};
extern const OpDef kCastLike = {.name = "CastLike", .min_inputs = 2, .max_inputs = 2, .elementwise = true,
                                .infer = InferCastLike, .evaluate = EvaluateCastLike};

}  // namespace evoq
