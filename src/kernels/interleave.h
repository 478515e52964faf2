// Bytes of several rows brought together by column.
#pragma once

#include "kernels/vec.h"

namespace evoq {
namespace {

using Bytes16 = Vec<uint8_t, 16>;

// a[0], b[0], a[1], ...: of the lower halves, and of the upper ones.
inline Bytes16 LowerPairs(Bytes16 a, Bytes16 b) {
  return __builtin_shufflevector(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
}
inline Bytes16 UpperPairs(Bytes16 a, Bytes16 b) {
  return __builtin_shufflevector(a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15,
                                 31);
}

// Four rows of 16 columns to 64 bytes: the four bytes of one column after the other.
inline void StoreByColumn(const Bytes16 (&rows)[4], uint8_t* to) {
  const auto lower = [](Bytes16 a, Bytes16 b) {
    return __builtin_shufflevector(a, b, 0, 1, 16, 17, 2, 3, 18, 19, 4, 5, 20, 21, 6, 7, 22, 23);
  };
  const auto upper = [](Bytes16 a, Bytes16 b) {
    return __builtin_shufflevector(a, b, 8, 9, 24, 25, 10, 11, 26, 27, 12, 13, 28, 29, 14, 15, 30,
                                   31);
  };
  const Bytes16 l01 = LowerPairs(rows[0], rows[1]), l23 = LowerPairs(rows[2], rows[3]),
                u01 = UpperPairs(rows[0], rows[1]), u23 = UpperPairs(rows[2], rows[3]);
  StoreVec<uint8_t, 16>(to, lower(l01, l23));
  StoreVec<uint8_t, 16>(to + 16, upper(l01, l23));
  StoreVec<uint8_t, 16>(to + 32, lower(u01, u23));
  StoreVec<uint8_t, 16>(to + 48, upper(u01, u23));
}

}  // namespace
}  // namespace evoq
