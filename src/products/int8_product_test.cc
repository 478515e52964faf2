// Products of bytes against sums in 64 bits, on every instruction set.
#include "products/int8_product.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "kernels/test_util.h"

namespace evoq {
namespace {

struct Case {
  int64_t m, n, k;
  bool a_transposed, b_transposed, a_signed, b_signed;
  int32_t a_zero, b_zero;
  bool accumulate;
};

int64_t At(const ByteOperand& x, int64_t i, int64_t j) {
  const uint8_t byte = x.bytes.data[i * x.bytes.row_stride + j * x.bytes.column_stride];
  return (x.is_signed ? static_cast<int8_t>(byte) : byte) - int64_t{x.zero};
}

ByteOperand View(const std::vector<uint8_t>& data, int64_t rows, int64_t columns, bool transposed,
                 int64_t more, bool is_signed, int32_t zero) {
  return {transposed ? Strided<uint8_t>{data.data(), 1, rows + more}
                     : Strided<uint8_t>{data.data(), columns + more, 1},
          is_signed, zero};
}

// The bytes of a matrix, and none behind its last element, so that sanitizers see a read too far.
std::vector<uint8_t> Random(int64_t rows, int64_t columns, bool transposed, int64_t more,
                            std::mt19937& random) {
  if (transposed) std::swap(rows, columns);
  std::vector<uint8_t> bytes(static_cast<size_t>((rows - 1) * (columns + more) + columns));
  for (uint8_t& b : bytes) b = random() % 5 == 0 ? (random() % 2 ? 0x80 : 0x7f) : random() >> 8;
  return bytes;
}

TEST(Int8Product, EqualsSums) {
  std::mt19937 random(9);
  constexpr int64_t kRows[] = {1, 2, 7, 15, 113, 230}, kColumns[] = {1, 16, 17, 40, 64, 70, 150},
                    kDepths[] = {1, 3, 4, 5, 31, 64, 130, 700};
  constexpr int32_t kZeros[] = {0, 0, 7, -128, 255, 128};
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
    const auto a = Random(s.m, s.k, s.a_transposed, more, random),
               b = Random(s.k, s.n, s.b_transposed, more, random);
    const ByteOperand av = View(a, s.m, s.k, s.a_transposed, more, s.a_signed, s.a_zero),
                      bv = View(b, s.k, s.n, s.b_transposed, more, s.b_signed, s.b_zero);
    std::vector<int32_t> c(static_cast<size_t>(s.m * c_stride));
    for (int32_t& v : c) v = static_cast<int32_t>(random());
    std::vector<int32_t> expected = c;
    for (int64_t i = 0; i < s.m; ++i) {
      for (int64_t j = 0; j < s.n; ++j) {
        int64_t sum = s.accumulate ? c[i * c_stride + j] : 0;
        for (int64_t l = 0; l < s.k; ++l) sum += At(av, i, l) * At(bv, l, j);
        expected[i * c_stride + j] = static_cast<int32_t>(static_cast<uint64_t>(sum));
      }
    }
    for (Isa isa : TestIsas()) {
      for (int threads : {1, 3}) {
        for (bool before : {false, true}) {
          std::vector<int32_t> y = c;
          ProductSpace space(threads);
          const PackedInt8 packed = Pack(bv, s.k, s.n, isa, space);
          Multiply(
              {s.m, s.n, s.k, av, bv, s.accumulate, y.data(), c_stride, before ? &packed : nullptr},
              isa, space);
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
  ProductSpace space(1);
  std::vector<int32_t> y = {1, 2, 3, 4};
  const ByteOperand none = {{nullptr, 1, 1}, false, 3}, columns = {{nullptr, 1, 7}, true, 0};
  Multiply({2, 2, 0, columns, columns, true, y.data(), 2}, Isa::kScalar, space);
  EXPECT_EQ(y, (std::vector<int32_t>{1, 2, 3, 4}));
  Multiply({2, 2, 0, none, none, false, y.data(), 2}, Isa::kScalar, space);
  EXPECT_EQ(y, std::vector<int32_t>(4, 0));
  EXPECT_EQ(Pack(columns, 0, 40, Isa::kScalar, space).n, 40);
}

}  // namespace
}  // namespace evoq
