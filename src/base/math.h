// Integer helpers. Sizes that come from a file are multiplied and added with an overflow check.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

namespace evoq {

// a * b, or nothing when the product does not fit. For non-negative sizes.
inline std::optional<int64_t> CheckedMul(int64_t a, int64_t b) {
  int64_t r;
  if (__builtin_mul_overflow(a, b, &r)) return std::nullopt;
  return r;
}

inline std::optional<int64_t> CheckedAdd(int64_t a, int64_t b) {
  int64_t r;
  if (__builtin_add_overflow(a, b, &r)) return std::nullopt;
  return r;
}

// Product of all dims (1 for none), or nothing on a negative factor or where that of the dims other
// than 0 overflows: dims that have a product have one in every order, and so has any part of them.
inline std::optional<int64_t> CheckedProduct(std::span<const int64_t> dims) {
  int64_t product = 1;
  bool zero = false;
  for (int64_t d : dims) {
    zero |= d == 0;
    if (d < 0 || __builtin_mul_overflow(product, d == 0 ? 1 : d, &product)) return std::nullopt;
  }
  return zero ? 0 : product;
}

constexpr int64_t CeilDiv(int64_t a, int64_t b) { return a / b + (a % b > 0); }  // cannot overflow
constexpr int64_t RoundUp(int64_t a, int64_t multiple) { return CeilDiv(a, multiple) * multiple; }

}  // namespace evoq
