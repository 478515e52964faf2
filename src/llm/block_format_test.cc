// Blocks by hand, and blocks of random bytes in both directions: what is exact must be equal to the
// format's own numbers.
#include "llm/block_format.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
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
  // Element 16 + 9: a high nibble of the second eight bytes; scales 2, 0.5 and one that is 0.
  real("NVFP4", std::string("\x40\x30\x7f\x01") + std::string("\xf7", 1) + std::string(7, '\0') +
                    std::string("\0\x21", 2) + std::string(6, '\0') + "\x77");
  EXPECT_EQ(y[0], 12.0f);
  EXPECT_EQ(y[8], -12.0f);
  EXPECT_EQ(y[17], 0.25f);
  EXPECT_EQ(y[25], 0.5f);
  EXPECT_EQ(y[32], 0.0f);
  real("Q1_0", Half(-0.5f) + std::string("\x02\0", 2) + "\x80");
  EXPECT_EQ(y[0], 0.5f);
  EXPECT_EQ(y[1], -0.5f);
  EXPECT_EQ(y[23], -0.5f);
  EXPECT_EQ(y[24], 0.5f);
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

// Formats of points: where each part of a number lies. The points 0 are eight (or four) of the
// least value; of IQ1_S, -1.
TEST(BlockFormats, GridsByHand) {
  float y[kMaxBlock];
  const auto real = [&](const char* name, const std::map<size_t, std::string>& parts) {
    const BlockFormat& format = Format(name);
    std::string block(static_cast<size_t>(format.bytes), '\0');
    for (const auto& [at, bytes] : parts) block.replace(at, bytes.size(), bytes);
    format.real(std::as_bytes(std::span(block)).data(), y);
  };
  const std::string half = Half(0.5f);
  // Group 1: point 1, seven signs of the second eight are 3, so the eighth is positive; scale 2.5.
  real("IQ2_XXS", {{0, half}, {10, "\1"}, {14, Little(2u << 28 | 3u << 7, 4)}});
  EXPECT_EQ(y[0], 0.5f * 0.5f * 0.25f * 8);
  EXPECT_EQ(y[32], 0.5f * 2.5f * 0.25f * 43);
  EXPECT_EQ(y[33], 0.5f * 2.5f * 0.25f * 8);
  EXPECT_EQ(y[40], -2.5f);
  EXPECT_EQ(y[41], -2.5f);
  EXPECT_EQ(y[47], 2.5f);
  real("IQ2_XS", {{0, half}, {2 + 6, Little(1u << 9 | 1, 2)}, {66, "\x10"}});
  EXPECT_EQ(y[24], -0.5f * 1.5f * 0.25f * 43);
  EXPECT_EQ(y[31], -1.5f);
  EXPECT_EQ(y[25], 1.5f);
  EXPECT_EQ(y[0], 0.5f);
  real("IQ2_S", {{0, half}, {2 + 5, "\1"}, {34 + 5, "\x81"}, {74 + 1, "\x03"}});
  EXPECT_EQ(y[40], -0.5f * 3.5f * 0.25f * 43);
  EXPECT_EQ(y[47], -3.5f);
  EXPECT_EQ(y[41], 3.5f);
  real("IQ3_XXS", {{0, half}, {2 + 9, "\1"}, {66 + 4, Little(1u << 28 | 16, 4)}});
  EXPECT_EQ(y[36], -0.5f * 1.5f * 0.5f * 20);
  EXPECT_EQ(y[37], 1.5f);
  EXPECT_EQ(y[39], -1.5f);
  real("IQ3_S", {{0, half}, {2 + 9, "\1"}, {74 + 4, "\x20"}, {106, "\x20"}});
  EXPECT_EQ(y[36], 0.5f * 5 * 3);
  EXPECT_EQ(y[37], -0.5f * 5 * 1);
  EXPECT_EQ(y[32], 2.5f);
  // Group 2: scale 7, minus an eighth.
  real("IQ1_S", {{0, half}, {34 + 4, Little(0x8000 | 3 << 12 | 0 << 3, 2)}});
  EXPECT_EQ(y[0], 0.5f * (-1 + 0.125f));
  EXPECT_EQ(y[64], 0.5f * 7 * (-1 - 0.125f));
  // d's nibbles are 0, 0, 8, 3: half 0x3800 is 0.5; scale 5 of group 5.
  real("IQ1_M", {{32 + 5, "\x80"},
                 {48 + 2, Little(2 << 3, 2)},
                 {52, Little(0x8000, 2)},
                 {54, Little(0x3000, 2)}});
  EXPECT_EQ(y[0], 0.5f * (-1 + 0.125f));
  EXPECT_EQ(y[80], 0.5f * 5 * (-1 + 0.125f));
  EXPECT_EQ(y[88], 0.5f * 5 * (-1 - 0.125f));
  // Scale 32 + 16 + 3 of group 3.
  real("IQ4_XS", {{0, half}, {2, Little(3 << 6, 2)}, {4 + 1, "\x30"}, {8 + 48 + 2, "\x9f"}});
  EXPECT_EQ(y[0], 0.5f * -32 * -127);
  EXPECT_EQ(y[96 + 2], 0.5f * (51 - 32) * 113);
  EXPECT_EQ(y[96 + 18], 0.5f * (51 - 32) * 13);
  // 0.10202 of base 3 is 101 / 243, of 256 rounded up 107.
  real("TQ1_0", {{52, half}, {1, "\x6b"}});
  EXPECT_EQ(y[1], 0.0f);
  EXPECT_EQ(y[33], -0.5f);
  EXPECT_EQ(y[65], 0.5f);
  EXPECT_EQ(y[97], -0.5f);
  EXPECT_EQ(y[129], 0.5f);
  real("TQ2_0", {{64, half}, {32 + 3, "\xe4"}});
  EXPECT_EQ(y[128 + 3], -0.5f);
  EXPECT_EQ(y[128 + 32 + 3], 0.0f);
  EXPECT_EQ(y[128 + 64 + 3], 0.5f);
  EXPECT_EQ(y[128 + 96 + 3], 1.0f);
}

