#include "kernels/math/unary.inl.h"
#include "kernels/math/unary_loops.h"

namespace evoq::EVOQ_ISA {
namespace {

// Blocks without an argument that the C library has to reduce are vector code.
void SineLoop(uint64_t quarters, const float* x, float* y, int64_t n) {
  constexpr int64_t kBlock = 512;
  for (int64_t first = 0; first < n; first += kBlock) {
    const int64_t end = first + kBlock < n ? first + kBlock : n;
    uint32_t far = 0;
    EVOQ_ELEMENTWISE
    for (int64_t i = first; i < end; ++i) far |= IsReduced(x[i]) ? 0u : 1u;
    if (far == 0) {
      EVOQ_ELEMENTWISE
      for (int64_t i = first; i < end; ++i) y[i] = SineReduced(x[i], quarters);
    } else {
      for (int64_t i = first; i < end; ++i)
        y[i] = quarters == 0 ? SinInline(x[i]) : CosInline(x[i]);
    }
  }
}

template <UnaryKind kKind>
void Loop(float alpha, float beta, const float* x, float* y, int64_t n) {
  if constexpr (kKind == UnaryKind::kGelu) {  // two formulas: chosen outside the loop
    if (alpha == 0.0f) {
      EVOQ_ELEMENTWISE
      for (int64_t i = 0; i < n; ++i) y[i] = GeluInline(x[i]);
    } else {
      EVOQ_ELEMENTWISE
      for (int64_t i = 0; i < n; ++i) y[i] = GeluTanhInline(x[i]);
    }
    return;
  }
  if constexpr (kKind == UnaryKind::kSin) return SineLoop(0, x, y, n);
  if constexpr (kKind == UnaryKind::kCos) return SineLoop(1, x, y, n);
  EVOQ_ELEMENTWISE
  for (int64_t i = 0; i < n; ++i) y[i] = UnaryFn<kKind>::Compute(x[i], alpha, beta);
}

[[maybe_unused]] void ApplyLoop(const Unary& unary, const float* x, float* y, int64_t n) {
  switch (unary.kind) {
#define EVOQ_UNARY(op, definition) \
  case UnaryKind::k##op: return Loop<UnaryKind::k##op>(unary.alpha, unary.beta, x, y, n);
    EVOQ_UNARY_LIST
#undef EVOQ_UNARY
  }
}

}  // namespace

#ifndef EVOQ_OWN_UNARY
extern const UnaryTable kUnaryTable = {
    .apply = ApplyLoop,
};
#endif

}  // namespace evoq::EVOQ_ISA
