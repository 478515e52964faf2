#include "kernels/math/math.h"

#include "kernels/math/math.inl.h"

namespace evoq {

float ExpF(float x) { return ExpInline(x); }
float LogF(float x) { return LogInline(x); }
float Log1pF(float x) { return Log1pInline(x); }
float TanhF(float x) { return TanhInline(x); }
float SigmoidF(float x) { return SigmoidInline(x); }
float ErfF(float x) { return ErfInline(x); }
float SoftplusF(float x) { return SoftplusInline(x); }
float SiluF(float x) { return SiluInline(x); }
float GeluF(float x) { return GeluInline(x); }
float GeluTanhF(float x) { return GeluTanhInline(x); }
float HardSwishF(float x) { return HardSwishInline(x); }
float HardSigmoidF(float x, float alpha, float beta) { return HardSigmoidInline(x, alpha, beta); }
float PowF(float x, float y) { return PowInline(x, y); }
float SumF(const float* x, int64_t n) {
  return SumTerms(n, [x](int64_t i) { return x[i]; });
}
float Sum64F(const float* x, int64_t n) {
  return Interleaved<64>(
      n, 0.0f, [x](int64_t i) { return x[i]; }, [](float a, float b) { return a + b; });
}
float SumSquaresF(const float* x, int64_t n, float mean) {
  return SumTerms(n, [x, mean](int64_t i) { return (x[i] - mean) * (x[i] - mean); });
}
float MaxF(const float* x, int64_t n) { return MaxInline(x, n); }
float MinF(const float* x, int64_t n) { return MinInline(x, n); }

}  // namespace evoq
