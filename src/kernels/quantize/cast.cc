// Cast between plain element types. Float to integer truncates toward zero, saturates and takes NaN
// to 0; to bool is x != 0; integer to a narrower integer keeps the low bits, as C++ does.
#include <limits>

#include "kernels/bf16/bf16.h"
#include "kernels/call_util.h"
#include "kernels/parallel.h"
#include "kernels/quantize/half.h"

namespace evoq {
namespace {

struct Half {
  uint16_t bits;
};
struct Bfloat {
  uint16_t bits;
};

template <typename T>
inline auto Value(T x) {
  return x;
}
inline float Value(Half x) { return HalfToFloat(x.bits); }
inline float Value(Bfloat x) { return Bfloat16ToFloat(x.bits); }

template <typename To, typename From>
inline To CastTo(From x) {
  if constexpr (std::is_same_v<To, Half>) {
    return Half{FloatToHalf(static_cast<float>(x))};
  } else if constexpr (std::is_same_v<To, Bfloat>) {
    return Bfloat{FloatToBfloat16(static_cast<float>(x))};
  } else if constexpr (std::is_same_v<To, bool>) {
    return x != From{0};
  } else if constexpr (std::is_floating_point_v<From> && std::is_integral_v<To>) {
    // The bound above is 2^digits: exact in every float type.
    constexpr From kHigh = static_cast<From>(std::numeric_limits<To>::max() / 2 + 1) * 2;
    constexpr From kLow = static_cast<From>(std::numeric_limits<To>::min());
    if (x != x) return 0;
    if (x >= kHigh) return std::numeric_limits<To>::max();
    if (x <= kLow) return std::numeric_limits<To>::min();
    return static_cast<To>(x);
  } else {
    return static_cast<To>(x);
  }
}

using CastFn = void (*)(const void* x, void* y, int64_t begin, int64_t end);

template <typename From, typename To>
void Loop(const void* x, void* y, int64_t begin, int64_t end) {
  const auto* from = static_cast<const From*>(x);
  auto* to = static_cast<To*>(y);
  for (int64_t i = begin; i < end; ++i) to[i] = CastTo<To>(Value(from[i]));
}

// Calls visit(T{}) for the element type of `dtype`; returns nullptr for a type that cannot be cast.
template <typename Visit>
CastFn ForType(DType dtype, const Visit& visit) {
  switch (dtype) {
    case DType::kFloat32: return visit(float{});
    case DType::kFloat64: return visit(double{});
    case DType::kFloat16: return visit(Half{});
    case DType::kBfloat16: return visit(Bfloat{});
    case DType::kUint8: return visit(uint8_t{});
    case DType::kInt8: return visit(int8_t{});
    case DType::kUint16: return visit(uint16_t{});
    case DType::kInt16: return visit(int16_t{});
    case DType::kUint32: return visit(uint32_t{});
    case DType::kInt32: return visit(int32_t{});
    case DType::kUint64: return visit(uint64_t{});
    case DType::kInt64: return visit(int64_t{});
    case DType::kBool: return visit(bool{});
    default: return nullptr;
  }
}

CastFn CastFor(DType from, DType to) {
  return ForType(from, [to](auto f) -> CastFn {
    return ForType(to, [](auto t) -> CastFn { return Loop<decltype(f), decltype(t)>; });
  });
}

std::optional<Reason> RejectCast(const KernelCall& call) {
  const TensorType &x = call.inputs[0], &y = call.outputs[0];
  if (auto unknown = RejectUnknownShapes(call)) return unknown;
  if (x.quantized() || y.quantized() || CastFor(x.dtype, y.dtype) == nullptr) {
    return Reject("types", "{} -> {}, expected plain types of whole bytes", x.ToString(),
                  y.ToString());
  }
  if (ElementsOf(x) != ElementsOf(y))
    return Reject("shape", "{} -> {}", x.shape.ToString(), y.shape.ToString());
  return std::nullopt;
}

struct CastState {
  CastFn loop;
  int64_t elements, grain;

  void Run(const void* const* in, void* const* out, const RunContext& context) const {
    context.pool.ParallelFor(elements, grain,
                             [&](int64_t begin, int64_t end) { loop(in[0], out[0], begin, end); });
  }
};

// Between float32 and 16-bit floats, in vectors. `Table`: Bf16Table or HalfTable of the instruction
// set.
template <typename Table>
struct RowsState {
  const Table* rows;
  bool widens;
  int64_t elements, grain;

  void Run(const void* const* in, void* const* out, const RunContext& context) const {
    context.pool.ParallelFor(elements, grain, [&](int64_t begin, int64_t end) {
      if (widens) {
        rows->widen(static_cast<const uint16_t*>(in[0]) + begin,
                    static_cast<float*>(out[0]) + begin, end - begin);
      } else {
        rows->narrow(static_cast<const float*>(in[0]) + begin,
                     static_cast<uint16_t*>(out[0]) + begin, end - begin);
      }
    });
  }
};

Result<BoundKernel> BindCast(const KernelCall& call, const BindOptions& options) {
  const int64_t elements = ElementsOf(call.inputs[0]);
  const DType from = call.inputs[0].dtype, to = call.outputs[0].dtype,
              narrow = from == DType::kFloat32 ? to : from;
  if ((from == DType::kFloat32) != (to == DType::kFloat32)) {
    const int64_t grain = Grain(elements, 0.1, options.threads);
    const bool widens = to == DType::kFloat32;
    if (narrow == DType::kBfloat16)
      return BoundKernel::Of(
          RowsState<Bf16Table>{&Bf16TableFor(options.isa), widens, elements, grain});
    if (narrow == DType::kFloat16)
      return BoundKernel::Of(
          RowsState<HalfTable>{&HalfTableFor(options.isa), widens, elements, grain});
  }
  return BoundKernel::Of(
      CastState{CastFor(from, to), elements, Grain(elements, 0.5, options.threads)});
}

}  // namespace

extern const KernelDef kCastKernel = {
    .name = "cast",
    .op = "Cast",
    .precision = Precision::kAny,
    .peak = Peak::kMemory,
    .reject = RejectCast,
    .bind = BindCast,
};
extern const KernelDef kCastLikeKernel = {
    .name = "cast_like",
    .op = "CastLike",
    .precision = Precision::kAny,
    .peak = Peak::kMemory,
    .reject = RejectCast,
    .bind = BindCast,
};

}  // namespace evoq
