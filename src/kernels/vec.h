// Vectors of a fixed number of elements, whatever the machine's width, for per-instruction-set
// files (kernels/isa_table.h): arithmetic, comparison and ?: work element by element, Convert
// widens and narrows.
#pragma once

#include <cstdint>
#include <cstring>

#include "kernels/bounds.h"

// Vectors wider than the machine's registers are passed in memory; these functions have internal
// linkage, so no two files can disagree about it.
#pragma GCC diagnostic ignored "-Wpsabi"

namespace evoq {
namespace {

template <typename T, int kN>
struct VecOf {
  typedef T type __attribute__((vector_size(sizeof(T) * kN)));
};
template <typename T, int kN>
using Vec = typename VecOf<T, kN>::type;

// No alignment needed.
template <typename T, int kN>
inline Vec<T, kN> LoadVec(const T* p) {
  Vec<T, kN> v;
  std::memcpy(&v, p, sizeof(v));
  return v;
}
template <typename T, int kN>
inline void StoreVec(T* p, Vec<T, kN> v) {
  std::memcpy(p, &v, sizeof(v));
}
template <typename To, int kN, typename V>
inline Vec<To, kN> Convert(V v) {
  return __builtin_convertvector(v, Vec<To, kN>);
}

// round_half_even of values inside [-2^22, 2^22], as integers: the sum's last mantissa bits hold
// them.
template <int kN>
inline Vec<int32_t, kN> RoundVec(Vec<float, kN> v) {
  const Vec<float, kN> shifted = v + 12582912.0f;
  Vec<int32_t, kN> bits;
  std::memcpy(&bits, &shifted, sizeof(bits));
  return bits - 0x4B400000;
}

// The integer epilogue of kernels/bounds.h.
template <int kN>
inline Vec<int32_t, kN> ToIntegers(const OutputBounds& bounds, Vec<float, kN> v) {
  if (bounds.leaky) v = v < 0.0f ? v * bounds.slope : v;
  const Vec<float, kN> low = Vec<float, kN>{} + bounds.low, high = Vec<float, kN>{} + bounds.high;
  v = low > v ? low : v;
  v = high < v ? high : v;
  return RoundVec<kN>(v) + bounds.zero;
}

}  // namespace
}  // namespace evoq
