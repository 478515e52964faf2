// The software's tiles against sums written out, what they refuse, and the hardware's against them
// where there are any.
#include "base/amx.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <random>
#include <thread>
#include <vector>

#include "kernels/amx/software.h"
#if defined(__x86_64__)
#include "kernels/amx/emulator_testing.h"
#include "kernels/amx/hardware.h"
#endif

namespace evoq {
namespace {

using Bytes = std::vector<uint8_t>;

// Tiles 0 = 0 + 4 * 6 of these sizes.
AmxConfig ConfigOf(int rows, int depth, int columns) {
  AmxConfig config;
  config.rows[0] = config.rows[4] = static_cast<uint8_t>(rows);
  config.rows[6] = static_cast<uint8_t>(depth);
  config.row_bytes[0] = config.row_bytes[6] = static_cast<uint16_t>(4 * columns);
  config.row_bytes[4] = static_cast<uint16_t>(4 * depth);
  return config;
}

Bytes Random(size_t count, std::mt19937& rng) {
  Bytes bytes(count);
  for (uint8_t& b : bytes) b = rng() % 4 == 0 ? (rng() % 2 == 0 ? 0xff : 0x80) : rng() & 0xff;
  return bytes;
}

enum class Dot { kU8S8, kS8S8, kBf16 };

struct Operands {
  int rows, depth, columns;
  int64_t a_stride;  // of a; c's and b's are those of compact tiles
  Bytes c, a, b;

