// Blocks by hand, and blocks of random bytes in both directions: what is exact must be equal to the
// format's own numbers.
#include "llm/block_format.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "llm/test_files.h"

namespace evoq {
namespace {

StoredTensor Stored(const BlockFormat& format, std::vector<int64_t> sizes,
                    const std::string& bytes) {
  StoredTensor tensor;
  tensor.sizes = std::move(sizes);
  tensor.blocks = &format;
  tensor.bytes = std::as_bytes(std::span(bytes));
  return tensor;
}

const BlockFormat& Format(const char* name) {
  for (const BlockFormat* format : AllBlockFormats()) {
    if (std::string_view(name) == format->name) return *format;
  }
  ADD_FAILURE() << name;
  return *AllBlockFormats()[0];
}

std::string Half(float x) { return Little(FloatToHalf(x), 2); }

TEST(BlockFormats, AreNamedOnce) {
  for (const BlockFormat* format : AllBlockFormats()) {
    EXPECT_EQ(FindBlockFormat(format->id), format) << format->name;
    EXPECT_LE(format->elements, kMaxBlock);
    EXPECT_EQ(format->elements % format->group, 0) << format->name;
  }
  EXPECT_EQ(FindBlockFormat(4), nullptr);
}

// Element 1 in a low nibble, element 16 in the high nibble of byte 0.
TEST(BlockFormats, ByHand) {
  float y[kMaxBlock];
  const auto real = [&](const char* name, const std::string& bytes) {
    const BlockFormat& format = Format(name);
    std::string block = bytes;
    block.resize(static_cast<size_t>(format.bytes));
    format.real(std::as_bytes(std::span(block)).data(), y);
  };
  real("Q4_0", Half(0.5f) + "\x9f\x03");
  EXPECT_EQ(y[0], 3.5f);   // 15 - 8 halves
  EXPECT_EQ(y[16], 0.5f);  // 9 - 8
  EXPECT_EQ(y[1], -2.5f);
  EXPECT_EQ(y[2], -4.0f);
  real("Q4_1", Half(0.5f) + Half(-3) + "\x9f");
  EXPECT_EQ(y[0], 4.5f);
  EXPECT_EQ(y[16], 1.5f);
  EXPECT_EQ(y[1], -3.0f);
  real("Q5_0", Half(2) + Little(0x00010001, 4) + "\x9f");
  EXPECT_EQ(y[0], 30.0f);   // 31 - 16 twice
  EXPECT_EQ(y[16], 18.0f);  // 9 + 16 - 16
  EXPECT_EQ(y[1], -32.0f);
  real("Q5_1", Half(2) + Half(1) + Little(0x80000002, 4) + "\x9f\x03");
  EXPECT_EQ(y[0], 31.0f);
  EXPECT_EQ(y[1], 39.0f);   // 3 + 16
  EXPECT_EQ(y[31], 33.0f);  // the last fifth bit
  real("Q8_0", Half(0.25f) + "\x80\x7f");
  EXPECT_EQ(y[0], -32.0f);
  EXPECT_EQ(y[1], 31.75f);
  real("MXFP4", std::string("\x80") + "\xf7\x01");
  EXPECT_EQ(y[0], 12.0f);  // 6 * 2
  EXPECT_EQ(y[16], -12.0f);
  EXPECT_EQ(y[1], 1.0f);  // 0.5 * 2
  // Group 5 has scale 0x21 and minimum 0x35: low 4 bits in byte 9, high 2 bits in bytes 1 and 5.
  std::string k = Half(1) + Half(2) + std::string(12, '\0') + std::string(128, '\0');
  k[4 + 9] = '\x51';
  k[4 + 1] = '\x80';
  k[4 + 5] = '\xc0';
  k[16 + 2 * 32 + 3] = '\x70';  // groups 4 and 5, element 3
  real("Q4_K", k);
  EXPECT_EQ(y[5 * 32 + 3], 33.0f * 7 - 2 * 53);
  EXPECT_EQ(y[5 * 32], -106.0f);
  EXPECT_EQ(y[4 * 32 + 3], 0.0f);
  std::string k5 = k.substr(0, 16) + std::string(32, '\0') + k.substr(16);
  k5[16 + 3] = '\x20';  // the fifth bit of group 5
  real("Q5_K", k5);
  EXPECT_EQ(y[5 * 32 + 3], 33.0f * 23 - 2 * 53);
  // Element 128 + 32 + 17: scale 3 and minimum 5 of group 11, the second pair of byte 32 + 17.
  std::string k2(84, '\0');
  k2[11] = '\x53';
  k2[16 + 32 + 17] = '\x08';
  k2.replace(80, 4, Half(0.5f) + Half(2));
  real("Q2_K", k2);
  EXPECT_EQ(y[128 + 32 + 17], 0.5f * 3 * 2 - 2 * 5);
  EXPECT_EQ(y[128 + 32 + 18], -10.0f);
  EXPECT_EQ(y[128 + 32 + 15], 0.0f);
  // Element 128 + 2 * 32 + 20 of group 13: low bits of its scale in the high nibble of byte 5, high
  // ones the last pair of byte 9; its third bit is bit 6 of byte 20.
  std::string k3(110, '\0');
  k3[20] = '\x40';
  k3[32 + 32 + 20] = '\x30';
  k3[96 + 5] = '\x70';
  k3[96 + 9] = '\x80';
  k3.replace(108, 2, Half(0.5f));
  real("Q3_K", k3);
  EXPECT_EQ(y[128 + 64 + 20], 0.5f * (7 + 32 - 32) * 3);
  EXPECT_EQ(y[128 + 64 + 21], 0.5f * 7 * -4);
  EXPECT_EQ(y[0], 0.5f * -32 * -4);
  real("IQ4_NL", Half(0.5f) + "\x9f");
  EXPECT_EQ(y[0], 56.5f);
  EXPECT_EQ(y[16], 6.5f);
  EXPECT_EQ(y[1], -63.5f);
  // Element 128 + 2 * 32 + 4: a high nibble of the second half, bits 4 and 5 of the high bytes.
  std::string k6(210, '\0');
  k6[64 + 4] = '\x50';
  k6[128 + 32 + 4] = '\x30';
  k6[192 + 12] = '\xfe';
  k6.replace(208, 2, Half(0.5f));
  real("Q6_K", k6);
  EXPECT_EQ(y[128 + 64 + 4], -1.0f * (5 + 48 - 32));
  EXPECT_EQ(y[128 + 64 + 5], 32.0f);
}

// Random rows; scales of either sign and zero.
std::string RandomBlocks(const BlockFormat& format, int64_t blocks, std::mt19937& random) {
  std::string bytes;
  for (int64_t b = 0; b < blocks; ++b) {
    std::string block;
    for (int i = 0; i < format.bytes; ++i) block += static_cast<char>(random());
    const std::string_view name = format.name;
    const float scale = b % 5 == 0 ? 0.0f : b % 2 == 0 ? -0.01f * b : 0.02f * b;
    if (name == "MXFP4") {
      block[0] = static_cast<char>(120 + random() % 8);
    } else if (name == "Q2_K") {
      block.replace(80, 4, Half(scale) + Half(3 * scale));
    } else if (name == "Q3_K") {
      block.replace(108, 2, Half(scale));
    } else if (name == "Q6_K") {
      block.replace(208, 2, Half(scale));
    } else {
      block.replace(0, 2, Half(scale));
    }
    if (name == "Q8_0" && scale < 0) {
      for (size_t i = 2; i < block.size(); ++i) block[i] = block[i] == '\x80' ? '\x01' : block[i];
    }
    if (format.integers == nullptr && name != "Q2_K") block.replace(2, 2, Half(-3 * scale));
    if (name == "Q4_1") block.replace(0, 4, Half(std::fabs(scale)) + Half(-4 * std::fabs(scale)));
    bytes += block;
  }
  return bytes;
}

TEST(BlockFormats, KeepTheirValues) {
  std::mt19937 random(3);
  for (const BlockFormat* format : AllBlockFormats()) {
    for (const int64_t rows : {1, 7, 130}) {
      SCOPED_TRACE(fmt::format("{} rows {}", format->name, rows));
      const int64_t columns = 2 * format->elements;
      const std::string bytes = RandomBlocks(*format, 2 * rows, random);
      const StoredTensor stored = Stored(*format, {rows, columns}, bytes);
      std::vector<float> wanted(static_cast<size_t>(rows * columns));
      for (int64_t b = 0; b < 2 * rows; ++b)
        format->real(stored.bytes.data() + b * format->bytes, wanted.data() + b * format->elements);
      for (const bool transposed : {false, true}) {
        BlockLoss rounding;
        const auto q = FromBlocks(stored, transposed, rounding);
        ASSERT_TRUE(q) << q.error().message();
        ASSERT_TRUE(ValidateQuant(q->type())) << q->type().ToString();
        const bool exact = format->integers != nullptr;
        EXPECT_EQ(rounding.rounded, !exact);
        double error = 0, power = 0;
        EXPECT_EQ(q->dtype(), exact ? format->dtype : DType::kInt8);
        const auto real = ToFloat32(*q);
        ASSERT_TRUE(real);
        for (int64_t r = 0; r < rows; ++r) {
          for (int64_t c = 0; c < columns; ++c) {
            const float x = wanted[static_cast<size_t>(r * columns + c)];
            const float y = real->data<float>()[transposed ? c * rows + r : r * columns + c];
            error += std::pow(static_cast<double>(x) - y, 2);
            power += std::pow(static_cast<double>(x), 2);
            float largest = 0;  // of the 32 that share a rounded scale
            for (int64_t i = c / 32 * 32; i < c / 32 * 32 + 32; ++i)
              largest = std::max(largest, std::fabs(wanted[static_cast<size_t>(r * columns + i)]));
            ASSERT_LE(std::fabs(x - y), exact ? 0 : largest / 127 * 0.5001f) << r << ", " << c;
          }
        }
        EXPECT_NEAR(rounding.share, std::sqrt(error / power), 1e-6);
        EXPECT_EQ(rounding.share > 0, !exact);
      }
    }
  }
}

// A minimum that is no whole number of scales has no integers: int8 of the whole tensor.
TEST(BlockFormats, Q4_1WithOtherMinima) {
  const std::string bytes = Half(0.5f) + Half(-3) + std::string(16, '\x70') + Half(0.5f) +
                            Half(-0.75f) + std::string(16, '\x70');
  BlockLoss rounding;
  const auto q = FromBlocks(Stored(Format("Q4_1"), {2, 32}, bytes), false, rounding);
  ASSERT_TRUE(q);
  EXPECT_TRUE(rounding.rounded);
  EXPECT_EQ(q->dtype(), DType::kInt8);
  EXPECT_NEAR(ToFloat32(*q)->values<float>()[0], -3, 3.0 / 127);
}

// -128 at a negative scale is no int8 at the positive one.
TEST(BlockFormats, Q8_0AtItsEdge) {
  const std::string bytes = Half(-0.5f) + "\x80" + std::string(31, '\1');
  BlockLoss rounding;
  const auto q = FromBlocks(Stored(Format("Q8_0"), {1, 32}, bytes), true, rounding);
  ASSERT_TRUE(q);
  EXPECT_TRUE(rounding.rounded);
  EXPECT_EQ(ToFloat32(*q)->values<float>()[0], 64.0f);
}

TEST(BlockFormats, ScalesThatAreNoNumbers) {
  for (const float scale : {INFINITY, -INFINITY, NAN}) {
    for (const char* name : {"Q4_0", "Q4_1", "Q5_1", "Q8_0"}) {
      const BlockFormat& format = Format(name);
      std::string bytes = Half(scale) + std::string(static_cast<size_t>(format.bytes) - 2, '\3');
      BlockLoss rounding;
      const auto q = FromBlocks(Stored(format, {1, 32}, bytes), true, rounding);
      ASSERT_FALSE(q) << name << scale;
      EXPECT_NE(q.error().message().find("row 0, block 0: the scale is"), std::string::npos);
    }
  }
  BlockLoss rounding;
  const std::string bytes = std::string(17, '\xff');
  EXPECT_FALSE(FromBlocks(Stored(Format("MXFP4"), {1, 32}, bytes), false, rounding));
}

}  // namespace
}  // namespace evoq
