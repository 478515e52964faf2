// Products on every instruction set, in each way that operands are read, against sums in double
// precision.
#include "products/float_product.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
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

// Few and many rows, whole panels and what is left of one, several segments of K, odd K.
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
    {.m = 66,
     .n = 18,
     .k = 2100,
     .a_transposed = false,
     .b_transposed = false,
     .alpha = 1,
     .beta = 5},
};

// Both types hold these numbers exactly.
float Value(float v) { return v; }
float Value(uint16_t v) {
  const uint32_t bits = uint32_t{v} << 16;
  float f;
  std::memcpy(&f, &bits, sizeof(f));
  return f;
}
template <typename T>
T Narrow(float v) {
  if constexpr (std::is_same_v<T, float>) return v;
  uint32_t bits;
  std::memcpy(&bits, &v, sizeof(bits));
  return static_cast<uint16_t>(bits >> 16);
}

template <typename T>
std::vector<T> Random(int64_t count, std::mt19937& random) {
  std::normal_distribution<float> normal(0, 1);
  std::vector<T> values(static_cast<size_t>(count));
  for (T& v : values) v = Narrow<T>(normal(random));
  return values;
}

template <typename T>
Strided<T> View(const T* data, int64_t rows, int64_t columns, bool transposed, int64_t more) {
  return transposed ? Strided<T>{data, 1, rows + more} : Strided<T>{data, columns + more, 1};
}
template <typename T>
float At(const Strided<T>& x, int64_t i, int64_t j) {
  return Value(x.data[i * x.row_stride + j * x.column_stride]);
}

template <typename T>
void ExpectSums(const FloatProduct<T>& p, const std::vector<float>& before, double bound,
                const std::string& name) {
  for (int64_t i = 0; i < p.m; ++i) {
    for (int64_t j = 0; j < p.n; ++j) {
      double sum = 0, size = 0;
      for (int64_t l = 0; l < p.k; ++l) {
        const double term = static_cast<double>(At(p.a, i, l)) * At(p.b, l, j);
        sum += term;
        size += std::fabs(term);
      }
      const double added =
          p.beta == 0 ? 0 : static_cast<double>(p.beta) * before[i * p.c_stride + j];
      ASSERT_NEAR(p.c[i * p.c_stride + j], p.alpha * sum + added,
                  bound * (std::fabs(p.alpha) * size * std::sqrt(p.k + 1.0) + std::fabs(added)))
          << name << " at " << i << ", " << j;
    }
    for (int64_t j = p.n; j < p.c_stride; ++j)
      ASSERT_EQ(p.c[i * p.c_stride + j], before[i * p.c_stride + j]) << name << ": beside c";
  }
}

// In any number of threads and with b packed before, the same bits.
template <typename T>
void ExpectProducts(double bound) {
  std::mt19937 random(5);
  for (const Case& s : kCases) {
    const int64_t more = random() % 3, c_stride = s.n + random() % 3;
    const auto a = Random<T>((s.m + more + 1) * (s.k + more) + 1, random),
               b = Random<T>((s.k + more) * (s.n + more), random);
    const auto c = Random<float>(s.m * c_stride, random);
    const Strided<T> av = View(a.data() + random() % 2, s.m, s.k, s.a_transposed, more),
                     bv = View(b.data(), s.k, s.n, s.b_transposed, more);
    for (Isa isa : TestIsas()) {
      std::vector<float> first;
      for (int threads : {1, 3}) {
        for (bool before : {false, true}) {
          std::vector<float> y = c;
          ProductSpace space(threads);
          const PackedFloats packed = Pack(bv, s.k, s.n, isa, space);
          FloatProduct<T> product = {s.m, s.n,    s.k,      s.alpha,  av,
                                     bv,  s.beta, y.data(), c_stride, before ? &packed : nullptr};
          Multiply(product, isa, space);
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
  ProductSpace space(1);
  std::vector<float> y = {1, 2, 3, 4};
  const Strided<float> none = {nullptr, 1, 1};
  Multiply(ProductF32{2, 2, 0, 1, none, none, 3, y.data(), 2}, Isa::kScalar, space);
  EXPECT_EQ(y, (std::vector<float>{3, 6, 9, 12}));
  y[0] = std::nanf("");
  Multiply(ProductF32{2, 2, 5, 0, none, none, 0, y.data(), 2}, Isa::kScalar, space);
  EXPECT_EQ(y, std::vector<float>(4, 0));
  const Strided<float> columns = {nullptr, 1, 7};
  EXPECT_EQ(Pack(columns, 0, 40, Isa::kScalar, space).n, 40);
}

}  // namespace
}  // namespace evoq
