// The block formats of 256 elements whose numbers come from tables, of three values, or of signs
// alone, laid out as ggml has them (its headers of quantized types). Each is integers times a scale
// for every few elements, and both are computed without rounding, but for scales that underflow.
#include <array>
#include <cmath>
#include <cstring>

#include "llm/block_format.h"

namespace evoq {
namespace {

#include "llm/block_grids.inc"

uint16_t WordAt(const std::byte* at) {
  uint16_t bits;
  std::memcpy(&bits, at, sizeof(bits));
  return bits;
}
float HalfAt(const std::byte* at) { return HalfToFloat(WordAt(at)); }
uint32_t LongAt(const std::byte* at) {
  uint32_t bits;
  std::memcpy(&bits, at, sizeof(bits));
  return bits;
}
int ByteAt(const std::byte* at, int i) { return static_cast<int>(at[i]); }
int NibbleAt(const std::byte* at, int i) { return ByteAt(at, i / 2) >> (i % 2 * 4) & 15; }
float Real(int n) { return static_cast<float>(n); }

// A block as scales of any sign and integers.
struct Numbers {
  float scales[kMaxBlock];
  int q[kMaxBlock];
};
using Decode = void (*)(const std::byte* block, Numbers& out);

template <Decode kDecode, int kElements, int kGroup>
void RealOf(const std::byte* b, float* y) {
  Numbers n;
  kDecode(b, n);
  for (int i = 0; i < kElements; ++i) y[i] = n.scales[i / kGroup] * Real(n.q[i]);
}

// Scales of the dialect are positive: where one is negative, its numbers change their signs. Of two
// bits, -1 to 2 are stored from 0 on, -2 to 1 also.
template <Decode kDecode, int kElements, int kGroup, bool kTwoBits>
bool IntegersOf(const std::byte* b, IntegerBlock& out) {
  Numbers n;
  kDecode(b, n);
  for (int g = 0; g < kElements / kGroup; ++g) {
    const float s = n.scales[g];
    const int sign = s == 0 ? 0 : s < 0 ? -1 : 1, zero = kTwoBits ? (s < 0 ? 2 : 1) : 0;
    out.scales[g] = s == 0 ? 1 : std::fabs(s);
    out.zeros[g] = zero;
    for (int i = g * kGroup; i < (g + 1) * kGroup; ++i)
      out.q[i] = static_cast<int16_t>(sign * n.q[i] + zero);
  }
  return true;
}

template <Decode kDecode, int kGroup>
constexpr BlockFormat GridFormat(const char* name, uint32_t id, int bytes) {
  return {.name = name,
          .id = id,
          .elements = 256,
          .bytes = bytes,
          .real = RealOf<kDecode, 256, kGroup>,
          .integers = IntegersOf<kDecode, 256, kGroup, false>,
          .group = kGroup};
}
// All elements have one scale.
template <Decode kDecode, int kElements>
constexpr BlockFormat TwoBitFormat(const char* name, uint32_t id, int bytes) {
  return {.name = name,
          .id = id,
          .elements = kElements,
          .bytes = bytes,
          .real = RealOf<kDecode, kElements, kElements>,
          .integers = IntegersOf<kDecode, kElements, kElements, true>,
          .dtype = DType::kUint2,
          .group = kElements};
}

// ---- grids

template <size_t kChars>
constexpr std::array<uint16_t, kChars / 4> Points(const char (&digits)[kChars]) {
  std::array<uint16_t, kChars / 4> points{};
  for (size_t i = 0; i < points.size() * 4; ++i) {
    const char c = digits[i];
    const int digit = c <= '9' ? c - '0' : c - 'a' + 10;
    points[i / 4] = static_cast<uint16_t>(points[i / 4] << 4 | digit);
  }
  return points;
}
constexpr auto kIq2Xxs = Points(kPointsIq2Xxs);
constexpr auto kIq2Xs = Points(kPointsIq2Xs);
constexpr auto kIq2S = Points(kPointsIq2S);
constexpr auto kIq1 = Points(kPointsIq1);
constexpr auto kIq3Xxs = Points(kPointsIq3Xxs);
constexpr auto kIq3S = Points(kPointsIq3S);

constexpr int kOfTwoBits[4] = {8, 25, 43, 0};
constexpr int kOfThreeBits[8] = {4, 12, 20, 28, 36, 44, 52, 62};

// Seven signs; the eighth makes the number of negative ones even.
int EvenSigns(uint32_t seven) {
  const uint32_t bits = seven & 127;
  return static_cast<int>(bits | (__builtin_parity(bits) ? 128u : 0u));
}
int Signed(int n, int signs, int i) { return signs >> i & 1 ? -n : n; }

void Eight(uint16_t point, int signs, int* q) {
  for (int i = 0; i < 8; ++i) q[i] = Signed(kOfTwoBits[point >> 2 * i & 3], signs, i);
}

// Half d; for each 32 elements four bytes of points and a word: four times seven signs, the scale.
void Iq2Xxs(const std::byte* b, Numbers& n) {
  for (int g = 0; g < 8; ++g) {
    const std::byte* const at = b + 2 + 8 * g;
    const uint32_t word = LongAt(at + 4);
    n.scales[g] = HalfAt(b) * (0.5f + Real(static_cast<int>(word >> 28))) * 0.25f;
    for (int k = 0; k < 4; ++k)
      Eight(kIq2Xxs[static_cast<size_t>(at[k])], EvenSigns(word >> 7 * k), n.q + 32 * g + 8 * k);
  }
}

// Half d, 32 words of a point and seven signs, sixteen nibbles of scales.
void Iq2Xs(const std::byte* b, Numbers& n) {
  for (int g = 0; g < 16; ++g) n.scales[g] = HalfAt(b) * (0.5f + Real(NibbleAt(b + 66, g))) * 0.25f;
  for (int k = 0; k < 32; ++k) {
    const uint16_t word = WordAt(b + 2 + 2 * k);
    Eight(kIq2Xs[word & 511], EvenSigns(word >> 9), n.q + 8 * k);
  }
}

// Half d, 32 bytes of points, 32 of signs, 8 of the points' high pairs of bits, scales as above.
void Iq2S(const std::byte* b, Numbers& n) {
  for (int g = 0; g < 16; ++g) n.scales[g] = HalfAt(b) * (0.5f + Real(NibbleAt(b + 74, g))) * 0.25f;
  for (int k = 0; k < 32; ++k) {
    const int high = ByteAt(b + 66, k / 4) >> (k % 4 * 2) & 3;
    Eight(kIq2S[static_cast<size_t>(ByteAt(b + 2, k) | high << 8)], ByteAt(b + 34, k), n.q + 8 * k);
  }
}

// Half d, 64 bytes of points, eight words as of IQ2_XXS.
void Iq3Xxs(const std::byte* b, Numbers& n) {
  for (int g = 0; g < 8; ++g) {
    const uint32_t word = LongAt(b + 66 + 4 * g);
    n.scales[g] = HalfAt(b) * (0.5f + Real(static_cast<int>(word >> 28))) * 0.5f;
    for (int k = 0; k < 32; ++k) {
      const int point = kIq3Xxs[static_cast<size_t>(b[2 + 8 * g + k / 4])];
      n.q[32 * g + k] =
          Signed(kOfThreeBits[point >> 4 * (k % 4) & 7], EvenSigns(word >> 7 * (k / 8)), k % 8);
    }
  }
}

// Half d, 64 bytes of points, 8 of their high bits, 32 of signs, eight nibbles of scales.
void Iq3S(const std::byte* b, Numbers& n) {
  for (int g = 0; g < 8; ++g) n.scales[g] = HalfAt(b) * Real(1 + 2 * NibbleAt(b + 106, g));
  for (int i = 0; i < 256; ++i) {
    const int k = i / 4, high = ByteAt(b + 66, k / 8) >> k % 8 & 1;
    const int point = kIq3S[static_cast<size_t>(ByteAt(b + 2, k) | high << 8)];
    n.q[i] = Signed(2 * (point >> 4 * (i % 4) & 7) + 1, ByteAt(b + 74, i / 8), i % 8);
  }
}

// Eight of -1, 0, 1, plus or minus an eighth, in eighths.
void EightWithShift(size_t index, bool minus, int* q) {
  for (int i = 0; i < 8; ++i) q[i] = 8 * ((kIq1[index] >> 2 * i & 3) - 1) + (minus ? -1 : 1);
}

// Half d, 32 bytes of points, eight words: four times three high bits of a point, the scale, the
// sign of the shift.
void Iq1S(const std::byte* b, Numbers& n) {
  for (int g = 0; g < 8; ++g) {
    const int word = WordAt(b + 34 + 2 * g);
    n.scales[g] = HalfAt(b) * Real(2 * (word >> 12 & 7) + 1) * 0.125f;
    for (int k = 0; k < 4; ++k) {
      const int point = ByteAt(b + 2, 4 * g + k) | (word >> 3 * k & 7) << 8;
      EightWithShift(static_cast<size_t>(point), word >> 15 != 0, n.q + 32 * g + 8 * k);
    }
  }
}

// 32 bytes of points, 32 nibbles of three high bits and the sign of the shift, four words: four
// scales of three bits, and a nibble of the half d.
void Iq1M(const std::byte* b, Numbers& n) {
  uint16_t half = 0;
  for (int w = 0; w < 4; ++w)
    half = static_cast<uint16_t>(half | (WordAt(b + 48 + 2 * w) >> 12) << 4 * w);
  for (int g = 0; g < 16; ++g) {
    const int scale = WordAt(b + 48 + g / 4 * 2) >> (g % 4 * 3) & 7;
    n.scales[g] = HalfToFloat(half) * Real(2 * scale + 1) * 0.125f;
  }
  for (int k = 0; k < 32; ++k) {
    const int nibble = NibbleAt(b + 32, k), point = ByteAt(b, k) | (nibble & 7) << 8;
    EightWithShift(static_cast<size_t>(point), nibble >= 8, n.q + 8 * k);
  }
}

// ---- IQ4_XS: half d, a word of the scales' high pairs of bits, eight nibbles of their low ones,
// blocks of 16 bytes as of IQ4_NL

void Iq4Xs(const std::byte* b, Numbers& n) {
  for (int g = 0; g < 8; ++g) {
    const int scale = NibbleAt(b + 4, g) | (WordAt(b + 2) >> 2 * g & 3) << 4;
    n.scales[g] = HalfAt(b) * Real(scale - 32);
    for (int i = 0; i < 32; ++i) {
      const int both = ByteAt(b + 8, 16 * g + i % 16);
      n.q[32 * g + i] = kValuesIq4[i < 16 ? both & 15 : both >> 4];
    }
  }
}

// ---- three values, and two: one half d

// 32, 16 and 4 bytes, each a fraction of 256 with five digits of base 3 (the last four bytes:
// four), digit j of byte i element i of the run j; d.
void Tq1(const std::byte* b, Numbers& n) {
  constexpr int kPowers[5] = {1, 3, 9, 27, 81};
  n.scales[0] = HalfAt(b + 52);
  const auto run = [&](const std::byte* bytes, int count, int digits, int* q) {
    for (int i = 0; i < count * digits; ++i) {
      const int fraction = ByteAt(bytes, i % count) * kPowers[i / count] & 255;
      q[i] = (fraction * 3 >> 8) - 1;
    }
  };
  run(b, 32, 5, n.q);
  run(b + 32, 16, 5, n.q + 160);
  run(b + 48, 4, 4, n.q + 240);
}

// 64 bytes: of each 32, pair j is the elements 32 j to 32 j + 31 of half the block; d.
void Tq2(const std::byte* b, Numbers& n) {
  n.scales[0] = HalfAt(b + 64);
  for (int i = 0; i < 256; ++i)
    n.q[i] = (ByteAt(b, i / 128 * 32 + i % 32) >> (i % 128 / 32 * 2) & 3) - 1;
}

}  // namespace

extern const BlockFormat kBlocksIq2Xxs = GridFormat<Iq2Xxs, 32>("IQ2_XXS", 16, 66);
extern const BlockFormat kBlocksIq2Xs = GridFormat<Iq2Xs, 16>("IQ2_XS", 17, 74);
extern const BlockFormat kBlocksIq2S = GridFormat<Iq2S, 16>("IQ2_S", 22, 82);
extern const BlockFormat kBlocksIq3Xxs = GridFormat<Iq3Xxs, 32>("IQ3_XXS", 18, 98);
extern const BlockFormat kBlocksIq3S = GridFormat<Iq3S, 32>("IQ3_S", 21, 110);
extern const BlockFormat kBlocksIq1S = GridFormat<Iq1S, 32>("IQ1_S", 19, 50);
extern const BlockFormat kBlocksIq1M = GridFormat<Iq1M, 16>("IQ1_M", 29, 56);
extern const BlockFormat kBlocksIq4Xs = GridFormat<Iq4Xs, 32>("IQ4_XS", 23, 136);
extern const BlockFormat kBlocksTq1 = TwoBitFormat<Tq1, 256>("TQ1_0", 34, 54);
extern const BlockFormat kBlocksTq2 = TwoBitFormat<Tq2, 256>("TQ2_0", 35, 66);

}  // namespace evoq
