#include "kernels/math/unary.inl.h"
#include "kernels/math/unary_loops.h"

namespace evoq::EVOQ_ISA {
namespace {

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