// Where d lies in a block.
size_t HalfOf(std::string_view name) {
  constexpr std::pair<std::string_view, size_t> kPlaces[] = {
      {"Q2_K", 80}, {"Q3_K", 108}, {"Q6_K", 208}, {"TQ1_0", 52}, {"TQ2_0", 64}};
  for (const auto& [known, at] : kPlaces) {
    if (known == name) return at;
  }
  return 0;
}

// Random rows; scales of either sign and zero.
std::string RandomBlocks(const BlockFormat& format, int64_t blocks, std::mt19937& random) {
  std::string bytes;
  for (int64_t b = 0; b < blocks; ++b) {
    std::string block;
    for (int i = 0; i < format.bytes; ++i) block += static_cast<char>(random());
    const std::string_view name = format.name;
    const float scale = b % 5 == 0 ? 0.0f : b % 2 == 0 ? -0.01f * b : 0.02f * b;
    if (name == "NVFP4") {
      for (size_t g = 0; g < 4; ++g) block[g] = static_cast<char>(random() % 128);
    } else if (name == "MXFP4") {
      block[0] = static_cast<char>(120 + random() % 8);
    } else if (name == "IQ1_M") {  // a nibble in each of the last four words
      for (size_t w = 0; w < 4; ++w) {
        char& high = block[49 + 2 * w];
        high = static_cast<char>((high & 15) | (FloatToHalf(scale) >> 4 * w & 15) << 4);
      }
    } else {
      block.replace(HalfOf(name), 2, Half(scale));
    }
    if (name == "Q2_K") block.replace(82, 2, Half(3 * scale));
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
