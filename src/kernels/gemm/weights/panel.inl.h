// Panel: 16 float32 values, the arithmetic of one row of a panel of weights on one instruction set.
#include <cstring>

#include "kernels/isa_table.h"
#include "kernels/variants.h"

#if defined(__AVX2__)
#include <immintrin.h>
#endif

namespace evoq::EVOQ_ISA {
namespace {

#if defined(__AVX512F__)
constexpr int kMostRows = kFewVariants ? 2 : 6, kMostPanels = 4;  // of a register tile
struct Panel {
  __m512 v;
};
inline Panel Broadcast(float x) { return {_mm512_set1_ps(x)}; }
inline Panel LoadAll(const float* p) { return {_mm512_loadu_ps(p)}; }
inline void StoreAll(float* p, Panel x) { _mm512_storeu_ps(p, x.v); }
inline Panel Load(const float* p, int n) {
  return {_mm512_maskz_loadu_ps(static_cast<__mmask16>((1u << n) - 1), p)};
}
inline void Store(float* p, int n, Panel x) {
  _mm512_mask_storeu_ps(p, static_cast<__mmask16>((1u << n) - 1), x.v);
}
inline Panel MulAdd(Panel a, Panel b, Panel c) { return {_mm512_fmadd_ps(a.v, b.v, c.v)}; }
inline Panel Add(Panel a, Panel b) { return {_mm512_add_ps(a.v, b.v)}; }
inline Panel Sub(Panel a, Panel b) { return {_mm512_sub_ps(a.v, b.v)}; }
inline Panel Mul(Panel a, Panel b) { return {_mm512_mul_ps(a.v, b.v)}; }
#elif defined(__AVX2__)
constexpr int kMostRows = kFewVariants ? 2 : 5, kMostPanels = 1;
struct Panel {
  __m256 low, high;
};
inline Panel Broadcast(float x) { return {_mm256_set1_ps(x), _mm256_set1_ps(x)}; }
inline Panel LoadAll(const float* p) { return {_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)}; }
inline void StoreAll(float* p, Panel x) {
  _mm256_storeu_ps(p, x.low), _mm256_storeu_ps(p + 8, x.high);
}
inline Panel Load(const float* p, int n) {
  alignas(32) float values[16] = {};
  std::memcpy(values, p, n * sizeof(float));
  return {_mm256_load_ps(values), _mm256_load_ps(values + 8)};
}
inline void Store(float* p, int n, Panel x) {
  alignas(32) float values[16];
  _mm256_store_ps(values, x.low), _mm256_store_ps(values + 8, x.high);
  std::memcpy(p, values, n * sizeof(float));
}
inline Panel MulAdd(Panel a, Panel b, Panel c) {
  return {_mm256_fmadd_ps(a.low, b.low, c.low), _mm256_fmadd_ps(a.high, b.high, c.high)};
}
inline Panel Add(Panel a, Panel b) {
  return {_mm256_add_ps(a.low, b.low), _mm256_add_ps(a.high, b.high)};
}
inline Panel Sub(Panel a, Panel b) {
  return {_mm256_sub_ps(a.low, b.low), _mm256_sub_ps(a.high, b.high)};
}
inline Panel Mul(Panel a, Panel b) {
  return {_mm256_mul_ps(a.low, b.low), _mm256_mul_ps(a.high, b.high)};
}
#else
constexpr int kMostRows = 2, kMostPanels = 1;
struct Panel {
  float v[16];
};
inline Panel Broadcast(float x) {
  Panel p;
  for (float& v : p.v) v = x;
  return p;
}
inline Panel Load(const float* p, int n) {
  Panel x = {};
  std::memcpy(x.v, p, n * sizeof(float));
  return x;
}
inline Panel LoadAll(const float* p) { return Load(p, 16); }
inline void StoreAll(float* p, const Panel& x) { std::memcpy(p, x.v, sizeof(x.v)); }
inline void Store(float* p, int n, const Panel& x) { std::memcpy(p, x.v, n * sizeof(float)); }
inline Panel MulAdd(const Panel& a, const Panel& b, Panel c) {
  for (int i = 0; i < 16; ++i) c.v[i] += a.v[i] * b.v[i];
  return c;
}
inline Panel Add(const Panel& a, Panel b) {
  for (int i = 0; i < 16; ++i) b.v[i] += a.v[i];
  return b;
}
inline Panel Sub(Panel a, const Panel& b) {
  for (int i = 0; i < 16; ++i) a.v[i] -= b.v[i];
  return a;
}
inline Panel Mul(Panel a, const Panel& b) {
  for (int i = 0; i < 16; ++i) a.v[i] *= b.v[i];
  return a;
}
#endif

}  // namespace
}  // namespace evoq::EVOQ_ISA
