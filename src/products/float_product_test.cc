// Products on every instruction set, in each way that operands are read, against sums in double
// precision.
#include "products/float_product.h"

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
  float alpha, beta;
};

// Few and many rows, whole panels and what is left of one, several segments of K.
constexpr Case kCases[] = {
    {.m = 1, .n = 64, .k = 70, .a_transposed = false, .b_transposed = false, .alpha = 1, .beta = 0},
    {.m = 8, .n = 37, .k = 33, .a_transposed = false, .b_transposed = false, .alpha = 2, .beta = 1},
    {.m = 5, .n = 48, .k = 9, .a_transposed = true, .b_transposed = false, .alpha = -1, .beta = 3},
    {.m = 3, .n = 20, .k = 40, .a_transposed = false, .b_transposed = true, .alpha = 3, .beta = 0},
    {.m = 9, .n = 33, .k = 17, .a_transposed = true, .b_transposed = true, .alpha = 0.5, .beta = 2},
    {.m = 70,
     .n = 130,
     .k = 65,
     .a_transposed = true,
     .b_transposed = false,
     .alpha = 2,
     .beta = 0},
    {.m = 67,
     .n = 50,
     .k = 1500,
     .a_transposed = false,
     .b_transposed = true,
     .alpha = 1,
     .beta = 1},
};

std::vector<float> Random(int64_t count, std::mt19937& random) {
  std::normal_distribution<float> normal(0, 1);
  std::vector<float> values(static_cast<size_t>(count));
  for (float& v : values) v = normal(random);
  return values;
}

StridedF32 View(const std::vector<float>& data, int64_t rows, int64_t columns, bool transposed) {
  return transposed ? StridedF32{data.data(), 1, rows} : StridedF32{data.data(), columns, 1};
}

float At(const StridedF32& x, int64_t i, int64_t j) {
  return x.data[i * x.row_stride + j * x.column_stride];
}

TEST(FloatProduct, EveryInstructionSetAndThreads) {
  std::mt19937 random(5);
  for (const Case& s : kCases) {
    const std::vector<float> a = Random(s.m * s.k, random), b = Random(s.k * s.n, random),
                             c = Random(s.m * s.n, random);
    const StridedF32 av = View(a, s.m, s.k, s.a_transposed), bv = View(b, s.k, s.n, s.b_transposed);
    for (Isa isa : TestIsas()) {
      std::vector<float> first;
      for (int threads : {1, 3}) {
        std::vector<float> y = c;
        ProductSpace space(threads);
        Multiply({s.m, s.n, s.k, s.alpha, av, bv, s.beta, y.data(), s.n}, isa, space);
        if (threads == 1) first = y;
        ASSERT_EQ(y, first) << IsaName(isa) << ", " << threads << " threads";
      }
      for (int64_t i = 0; i < s.m; ++i) {
        for (int64_t j = 0; j < s.n; ++j) {
          double sum = 0, size = 0;
          for (int64_t l = 0; l < s.k; ++l) {
            const double term = static_cast<double>(At(av, i, l)) * At(bv, l, j);
            sum += term;
            size += std::fabs(term);
          }
          const double before = static_cast<double>(s.beta) * c[i * s.n + j];
          const double bound =
              1e-6 * (std::fabs(s.alpha) * size * std::sqrt(s.k + 1.0) + std::fabs(before) + 1e-30);
          ASSERT_NEAR(first[i * s.n + j], s.alpha * sum + before, bound)
              << IsaName(isa) << ": " << s.m << "x" << s.n << "x" << s.k << " at " << i << ", "
              << j;
        }
      }
    }
  }
}

}  // namespace
}  // namespace evoq
