#include "kernels/gemm/pair_int8.h"
#include "kernels/vec.h"

namespace evoq::EVOQ_ISA {
namespace {

using Bytes = Vec<uint8_t, 16>;
using Words = Vec<uint16_t, 8>;

// Four rows of 16 bytes to 16 columns of four.
inline void Interleave4(Bytes r0, Bytes r1, Bytes r2, Bytes r3, int8_t* to) {
  const auto low = [](Bytes a, Bytes b) {
    return __builtin_bit_cast(Words, __builtin_shufflevector(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4,
                                                             20, 5, 21, 6, 22, 7, 23));
  };
  const auto high = [](Bytes a, Bytes b) {
    return __builtin_bit_cast(Words, __builtin_shufflevector(a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12,
                                                             28, 13, 29, 14, 30, 15, 31));
  };
  const Words a = low(r0, r1), b = low(r2, r3), c = high(r0, r1), d = high(r2, r3);
  const auto put = [to](int at, Words v) { std::memcpy(to + 16 * at, &v, 16); };
  put(0, __builtin_shufflevector(a, b, 0, 8, 1, 9, 2, 10, 3, 11));
  put(1, __builtin_shufflevector(a, b, 4, 12, 5, 13, 6, 14, 7, 15));
  put(2, __builtin_shufflevector(c, d, 0, 8, 1, 9, 2, 10, 3, 11));
  put(3, __builtin_shufflevector(c, d, 4, 12, 5, 13, 6, 14, 7, 15));
}

void Pack(const uint8_t* b, int64_t stride, int64_t k, int64_t n, int64_t column, uint8_t flip,
          int8_t* to) {
  const int64_t width = n - column < 16 ? n - column : 16;
  for (int64_t at = 0; at < k; at += 4, to += 64) {
    Bytes rows[4] = {};
    for (int64_t i = 0; i < 4 && at + i < k; ++i) {
      const uint8_t* from = b + (at + i) * stride + column;
      if (width == 16) {
        rows[i] = LoadVec<uint8_t, 16>(from) ^ flip;
      } else {
        uint8_t part[16] = {};
        for (int64_t c = 0; c < width; ++c) part[c] = from[c] ^ flip;
        rows[i] = LoadVec<uint8_t, 16>(part);
      }
    }
    Interleave4(rows[0], rows[1], rows[2], rows[3], to);
  }
}

}  // namespace

extern const PairTable kPairTable = {
    .pack = Pack,
};

}  // namespace evoq::EVOQ_ISA
