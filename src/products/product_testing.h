// What tests of products share: matrices that lie anywhere, and sums to hold results to.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "products/workspace.h"

namespace evoq {

struct ProductCase {
  int64_t m, n, k;
  bool a_transposed, b_transposed;
  double alpha, beta;
};

// Few and many rows, whole panels and what is left of one, several parts of K, odd K.
inline constexpr ProductCase kProductCases[] = {
    {1, 64, 70, false, false, 1, 0},   {8, 37, 33, false, false, 2, 1},
    {5, 48, 9, true, false, -1, 3},    {3, 20, 40, false, true, 3, 0},
    {9, 33, 17, true, true, 0.5, 2},   {70, 130, 65, true, false, 2, 0},
    {67, 50, 1500, false, true, 1, 1}, {66, 18, 2100, false, false, 1, 5},
    {4, 40, 600, false, false, 2, 1},  {70, 130, 65, false, false, 1, 0},
    {500, 21, 513, false, true, 3, 1}};

// A matrix whose lines, rows or columns, have `more` elements between them.
struct MatrixLines {
  int64_t rows, columns;
  bool transposed;
  int64_t more;

  int64_t count() const { return transposed ? columns : rows; }
  int64_t length() const { return transposed ? rows : columns; }
  // With none behind the last one, so that sanitizers see what is read too far.
  int64_t elements() const { return (count() - 1) * (length() + more) + length(); }
  template <typename T>
  Strided<T> View(const T* data) const {
    return transposed ? Strided<T>{data, 1, length() + more} : Strided<T>{data, length() + more, 1};
  }
};

template <typename T>
T ElementAt(const Strided<T>& x, int64_t i, int64_t j) {
  return x.data[i * x.row_stride + j * x.column_stride];
}

// What an element stands for: uint16_t is bfloat16.
inline double Value(float v) { return v; }
inline double Value(double v) { return v; }
inline double Value(uint16_t v) {
  const uint32_t bits = uint32_t{v} << 16;
  float f;
  std::memcpy(&f, &bits, sizeof(f));
  return f;
}

template <typename T>
std::vector<T> RandomReals(int64_t count, std::mt19937& random) {
  std::normal_distribution<float> normal(0, 1);
  std::vector<T> values(static_cast<size_t>(count));
  for (T& v : values) {
    const float value = normal(random);
    if constexpr (std::is_same_v<T, uint16_t>) {
      uint32_t bits;
      std::memcpy(&bits, &value, sizeof(bits));
      v = static_cast<uint16_t>(bits >> 16);
    } else {
      v = value;
    }
  }
  return values;
}

// Holds C to sums in long double: an element may be off by `bound` times the sum of its terms'
// sizes, times the root of their number. `before` is what c was, and still is beside its columns.
template <typename Product, typename C>
void ExpectSums(const Product& p, const std::vector<C>& before, double bound,
                const std::string& name) {
  for (int64_t i = 0; i < p.m; ++i) {
    for (int64_t j = 0; j < p.n; ++j) {
      long double sum = 0, size = 0;
      for (int64_t l = 0; l < p.k; ++l) {
        const long double term =
            static_cast<long double>(Value(ElementAt(p.a, i, l))) * Value(ElementAt(p.b, l, j));
        sum += term;
        size += std::fabs(term);
      }
      const long double added =
          p.beta == 0 ? 0 : static_cast<long double>(p.beta) * before[i * p.c_stride + j];
      const long double off = std::fabs(p.alpha) * size * std::sqrt(p.k + 1.0L) + std::fabs(added);
      ASSERT_NEAR(p.c[i * p.c_stride + j], static_cast<double>(p.alpha * sum + added),
                  bound * static_cast<double>(off))
          << name << " at " << i << ", " << j;
    }
    for (int64_t j = p.n; j < p.c_stride; ++j)
      ASSERT_EQ(p.c[i * p.c_stride + j], before[i * p.c_stride + j]) << name << ": beside c";
  }
}

}  // namespace evoq
