// Vectors of bfloat16 as float32, for per-instruction-set files (kernels/vec.h).
#pragma once

#include "kernels/vec.h"

namespace evoq {
namespace {

template <int kN>
inline Vec<float, kN> LoadBf16(const uint16_t* p) {
  const Vec<uint32_t, kN> bits = Convert<uint32_t, kN>(LoadVec<uint16_t, kN>(p)) << 16;
  Vec<float, kN> v;
  std::memcpy(&v, &bits, sizeof(v));
  return v;
}

// FloatToBfloat16 of tensor/dtype.h.
template <int kN>
inline void StoreBf16(uint16_t* p, Vec<float, kN> v) {
  Vec<uint32_t, kN> bits;
  std::memcpy(&bits, &v, sizeof(bits));
  const Vec<uint32_t, kN> rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16,
                          nan = (bits >> 16) | 0x40u;
  const Vec<uint32_t, kN> narrow = (bits & 0x7fffffffu) > 0x7f800000u ? nan : rounded;
  StoreVec<uint16_t, kN>(p, Convert<uint16_t, kN>(narrow));
}

}  // namespace
}  // namespace evoq