  Operands(int m, int k, int n, int64_t more, std::mt19937& rng)
      : rows(m),
        depth(k),
        columns(n),
        a_stride(4 * k + more),
        c(Random(static_cast<size_t>(4 * m * n), rng)),
        a(Random(static_cast<size_t>((m - 1) * a_stride + 4 * k), rng)),
        b(Random(static_cast<size_t>(4 * k * n), rng)) {}
};

// c after two products, into a buffer without a byte to spare.
template <typename Unit>
Bytes Multiply(const Operands& o, Dot dot) {
  Unit::Configure(ConfigOf(o.rows, o.depth, o.columns));
  Unit::template Load<0>(o.c.data(), 4 * o.columns);
  Unit::template Load<4>(o.a.data(), o.a_stride);
  Unit::template Load<6>(o.b.data(), 4 * o.columns);
  for (int times = 0; times < 2; ++times) {
    if (dot == Dot::kU8S8) Unit::template DotU8S8<0, 4, 6>();
    if (dot == Dot::kS8S8) Unit::template DotS8S8<0, 4, 6>();
    if (dot == Dot::kBf16) Unit::template DotBf16<0, 4, 6>();
  }
  Bytes c(o.c.size());
  Unit::template Store<0>(c.data(), 4 * o.columns);
  Unit::Release();
  return c;
}

int32_t Int32At(const Bytes& bytes, int at) {
  int32_t v;
  __builtin_memcpy(&v, &bytes[static_cast<size_t>(4 * at)], 4);
  return v;
}

TEST(Amx, SumsOfBytesAreTheFormula) {
  std::mt19937 rng(1);
  for (const auto& [m, k, n] : {std::tuple(16, 16, 16), {1, 1, 1}, {7, 13, 5}, {16, 8, 16}}) {
    for (const bool is_signed : {false, true}) {
      const Operands o(m, k, n, 12, rng);
      const Bytes c = Multiply<AmxSoftware>(o, is_signed ? Dot::kS8S8 : Dot::kU8S8);
      for (int i = 0; i < m * n; ++i) {
        int64_t sum = Int32At(o.c, i);
        for (int l = 0; l < 4 * k; ++l) {
          const uint8_t x = o.a[static_cast<size_t>(i / n * o.a_stride + l)];
          const int x_value = is_signed ? static_cast<int8_t>(x) : x;
          sum += 2 * x_value *
                 static_cast<int8_t>(o.b[static_cast<size_t>(l / 4 * 4 * n + i % n * 4 + l % 4)]);
        }
        ASSERT_EQ(Int32At(c, i), static_cast<int32_t>(static_cast<uint32_t>(sum)))
            << m << " " << k << " " << n << " element " << i;
      }
    }
  }
}

Bytes OfBf16(const std::vector<float>& values) {
  Bytes bytes;
  for (const float v : values) {
    const uint32_t bits = std::bit_cast<uint32_t>(v);
    bytes.push_back(bits >> 16 & 0xff);
    bytes.push_back(bits >> 24);
  }
  return bytes;
}

// One element of two pairs: worked out from the order that Intel's manual writes down.
float Bf16Element(const std::vector<float>& a, const std::vector<float>& b, float c) {
  AmxSoftware::Configure(ConfigOf(1, 2, 1));
  const Bytes x = OfBf16(a), w = OfBf16(b);
  AmxSoftware::Load<0>(&c, 4);
  AmxSoftware::Load<4>(x.data(), 8);
  AmxSoftware::Load<6>(w.data(), 4);
  AmxSoftware::DotBf16<0, 4, 6>();
  AmxSoftware::Store<0>(&c, 4);
  AmxSoftware::Release();
  return c;
}

TEST(Amx, SumsOfBf16TakeTwoChainsAndFlush) {
  // 1 * 1 + 2 * 4 + 3 * 8 + 5 * 16 + 7
  EXPECT_EQ(Bf16Element({1, 2, 3, 5}, {1, 4, 8, 16}, 7), 120);
  // The even chain, 2^24 + 1, rounds to 2^24; the odd one is 1 + 1: 2^24 + 2. One chain in the
  // order of elements would give 2^24.
  EXPECT_EQ(Bf16Element({4096, 1, 1, 1}, {4096, 1, 1, 1}, 0), 16777218.0f);
  // c comes last: 2^24 + (1 + 1), not (2^24 + 1) + 1.
  EXPECT_EQ(Bf16Element({1, 1, 0, 0}, {1, 1, 0, 0}, 16777216.0f), 16777218.0f);
  // A multiply-add rounds once: 2^-70 * 2^-70 is gone, and of what is left -2^-126 is normal.
  const float tiny = std::ldexp(1.0f, -126);
  EXPECT_EQ(Bf16Element({std::ldexp(1.0f, -63), 0, 0, 0}, {std::ldexp(1.0f, -63), 0, 0, 0}, 0),
            tiny);
  EXPECT_EQ(Bf16Element({std::ldexp(1.0f, -64), 0, 0, 0}, {std::ldexp(1.0f, -63), 0, 0, 0}, 0), 0);
  EXPECT_EQ(Bf16Element({tiny / 2, 0, 0, 0}, {4, 0, 0, 0}, 0), 0) << "an operand that is flushed";
  EXPECT_EQ(Bf16Element({0, 0, 0, 0}, {0, 0, 0, 0}, tiny / 2), 0) << "so is c";
}

// What a kernel asks for is counted, per thread and in all.
TEST(Amx, Counts) {
  const AmxCounts before = AmxSoftwareCounts();
  std::mt19937 rng(3);
  const Operands o(16, 16, 16, 0, rng);
  const auto once = [&] { Multiply<AmxSoftware>(o, Dot::kU8S8); };
  std::thread other(once);
  once();
  other.join();
  const AmxCounts after = AmxSoftwareCounts();
  EXPECT_EQ(after.configurations - before.configurations, 2);
  EXPECT_EQ(after.releases - before.releases, 2);
  EXPECT_EQ(after.loads - before.loads, 6);
  EXPECT_EQ(after.stores - before.stores, 2);
  EXPECT_EQ(after.products - before.products, 4);
}

// What raises an exception on the hardware.
TEST(AmxDeathTest, RefusesWhatTheHardwareRefuses) {
  const auto with = [](auto change) {
    AmxConfig config = ConfigOf(16, 16, 16);
    change(config);
    AmxSoftware::Configure(config);
  };
  EXPECT_DEATH(with([](AmxConfig& c) { c.palette = 2; }), "palette 2");
  EXPECT_DEATH(with([](AmxConfig& c) { c.reserved[3] = 1; }), "reserved");
  EXPECT_DEATH(with([](AmxConfig& c) { c.rows[1] = 17, c.row_bytes[1] = 64; }), "17 rows");
  EXPECT_DEATH(with([](AmxConfig& c) { c.rows[1] = 16, c.row_bytes[1] = 65; }), "of 65 bytes");
  EXPECT_DEATH(with([](AmxConfig& c) { c.rows[1] = 16; }), "tile 1 has 16 rows of 0");
  EXPECT_DEATH(with([](AmxConfig& c) { c.rows[8] = 16, c.row_bytes[8] = 64; }), "tile 8");
  uint8_t memory[1024] = {};
  EXPECT_DEATH(AmxSoftware::Load<0>(memory, 64), "before tiles are configured");
  EXPECT_DEATH(AmxSoftware::Release(), "not configured");
  const auto configured = [](int rows, int depth, int columns, auto use) {
    AmxSoftware::Configure(ConfigOf(rows, depth, columns));
    use();
  };
  EXPECT_DEATH(configured(16, 16, 16, [&] { AmxSoftware::Load<1>(memory, 64); }),
               "tile 1 is not configured");
  EXPECT_DEATH(configured(16, 16, 16, [] { AmxSoftware::DotU8S8<0, 4, 4>(); }), "0 = 4 \\* 4");
  const auto product = [&](auto change) {
    with(change);
    AmxSoftware::DotU8S8<0, 4, 6>();
  };
  EXPECT_DEATH(product([](AmxConfig& c) { c.rows[4] = 15; }), "15 x 64 and 16 x 64 bytes into 16");
  EXPECT_DEATH(product([](AmxConfig& c) { c.row_bytes[6] = 60; }), "16 x 64 and 16 x 60 bytes");
  EXPECT_DEATH(product([](AmxConfig& c) { c.row_bytes[4] = 60; }), "16 x 60 and 16 x 64 bytes");
  EXPECT_DEATH(product([](AmxConfig& c) { c.row_bytes[4] = 63; }), "rows of 63 and 64 bytes");
}

#if defined(__x86_64__)

void ExpectHardwareLikeSoftware() {
  std::mt19937 rng(5);
  for (int times = 0; times < 300; ++times) {
    const auto size = [&] { return times < 3 ? 16 : static_cast<int>(rng() % 16 + 1); };
    Operands o(size(), size(), size(), static_cast<int64_t>(rng() % 65), rng);
    for (const Dot dot : {Dot::kU8S8, Dot::kS8S8})
      ASSERT_EQ(Multiply<AmxHardware>(o, dot), Multiply<AmxSoftware>(o, dot)) << times;
    // Of random bits: numbers of all sizes below 2^33, so that there is no NaN, whose bits the
    // manual leaves open.
    const auto limit = [&](Bytes& bytes, int64_t width, int64_t stride) {
      for (int64_t row = 0; row < std::ssize(bytes); row += stride) {
        for (int64_t i = row + width - 1; i < std::min(row + stride, std::ssize(bytes));
             i += width) {
          if ((bytes[i] & 0x40) != 0) bytes[i] &= 0xcf;
        }
      }
    };
    limit(o.a, 2, o.a_stride), limit(o.b, 2, 4 * o.columns), limit(o.c, 4, 4 * o.columns);
    ASSERT_EQ(Multiply<AmxHardware>(o, Dot::kBf16), Multiply<AmxSoftware>(o, Dot::kBf16)) << times;
  }
}

TEST(Amx, HardwareEqualsSoftware) {
  if (!AmxHere().usable) GTEST_SKIP() << "no AMX";
  ExpectHardwareLikeSoftware();
}

// The instructions that the hardware's unit is compiled to are those that it names.
TEST(Amx, InstructionsAreThoseOfTheUnit) {
  if (AmxHere().usable) GTEST_SKIP() << "the processor runs them";
  const AmxEmulator emulator;
  const AmxCounts before = AmxSoftwareCounts();
  ExpectHardwareLikeSoftware();
  EXPECT_EQ(AmxSoftwareCounts().configurations - before.configurations, 2 * 3 * 300);
}

#endif

}  // namespace
}  // namespace evoq
