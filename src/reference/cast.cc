// Cast and CastLike. Float to integer drops the fraction and saturates (NaN gives 0); integer to
// integer keeps the low bits; to bool is x != 0; float64 goes to narrower floats than float32
// through it, floats to integers of fewer than 8 bits through int64; numbers as text have at most 8
// digits.
#include "ops/cast.h"

#include <cmath>
#include <cstdlib>
#include <limits>

#include "reference/definition.h"
#include "reference/util.h"

namespace evoq {
namespace {

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
      for (int64_t i = 0; i < x.elements(); ++i)
        y.mutable_data<To>()[i] = ConvertElement<To>(x.data<From>()[i]);
      return y;
    });
  });
}

bool IsNarrowFloat(DType dtype) {
  return IsFloat(dtype) && dtype != DType::kFloat32 && dtype != DType::kFloat64;
}

Result<Tensor> Convert(const Tensor& x, DType to, const TinyRounding& r);

// Text as C's strtod reads it ("1e-3", "-INF", "NaN"); integers are read as such.
Result<Tensor> FromStrings(const Tensor& x, DType to, const TinyRounding& r) {
  const bool whole = IsInteger(to);
  Tensor wide = Tensor::Allocate(TensorType(whole ? DType::kInt64 : DType::kFloat64, x.shape()));
  for (int64_t i = 0; i < x.elements(); ++i) {
    const std::string& text = x.data<std::string>()[i];
    char* end = nullptr;
    if (whole) {
      wide.mutable_data<int64_t>()[i] = std::strtoll(text.c_str(), &end, 10);
    } else {
      wide.mutable_data<double>()[i] = std::strtod(text.c_str(), &end);
    }
    if (text.empty() || *end != 0)
      return InvalidInput("element {} is '{}', expected a number", i, text);
  }
  return Convert(wide, to, r);
}

std::string TextOf(double v) {
  if (std::isnan(v)) return "NaN";
  if (std::isinf(v)) return v < 0 ? "-INF" : "INF";
  return fmt::format("{:.8g}", v);
}

Result<Tensor> ToStrings(const Tensor& x, const TinyRounding& r) {
  Tensor y = Tensor::Allocate(TensorType(DType::kString, x.shape()));
  const bool real = IsFloat(x.dtype());
  EVOQ_ASSIGN(const Tensor wide, Convert(x, real ? DType::kFloat64 : DType::kInt64, r));
  for (int64_t i = 0; i < x.elements(); ++i)
    y.mutable_data<std::string>()[i] =
        real ? TextOf(wide.data<double>()[i]) : fmt::format("{}", wide.data<int64_t>()[i]);
  return y;
}

Result<Tensor> Convert(const Tensor& x, DType to, const TinyRounding& r) {
  if (x.dtype() == to) return x;
  if (x.dtype() == DType::kString) return FromStrings(x, to, r);
  if (to == DType::kString) return ToStrings(x, r);
  if (IsNarrowFloat(x.dtype())) {
    EVOQ_ASSIGN(const Tensor wide, ToFloat32(x));
    return Convert(wide, to, r);
  }
  if (DTypeBits(x.dtype()) < 8) return Convert(UnpackBits(x), to, r);
  if (IsNarrowFloat(to)) {
    EVOQ_ASSIGN(const Tensor wide, ConvertPlain(x, DType::kFloat32));
    return FromFloat32(wide, to, r.saturate, r.rounding);
  }
  if (DTypeBits(to) >= 8) return ConvertPlain(x, to);
  if (IsFloat(x.dtype())) {
    EVOQ_ASSIGN(const Tensor wide, ConvertPlain(x, DType::kInt64));
    return Convert(wide, to, r);
  }
  EVOQ_ASSIGN(const Tensor bytes, ConvertPlain(x, DType::kUint8));
  return PackBits(bytes, to);
}

EvalResult EvaluateCast(const EvalArgs& args) {
  EVOQ_ASSIGN(const TinyRounding rounding, TinyRoundingOf(args.node));
  EVOQ_ASSIGN(Tensor y, Convert(args.inputs[0], args.output_types[0].dtype, rounding));
  return One(std::move(y));
}

}  // namespace

namespace reference {

extern const Definition kCast = {.name = "Cast", .evaluate = EvaluateCast};
extern const Definition kCastLike = {.name = "CastLike", .evaluate = EvaluateCast};

}  // namespace reference
}  // namespace evoq
