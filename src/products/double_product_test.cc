// Products of float64 on every instruction set, against sums in long double.
#include "products/double_product.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

#include "kernels/test_util.h"

namespace evoq {
namespace {

struct Case {
  int64_t m, n, k;
  bool a_transposed, b_transposed;
  double alpha, beta;
};

constexpr Case kCases[] = {
    {.m = 1, .n = 64, .k = 70, .a_transposed = false, .b_transposed = false, .alpha = 1, .beta = 0},
    {.m = 8, .n = 37, .k = 33, .a_transposed = false, .b_transposed = false, .alpha = 2, .beta = 1},
    {.m = 5, .n = 9, .k = 600, .a_transposed = true, .b_transposed = false, .alpha = 1, .beta = 3},
    {.m = 9, .n = 33, .k = 17, .a_transposed = true, .b_transposed = true, .alpha = -2, .beta = 2},
    {.m = 70,
     .n = 130,
     .k = 65,
     .a_transposed = false,
     .b_transposed = false,
     .alpha = 1,
     .beta = 0},
    {.m = 500,
     .n = 21,
     .k = 513,
     .a_transposed = false,
     .b_transposed = true,
     .alpha = 3,
     .beta = 1},
};

Strided<double> View(const std::vector<double>& data, int64_t rows, int64_t columns,
                     bool transposed) {
  return transposed ? Strided<double>{data.data(), 1, rows}
                    : Strided<double>{data.data(), columns, 1};
}
double At(const Strided<double>& x, int64_t i, int64_t j) {
  return x.data[i * x.row_stride + j * x.column_stride];
}

TEST(DoubleProduct, EveryInstructionSetAndThreads) {
  std::mt19937 random(5);
  std::normal_distribution<double> normal(0, 1);
  const auto made = [&](int64_t count) {
    std::vector<double> values(static_cast<size_t>(count));
    for (double& v : values) v = normal(random);
    return values;
  };
  for (const Case& s : kCases) {
    const std::vector<double> a = made(s.m * s.k), b = made(s.k * s.n), c = made(s.m * s.n);
    const Strided<double> av = View(a, s.m, s.k, s.a_transposed),
                          bv = View(b, s.k, s.n, s.b_transposed);
    for (Isa isa : TestIsas()) {
      std::vector<double> first;
      for (int threads : {1, 3}) {
        std::vector<double> y = c;
        ProductSpace space(threads);
        Multiply({s.m, s.n, s.k, s.alpha, av, bv, s.beta, y.data(), s.n}, isa, space);
        if (threads == 1) first = y;
        ASSERT_EQ(y, first) << IsaName(isa) << ", " << threads << " threads";
      }
      for (int64_t i = 0; i < s.m; ++i) {
        for (int64_t j = 0; j < s.n; ++j) {
          long double sum = 0, size = 0;
          for (int64_t l = 0; l < s.k; ++l) {
            const long double term = static_cast<long double>(At(av, i, l)) * At(bv, l, j);
            sum += term;
            size += std::fabs(term);
          }
          const long double before = static_cast<long double>(s.beta) * c[i * s.n + j];
          const auto bound = static_cast<double>(
              2e-16 * (std::fabs(s.alpha) * size * std::sqrt(s.k + 1.0) + std::fabs(before) + 1));
          ASSERT_NEAR(first[i * s.n + j], static_cast<double>(s.alpha * sum + before), 2 * bound)
              << IsaName(isa) << ": " << s.m << " x " << s.n << " x " << s.k << " at " << i << ", "
              << j;
        }
      }
    }
  }
}

}  // namespace
}  // namespace evoq
