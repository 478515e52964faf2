// Products on every instruction set, in each way that operands are read.
#include "products/float_product.h"

#include <fmt/format.h>

#include "kernels/test_util.h"
#include "products/product_testing.h"

namespace evoq {
namespace {

// In any number of threads and with b packed before, the same bits.
template <typename T>
void ExpectProducts(double bound) {
  std::mt19937 random(5);
  for (const ProductCase& s : kProductCases) {
    const int64_t c_stride = s.n + random() % 3, shift = random() % 2;
    const MatrixLines a_lines = {s.m, s.k, s.a_transposed, static_cast<int64_t>(random() % 3)},
                      b_lines = {s.k, s.n, s.b_transposed, a_lines.more};
    const auto a = RandomReals<T>(shift + a_lines.elements(), random),
               b = RandomReals<T>(b_lines.elements(), random);
    const auto c = RandomReals<float>(s.m * c_stride, random);
    const Strided<T> av = a_lines.View(a.data() + shift), bv = b_lines.View(b.data());
    for (Isa isa : TestIsas()) {
      std::vector<float> first;
      for (int threads : {1, 3}) {
        for (bool before : {false, true}) {
          std::vector<float> y = c;
          Workspace workspace(threads);
          const PackedFloats packed = Pack(bv, s.k, s.n, isa, workspace);
          const FloatProduct<T> product = {s.m,
                                           s.n,
                                           s.k,
                                           static_cast<float>(s.alpha),
                                           av,
                                           bv,
                                           static_cast<float>(s.beta),
                                           y.data(),
                                           c_stride,
                                           before ? &packed : nullptr};
          Multiply(product, isa, workspace);
          const std::string name = fmt::format("{} x {} x {} on {}, {} threads, packed {}", s.m,
                                               s.n, s.k, IsaName(isa), threads, before);
          if (first.empty()) ExpectSums(product, c, bound, name);
          if (first.empty()) first = y;
          ASSERT_EQ(y, first) << name;
        }
      }
    }
  }
}

TEST(FloatProduct, OfFloat32) { ExpectProducts<float>(1e-6); }
TEST(FloatProduct, OfBfloat16) { ExpectProducts<uint16_t>(1e-6); }

TEST(FloatProduct, WithoutTerms) {
  Workspace workspace(1);
  std::vector<float> y = {1, 2, 3, 4};
  const Strided<float> none = {nullptr, 1, 1};
  Multiply(ProductF32{2, 2, 0, 1, none, none, 3, y.data(), 2}, Isa::kScalar, workspace);
  EXPECT_EQ(y, (std::vector<float>{3, 6, 9, 12}));
  y[0] = std::nanf("");
  Multiply(ProductF32{2, 2, 5, 0, none, none, 0, y.data(), 2}, Isa::kScalar, workspace);
  EXPECT_EQ(y, std::vector<float>(4, 0));
  const Strided<float> columns = {nullptr, 1, 7};
  EXPECT_EQ(Pack(columns, 0, 40, Isa::kScalar, workspace).panels.size(), 0);
}

}  // namespace
}  // namespace evoq
