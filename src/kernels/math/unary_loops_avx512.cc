#define EVOQ_ISA avx512
#define EVOQ_OWN_UNARY  // what is made of exponentials is here
#include <immintrin.h>

#include "kernels/math/unary_loops.inl.h"

namespace evoq::avx512 {
namespace {

template <typename Function>
void Loop16(const float* x, float* y, int64_t n, const Function& f) {
  int64_t i = 0;
  for (; i + 16 <= n; i += 16) _mm512_storeu_ps(y + i, f(Floats16(_mm512_loadu_ps(x + i))));
  if (i == n) return;
  const __mmask16 rest = static_cast<__mmask16>((1u << (n - i)) - 1);
  _mm512_mask_storeu_ps(y + i, rest, f(Floats16(_mm512_maskz_loadu_ps(rest, x + i))));
}

void Apply512(const Unary& unary, const float* x, float* y, int64_t n) {
  switch (unary.kind) {
    case UnaryKind::kErf: return Loop16(x, y, n, [](Floats16 v) { return ErfInline(v); });
    case UnaryKind::kExp: return Loop16(x, y, n, [](Floats16 v) { return ExpInline(v); });
    case UnaryKind::kSigmoid: return Loop16(x, y, n, [](Floats16 v) { return SigmoidInline(v); });
    case UnaryKind::kSilu: return Loop16(x, y, n, [](Floats16 v) { return SiluInline(v); });
    case UnaryKind::kTanh: return Loop16(x, y, n, [](Floats16 v) { return TanhInline(v); });
    case UnaryKind::kGelu:
      if (unary.alpha == 0.0f) return Loop16(x, y, n, [](Floats16 v) { return GeluInline(v); });
      return Loop16(x, y, n, [](Floats16 v) { return GeluTanhInline(v); });
    default: return ApplyLoop(unary, x, y, n);
  }
}

}  // namespace

extern const UnaryTable kUnaryTable = {
    .apply = Apply512,
};

}  // namespace evoq::avx512
