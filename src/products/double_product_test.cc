// Products of float64 on every instruction set.
#include "products/double_product.h"

#include <fmt/format.h>

#include "kernels/test_util.h"
#include "products/product_testing.h"

namespace evoq {
namespace {

TEST(DoubleProduct, EveryInstructionSetAndThreads) {
  std::mt19937 random(5);
  for (const ProductCase& s : kProductCases) {
    const int64_t c_stride = s.n + random() % 3;
    const MatrixLines a_lines = {s.m, s.k, s.a_transposed, static_cast<int64_t>(random() % 3)},
                      b_lines = {s.k, s.n, s.b_transposed, a_lines.more};
    const auto a = RandomReals<double>(a_lines.elements(), random),
               b = RandomReals<double>(b_lines.elements(), random),
               c = RandomReals<double>(s.m * c_stride, random);
    for (Isa isa : TestIsas()) {
      std::vector<double> first;
      for (int threads : {1, 3}) {
        std::vector<double> y = c;
        Workspace workspace(threads);
        const ProductF64 product = {
            s.m,    s.n,      s.k,     s.alpha, a_lines.View(a.data()), b_lines.View(b.data()),
            s.beta, y.data(), c_stride};
        Multiply(product, isa, workspace);
        const std::string name =
            fmt::format("{} x {} x {} on {}, {} threads", s.m, s.n, s.k, IsaName(isa), threads);
        if (first.empty()) ExpectSums(product, c, 4e-16, name);
        if (first.empty()) first = y;
        ASSERT_EQ(y, first) << name;
      }
    }
  }
}

TEST(DoubleProduct, WithoutTerms) {
  Workspace workspace(1);
  std::vector<double> y = {1, 2, 3, 4};
  const Strided<double> none = {nullptr, 1, 1};
  Multiply({2, 2, 0, 1, none, none, 3, y.data(), 2}, Isa::kScalar, workspace);
  EXPECT_EQ(y, (std::vector<double>{3, 6, 9, 12}));
  y[0] = std::nan("");
  Multiply({2, 2, 5, 0, none, none, 0, y.data(), 2}, Isa::kScalar, workspace);
  EXPECT_EQ(y, std::vector<double>(4, 0));
}

}  // namespace
}  // namespace evoq
