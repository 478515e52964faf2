// Products of bytes against sums in 64 bits, on every instruction set.
#include "products/int8_product.h"

#include <limits>

#include "kernels/test_util.h"
#include "products/product_testing.h"

namespace evoq {
namespace {

struct Case {
  int64_t m, n, k;
  bool a_transposed, b_transposed, a_signed, b_signed;
  int32_t a_zero, b_zero;
  bool accumulate;
};

// Modulo 2^64.
uint64_t At(const ByteOperand& x, int64_t i, int64_t j) {
  const uint8_t byte = ElementAt(x.bytes, i, j);
  return static_cast<uint64_t>((x.is_signed ? static_cast<int8_t>(byte) : byte) - int64_t{x.zero});
}

std::vector<uint8_t> RandomBytes(int64_t count, std::mt19937& random) {
  std::vector<uint8_t> bytes(static_cast<size_t>(count));
  for (uint8_t& b : bytes) b = random() % 5 == 0 ? (random() % 2 ? 0x80 : 0x7f) : random() >> 8;
  return bytes;
}

TEST(Int8Product, EqualsSums) {
  std::mt19937 random(9);
  constexpr int64_t kRows[] = {1, 2, 7, 15, 113, 230}, kColumns[] = {1, 16, 17, 40, 64, 70, 150},
                    kDepths[] = {1, 3, 4, 5, 31, 64, 130, 700};
  constexpr int32_t kLeast = std::numeric_limits<int32_t>::min(),
                    kMost = std::numeric_limits<int32_t>::max();
  constexpr int32_t kZeros[] = {0, 0, 0, 7, -128, 255, 128, kLeast, kMost};
  for (int round = 0; round < 120; ++round) {
    const auto one_of = [&](const auto& from) { return from[random() % std::size(from)]; };
    const Case s = {.m = one_of(kRows),
                    .n = one_of(kColumns),
                    .k = one_of(kDepths),
                    .a_transposed = random() % 2 == 0,
                    .b_transposed = random() % 2 == 0,
                    .a_signed = random() % 2 == 0,
                    .b_signed = random() % 2 == 0,
                    .a_zero = one_of(kZeros),
                    .b_zero = one_of(kZeros),
                    .accumulate = random() % 2 == 0};
    const int64_t more = random() % 3, c_stride = s.n + random() % 3;
    const MatrixLines a_lines = {s.m, s.k, s.a_transposed, more},
                      b_lines = {s.k, s.n, s.b_transposed, more};
    const auto a = RandomBytes(a_lines.elements(), random),
               b = RandomBytes(b_lines.elements(), random);
    const ByteOperand av = {a_lines.View(a.data()), s.a_signed, s.a_zero},
                      bv = {b_lines.View(b.data()), s.b_signed, s.b_zero};
    std::vector<int32_t> c(static_cast<size_t>(s.m * c_stride));
    for (int32_t& v : c) v = static_cast<int32_t>(random());
    std::vector<int32_t> expected = c;
    for (int64_t i = 0; i < s.m; ++i) {
      for (int64_t j = 0; j < s.n; ++j) {
        uint64_t sum = s.accumulate ? static_cast<uint64_t>(c[i * c_stride + j]) : 0;
        for (int64_t l = 0; l < s.k; ++l) sum += At(av, i, l) * At(bv, l, j);
        expected[i * c_stride + j] = static_cast<int32_t>(sum);
      }
    }
    for (Isa isa : TestIsas()) {
      for (int threads : {1, 3}) {
        for (bool before : {false, true}) {
          std::vector<int32_t> y = c;
          Workspace workspace(threads);
          const PackedInt8 packed = Pack(bv, s.k, s.n, isa, workspace);
          Multiply(
              {s.m, s.n, s.k, av, bv, s.accumulate, y.data(), c_stride, before ? &packed : nullptr},
              isa, workspace);
          ASSERT_EQ(y, expected) << s.m << " x " << s.n << " x " << s.k << " a" << s.a_transposed
                                 << s.a_signed << " b" << s.b_transposed << s.b_signed << " zeros "
                                 << s.a_zero << " " << s.b_zero << " on " << IsaName(isa) << ", "
                                 << threads << " threads, packed " << before;
        }
      }
    }
  }
}

TEST(Int8Product, WithoutTerms) {
  Workspace workspace(1);
  std::vector<int32_t> y = {1, 2, 3, 4};
  const ByteOperand none = {{nullptr, 1, 1}, false, 3}, columns = {{nullptr, 1, 7}, true, 0};
  Multiply({2, 2, 0, columns, columns, true, y.data(), 2}, Isa::kScalar, workspace);
  EXPECT_EQ(y, (std::vector<int32_t>{1, 2, 3, 4}));
  Multiply({2, 2, 0, none, none, false, y.data(), 2}, Isa::kScalar, workspace);
  EXPECT_EQ(y, std::vector<int32_t>(4, 0));
  EXPECT_EQ(Pack(columns, 0, 40, Isa::kScalar, workspace).panels.size(), 0);
}

}  // namespace
}  // namespace evoq
