// Operators of one float32 value: their kinds, parameters and scalar definition. The reference
// evaluator, the float32 kernels and the 256-entry tables of quantized kernels all compute Apply.
#pragma once

#include <optional>
#include <span>
#include <string_view>

#include "kernels/activation.h"
#include "tensor/attrs.h"

namespace evoq {

// EVOQ_UNARY(ONNX operator, definition in x, alpha, beta); helpers are those of math/math.inl.h
// and math/sine.inl.h.
// NaN gives NaN, but in Shrink and ThresholdedRelu, by ONNX 0 wherever their comparisons fail.
// clang-format off
#define EVOQ_UNARY_LIST                                                          \
  EVOQ_UNARY(Abs, FromBits(ToBits(x) & 0x7fffffffu))                             \
  EVOQ_UNARY(Acos, __builtin_acosf(x))                                           \
  EVOQ_UNARY(Acosh, __builtin_acoshf(x))                                         \
  EVOQ_UNARY(Asin, __builtin_asinf(x))                                           \
  EVOQ_UNARY(Asinh, __builtin_asinhf(x))                                         \
  EVOQ_UNARY(Atan, __builtin_atanf(x))                                           \
  EVOQ_UNARY(Atanh, __builtin_atanhf(x))                                         \
  EVOQ_UNARY(Ceil, __builtin_ceilf(x))                                           \
  EVOQ_UNARY(Celu, x < 0.0f ? alpha * (ExpInline(x / alpha) - 1.0f) : x)         \
  EVOQ_UNARY(Clip, ClampInline(x, alpha, beta))                                  \
  EVOQ_UNARY(Cos, CosInline(x))                                                  \
  EVOQ_UNARY(Cosh, __builtin_coshf(x))                                           \
  EVOQ_UNARY(Elu, x < 0.0f ? alpha * (ExpInline(x) - 1.0f) : x)                  \
  EVOQ_UNARY(Erf, ErfInline(x))                                                  \
  EVOQ_UNARY(Exp, ExpInline(x))                                                  \
  EVOQ_UNARY(Floor, __builtin_floorf(x))                                         \
  EVOQ_UNARY(Gelu, alpha == 0.0f ? GeluInline(x) : GeluTanhInline(x))            \
  EVOQ_UNARY(HardSigmoid, HardSigmoidInline(x, alpha, beta))                     \
  EVOQ_UNARY(HardSwish, HardSwishInline(x))                                      \
  EVOQ_UNARY(LeakyRelu, x < 0.0f ? x * alpha : x)                                \
  EVOQ_UNARY(Log, LogInline(x))                                                  \
  EVOQ_UNARY(Mish, x * TanhInline(SoftplusInline(x)))                            \
  EVOQ_UNARY(Neg, -x)                                                            \
  EVOQ_UNARY(Reciprocal, 1.0f / x)                                               \
  EVOQ_UNARY(Relu, 0.0f > x ? 0.0f : x)                                          \
  EVOQ_UNARY(Round, __builtin_nearbyintf(x))                                     \
  EVOQ_UNARY(Selu, x > 0.0f ? beta * x : beta * (alpha * (ExpInline(x) - 1.0f))) \
  EVOQ_UNARY(Shrink, x < -beta ? x + alpha : x > beta ? x - alpha : 0.0f)        \
  EVOQ_UNARY(Sigmoid, SigmoidInline(x))                                          \
  EVOQ_UNARY(Sign, x > 0.0f ? 1.0f : x < 0.0f ? -1.0f : x + 0.0f)                \
  EVOQ_UNARY(Silu, SiluInline(x))                                                \
  EVOQ_UNARY(Sin, SinInline(x))                                                  \
  EVOQ_UNARY(Sinh, __builtin_sinhf(x))                                           \
  EVOQ_UNARY(Softplus, SoftplusInline(x))                                        \
  EVOQ_UNARY(Softsign, x / (1.0f + FromBits(ToBits(x) & 0x7fffffffu)))           \
  EVOQ_UNARY(Sqrt, __builtin_sqrtf(x))                                           \
  EVOQ_UNARY(Tan, __builtin_tanf(x))                                             \
  EVOQ_UNARY(Tanh, TanhInline(x))                                                \
  EVOQ_UNARY(ThresholdedRelu, x > alpha ? x : 0.0f)
// clang-format on

enum class UnaryKind {
#define EVOQ_UNARY(op, definition) k##op,
  EVOQ_UNARY_LIST
#undef EVOQ_UNARY
};

// alpha and beta by kind: ONNX's alpha and beta for Celu, Elu, HardSigmoid, LeakyRelu,
// ThresholdedRelu; min and max for Clip; alpha and gamma for Selu; bias and lambd for Shrink; alpha
// = 1 for Gelu with approximate="tanh".
struct Unary {
  UnaryKind kind = UnaryKind::kRelu;
  float alpha = 0;
  float beta = 0;
};

// The kind of this ONNX (or evoq) operator, or nothing.
std::optional<UnaryKind> UnaryKindFromOp(std::string_view op);
const char* UnaryOpName(UnaryKind kind);

// Parameters from attributes with ONNX's defaults. Clip's bounds are inputs of the node: infinite
// here, set by the caller.
Unary UnaryFromAttrs(UnaryKind kind, const Attrs& attrs);

// The definition.
float Apply(const Unary& unary, float x);

// A fused activation as one of these; kNone has none.
std::optional<Unary> UnaryFromActivation(const Activation& activation);

}  // namespace evoq
