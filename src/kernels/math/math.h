// The elementary functions of evoq: a fixed sequence of float32 operations each (fused
// multiply-adds where the code says so), so that a result is the same bit pattern on every machine,
// instruction set and vector width. They are the definition of the operators named after them: the
// reference evaluator and every kernel use them. Within 3 units in the last place of the exact
// value unless said. NaN gives NaN.
#pragma once

#include <cstdint>

namespace evoq {

float ExpF(float x);    // e^x; 0 below -86.9, infinity above 88.73: never a denormal
float LogF(float x);    // natural; -infinity at 0, NaN below
float Log1pF(float x);  // log(1 + x)
float TanhF(float x);
float SigmoidF(float x);  // 1 / (1 + ExpF(-x)); 0 below -88.73
float ErfF(float x);
float SoftplusF(float x);   // max(x, 0) + Log1pF(ExpF(-|x|)): log(1 + e^x)
float SiluF(float x);       // x / (1 + ExpF(-x))
float GeluF(float x);       // x Phi(x), Phi of the normal distribution; fit, not through ErfF
float GeluTanhF(float x);   // x / (1 + ExpF(-2 t)), t = sqrt(2 / pi) (x + 0.044715 x^3)
float HardSwishF(float x);  // x * clamp(x / 6 + 0.5, 0, 1)
float HardSigmoidF(float x, float alpha, float beta);  // clamp(alpha x + beta, 0, 1)

// x^y: x * x, x * x * x, 1 / x, sqrt(x), x, 1 for y = 2, 3, -1, 0.5, 1, 0; else the C library's
// powf.
float PowF(float x, float y);

// The definition of a sum along the last axis (Reduce*, Softmax, LayerNormalization, ...): 16
// interleaved partial sums, p[j] = x[j] + x[j + 16] + ... in index order starting from 0, then p[j]
// += p[j + 8] for j < 8, then 4, 2, 1. Sums along other axes are sequential in index order,
// starting from 0.
float SumF(const float* x, int64_t n);
// The same with 64 partial sums, then 32, 16, ..., 1.
float Sum64F(const float* x, int64_t n);
// SumF's order over a derived term: sum of (x[i] - mean)^2.
float SumSquaresF(const float* x, int64_t n, float mean);

// The largest element: m = -infinity, then m = x > m ? x : m. NaNs are skipped: this is for who
// looks for a range (Softmax, whose sum is NaN all the same, and DynamicQuantizeLinear); ReduceMax
// and pooling give NaN where an element is NaN. MinF likewise from +infinity. The sign of a zero
// result is positive. -infinity (+infinity) for n = 0.
float MaxF(const float* x, int64_t n);
float MinF(const float* x, int64_t n);

}  // namespace evoq
