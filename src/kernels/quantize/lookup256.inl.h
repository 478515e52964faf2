// A table of 256 bytes on vectors of 32, for instruction sets without a permutation of bytes across
// a vector. Included by quantize_ISA.cc, behind quantize.inl.h.
//
// A shuffle looks up 16 entries and gives 0 where an index is negative. Indices that go down by 16
// from step to step, saturated, are not negative in one step more for each 16 entries that they lie
// further up: steps hold what their entries differ by from those of the step before, and what they
// give is added by xor. The upper 128 entries are those of indices whose top bit is turned.
#pragma once

#include <immintrin.h>

#include <cstring>

namespace evoq::EVOQ_ISA {
namespace {

constexpr int kShuffles = 16;

struct Shuffles {
  __m128i steps[kShuffles];

  explicit Shuffles(const uint8_t* table) {
    const auto entries = [&](int i) {
      return _mm_loadu_si128(reinterpret_cast<const __m128i*>(table) + i);
    };
    for (int i = 0; i < kShuffles; ++i)
      steps[i] = i % 8 == 0 ? entries(i) : _mm_xor_si128(entries(i), entries(i - 1));
  }

  // kVectors vectors, as each step's entries are loaded once for all.
  template <int kVectors>
  void Run(const uint8_t* x, uint8_t* y) const {
    const __m256i top = _mm256_set1_epi8(static_cast<char>(0x80)), down = _mm256_set1_epi8(16);
    __m256i lower[kVectors], upper[kVectors], sum[kVectors] = {};
    for (int v = 0; v < kVectors; ++v) {
      lower[v] = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(x) + v);
      upper[v] = _mm256_xor_si256(lower[v], top);
    }
#pragma GCC unroll 8
    for (int i = 0; i < kShuffles / 2; ++i) {
      const __m256i low = _mm256_broadcastsi128_si256(steps[i]),
                    high = _mm256_broadcastsi128_si256(steps[i + kShuffles / 2]);
#pragma GCC unroll 2
      for (int v = 0; v < kVectors; ++v) {
        sum[v] = _mm256_xor_si256(sum[v], _mm256_xor_si256(_mm256_shuffle_epi8(low, lower[v]),
                                                           _mm256_shuffle_epi8(high, upper[v])));
        lower[v] = _mm256_subs_epi8(lower[v], down);
        upper[v] = _mm256_subs_epi8(upper[v], down);
      }
    }
    for (int v = 0; v < kVectors; ++v)
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(y) + v, sum[v]);
  }
};

// x and y may be the same.
void Lookup256(const uint8_t* table, const uint8_t* x, uint8_t* y, int64_t n) {
  constexpr int64_t kFew = 64;  // which the steps do not pay for
  if (n < kFew) return LookupPlain(table, x, y, n);
  const Shuffles shuffles(table);
  int64_t i = 0;
  for (; i + 64 <= n; i += 64) shuffles.Run<2>(x + i, y + i);
  for (; i < n; i += 32) {
    alignas(32) uint8_t part[32] = {};
    const auto count = static_cast<size_t>(n - i < 32 ? n - i : 32);
    std::memcpy(part, x + i, count);
    shuffles.Run<1>(part, part);
    std::memcpy(y + i, part, count);
  }
}

}  // namespace
}  // namespace evoq::EVOQ_ISA
