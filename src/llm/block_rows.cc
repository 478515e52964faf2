// The block formats, laid out as ggml has them (its headers of quantized types). Element i of Q4_0
// and its kin is a low nibble, element i + 16 the high one of the same byte.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "llm/block_format.h"

namespace evoq {
namespace {

float HalfAt(const std::byte* at) {
  uint16_t bits;
  std::memcpy(&bits, at, sizeof(bits));
  return HalfToFloat(bits);
}
int ByteAt(const std::byte* at, int i) { return static_cast<int>(at[i]); }
int SignedAt(const std::byte* at, int i) { return static_cast<int8_t>(at[i]); }

int NibbleAt(const std::byte* nibbles, int i) {
  return i < 16 ? ByteAt(nibbles, i) & 15 : ByteAt(nibbles, i - 16) >> 4;
}

// ---- blocks of 32 numbers: half d, (half m,) the numbers

int Q4_0At(const std::byte* b, int i) { return NibbleAt(b + 2, i); }
int Q4_1At(const std::byte* b, int i) { return NibbleAt(b + 4, i); }
// 4 bytes of fifth bits, 16 bytes of nibbles.
int FiveBits(const std::byte* high, int i) {
  return NibbleAt(high + 4, i) | (ByteAt(high, i / 8) >> (i % 8) & 1) << 4;
}
int Q5_0At(const std::byte* b, int i) { return FiveBits(b + 2, i); }
int Q5_1At(const std::byte* b, int i) { return FiveBits(b + 4, i); }
int Q8_0At(const std::byte* b, int i) { return SignedAt(b + 2, i); }

using Number = int (*)(const std::byte* block, int i);

// (n - kMiddle) * d
template <Number kNumber, int kMiddle>
void RealCentered(const std::byte* b, float* y) {
  const float d = HalfAt(b);
  for (int i = 0; i < 32; ++i) y[i] = static_cast<float>(kNumber(b, i) - kMiddle) * d;
}

// n * d + m
template <Number kNumber>
void RealWithMinimum(const std::byte* b, float* y) {
  const float d = HalfAt(b), m = HalfAt(b + 2);
  for (int i = 0; i < 32; ++i) y[i] = static_cast<float>(kNumber(b, i)) * d + m;
}

// The integers of RealCentered. Scales of the dialect are positive: where d is negative, the
// numbers change their signs, and so may need one more than the type has. An unsigned type gets it
// from a shifted zero point; of a signed one -(-128) is too large.
template <Number kNumber, int kMiddle, bool kUnsigned>
bool IntegersCentered(const std::byte* b, IntegerBlock& out) {
  const float d = HalfAt(b);
  const int sign = d == 0 ? 0 : d < 0 ? -1 : 1, zero = kUnsigned ? kMiddle - (d < 0 ? 1 : 0) : 0;
  out.scales[0] = d == 0 ? 1 : std::fabs(d);
  out.zeros[0] = zero;
  int largest = 0;
  for (int i = 0; i < 32; ++i) {
    const int q = sign * (kNumber(b, i) - kMiddle) + zero;
    largest = std::max(largest, q);
    out.q[i] = static_cast<int16_t>(q);
  }
  return largest <= 127;
}

// The integers of RealWithMinimum<Q4_1At>, where m is a whole number of scales, from -15 to 0.
bool IntegersQ4_1(const std::byte* b, IntegerBlock& out) {
  const float d = HalfAt(b), m = HalfAt(b + 2);
  if (d == 0 && m == 0) {
    out.scales[0] = 1;
    out.zeros[0] = 0;
    std::fill_n(out.q, 32, int16_t{0});
    return true;
  }
  const float zero = d > 0 ? std::round(-m / d) : -1;
  if (!(zero >= 0 && zero <= 15) || zero * d != -m) return false;
  out.scales[0] = d;
  out.zeros[0] = static_cast<int32_t>(zero);
  for (int i = 0; i < 32; ++i) out.q[i] = static_cast<int16_t>(Q4_1At(b, i));
  return true;
}

// ---- Q4_K, Q5_K: halves d and dmin, eight 6-bit pairs (scale, minimum) in 12 bytes, (fifth bits
// in 32 bytes,) nibbles: of each 32 bytes the low ones are one group of 32, the high ones the next.

void PairAt(const std::byte* packed, int j, int& scale, int& minimum) {
  if (j < 4) {
    scale = ByteAt(packed, j) & 63;
    minimum = ByteAt(packed, j + 4) & 63;
  } else {
    scale = (ByteAt(packed, j + 4) & 15) | (ByteAt(packed, j - 4) >> 6) << 4;
    minimum = ByteAt(packed, j + 4) >> 4 | (ByteAt(packed, j) >> 6) << 4;
  }
}
void RealK(const std::byte* b, const std::byte* fifth, const std::byte* nibbles, float* y) {
  const float d = HalfAt(b), dmin = HalfAt(b + 2);
  for (int j = 0; j < 8; ++j) {
    int scale, minimum;
    PairAt(b + 4, j, scale, minimum);
    const float s = d * static_cast<float>(scale), m = dmin * static_cast<float>(minimum);
    for (int i = 0; i < 32; ++i) {
      const int byte = ByteAt(nibbles, j / 2 * 32 + i);
      int n = j % 2 == 0 ? byte & 15 : byte >> 4;
      if (fifth != nullptr) n |= (ByteAt(fifth, i) >> j & 1) << 4;
      y[j * 32 + i] = s * static_cast<float>(n) - m;
    }
  }
}
void RealQ4K(const std::byte* b, float* y) { RealK(b, nullptr, b + 16, y); }
void RealQ5K(const std::byte* b, float* y) { RealK(b, b + 16, b + 48, y); }

// ---- Q6_K: 128 bytes of low nibbles, 64 of high pairs of bits, 16 signed scales, half d:
// d * scale * (n - 32), 16 elements to a scale

int SixBits(const std::byte* b, int i) {
  const int half = i / 128, k = i % 128 / 32, l = i % 32;
  const int low = ByteAt(b, half * 64 + (k % 2) * 32 + l);
  const int high = ByteAt(b, 128 + half * 32 + l);
  return ((k < 2 ? low & 15 : low >> 4) | (high >> (2 * k) & 3) << 4) - 32;
}
float ScaleQ6K(const std::byte* b, int g) {
  return HalfAt(b + 208) * static_cast<float>(SignedAt(b + 192, g));
}
void RealQ6K(const std::byte* b, float* y) {
  for (int g = 0; g < 16; ++g) {
    const float s = ScaleQ6K(b, g);
    for (int i = 16 * g; i < 16 * g + 16; ++i) y[i] = s * static_cast<float>(SixBits(b, i));
  }
}
bool IntegersQ6K(const std::byte* b, IntegerBlock& out) {
  for (int g = 0; g < 16; ++g) {
    const float s = ScaleQ6K(b, g);
    const int sign = s == 0 ? 0 : s < 0 ? -1 : 1;
    out.scales[g] = s == 0 ? 1 : std::fabs(s);
    out.zeros[g] = 0;
    for (int i = 16 * g; i < 16 * g + 16; ++i)
      out.q[i] = static_cast<int16_t>(sign * SixBits(b, i));
  }
  return true;
}

// ---- Q2_K: 16 bytes, the low nibble a scale and the high one a minimum of 16 elements, 64 bytes
// of pairs of bits, halves d and dmin: d * scale * n - dmin * minimum. Of each 32 bytes pair j is
// elements 32 j to 32 j + 31 of half the block.

int PairOf32(const std::byte* pairs, int i) {
  return ByteAt(pairs, i / 128 * 32 + i % 32) >> (i % 128 / 32 * 2) & 3;
}
void RealQ2K(const std::byte* b, float* y) {
  const float d = HalfAt(b + 80), dmin = HalfAt(b + 82);
  for (int i = 0; i < 256; ++i) {
    const int both = ByteAt(b, i / 16);
    const float s = d * static_cast<float>(both & 15), m = dmin * static_cast<float>(both >> 4);
    y[i] = s * static_cast<float>(PairOf32(b + 16, i)) - m;
  }
}

// ---- Q3_K: 32 bytes of third bits, 64 of pairs as above, sixteen 6-bit scales in 12 bytes, half
// d: d * (scale - 32) * (n - 4), 16 elements to a scale

int ThreeBits(const std::byte* b, int i) {
  return PairOf32(b + 32, i) | (ByteAt(b, i % 32) >> (i / 32) & 1) << 2;
}
float ScaleQ3K(const std::byte* b, int g) {
  const std::byte* packed = b + 96;
  const int low = g < 8 ? ByteAt(packed, g) & 15 : ByteAt(packed, g - 8) >> 4,
            high = ByteAt(packed, 8 + g % 4) >> (g / 4 * 2) & 3;
  return HalfAt(b + 108) * static_cast<float>((low | high << 4) - 32);
}
void RealQ3K(const std::byte* b, float* y) {
  for (int g = 0; g < 16; ++g) {
    const float s = ScaleQ3K(b, g);
    for (int i = 16 * g; i < 16 * g + 16; ++i) y[i] = s * static_cast<float>(ThreeBits(b, i) - 4);
  }
}
bool IntegersQ3K(const std::byte* b, IntegerBlock& out) {
  for (int g = 0; g < 16; ++g) {
    const float s = ScaleQ3K(b, g);
    const int sign = s == 0 ? 0 : s < 0 ? -1 : 1;
    out.scales[g] = s == 0 ? 1 : std::fabs(s);
    out.zeros[g] = 0;
    for (int i = 16 * g; i < 16 * g + 16; ++i)
      out.q[i] = static_cast<int16_t>(sign * (ThreeBits(b, i) - 4));
  }
  return true;
}

// ---- IQ4_NL: half d, 16 bytes of places in a table: value * d

int Iq4NlAt(const std::byte* b, int i) { return kValuesIq4[NibbleAt(b + 2, i)]; }

// ---- MXFP4: an exponent e, 16 bytes of e2m1: value * 2^(e - 127)

float ScaleMxfp4(const std::byte* b) {
  return TinyFloatToFloat(DType::kFloat8E8M0, static_cast<uint8_t>(ByteAt(b, 0)));
}
void RealMxfp4(const std::byte* b, float* y) {
  const float scale = ScaleMxfp4(b);
  for (int i = 0; i < 32; ++i)
    y[i] = TinyFloatToFloat(DType::kFloat4E2M1, static_cast<uint8_t>(NibbleAt(b + 1, i))) * scale;
}
// The bits of e2m1.
bool IntegersMxfp4(const std::byte* b, IntegerBlock& out) {
  out.scales[0] = ScaleMxfp4(b);
  out.zeros[0] = 0;
  for (int i = 0; i < 32; ++i) out.q[i] = static_cast<int16_t>(NibbleAt(b + 1, i));
  return true;
}

// ---- NVFP4: 64 numbers, 16 to a scale: four scales of float8e4m3 without a sign, then of each 16
// numbers 8 bytes of e2m1, the low nibbles first

float ScaleNvfp4(const std::byte* b, int g) {
  const auto bits = static_cast<uint8_t>(ByteAt(b, g) & 127);
  return bits == 127 ? 0 : TinyFloatToFloat(DType::kFloat8E4M3FN, bits);
}
int Nvfp4At(const std::byte* b, int i) {
  const int byte = ByteAt(b, 4 + i / 16 * 8 + i % 8);
  return i % 16 < 8 ? byte & 15 : byte >> 4;
}
void RealNvfp4(const std::byte* b, float* y) {
  for (int i = 0; i < 64; ++i)
    y[i] = TinyFloatToFloat(DType::kFloat4E2M1, static_cast<uint8_t>(Nvfp4At(b, i))) *
           ScaleNvfp4(b, i / 16);
}
// The bits of e2m1.
bool IntegersNvfp4(const std::byte* b, IntegerBlock& out) {
  for (int g = 0; g < 4; ++g) {
    const float scale = ScaleNvfp4(b, g);
    out.scales[g] = scale == 0 ? 1 : scale;
    out.zeros[g] = 0;
    for (int i = 16 * g; i < 16 * g + 16; ++i)
      out.q[i] = static_cast<int16_t>(scale == 0 ? 0 : Nvfp4At(b, i));
  }
  return true;
}

// ---- Q1_0: half d, 128 bits: d or -d

bool BitOf128(const std::byte* b, int i) { return (ByteAt(b, 2 + i / 8) >> i % 8 & 1) != 0; }
void RealQ1(const std::byte* b, float* y) {
  const float d = HalfAt(b);
  for (int i = 0; i < 128; ++i) y[i] = BitOf128(b, i) ? d : -d;
}
bool IntegersQ1(const std::byte* b, IntegerBlock& out) {
  const float d = HalfAt(b);
  out.scales[0] = d == 0 ? 1 : std::fabs(d);
  out.zeros[0] = 1;
  for (int i = 0; i < 128; ++i)
    out.q[i] = static_cast<int16_t>(d == 0 ? 1 : BitOf128(b, i) == (d > 0) ? 2 : 0);
  return true;
}

}  // namespace

extern const BlockFormat kBlocksQ4_0 = {.name = "Q4_0",
                                        .id = 2,
                                        .elements = 32,
                                        .bytes = 18,
                                        .real = RealCentered<Q4_0At, 8>,
                                        .integers = IntegersCentered<Q4_0At, 8, true>,
                                        .dtype = DType::kUint4};
extern const BlockFormat kBlocksQ4_1 = {.name = "Q4_1",
                                        .id = 3,
                                        .elements = 32,
                                        .bytes = 20,
                                        .real = RealWithMinimum<Q4_1At>,
                                        .integers = IntegersQ4_1,
                                        .dtype = DType::kUint4};
extern const BlockFormat kBlocksQ5_0 = {.name = "Q5_0",
                                        .id = 6,
                                        .elements = 32,
                                        .bytes = 22,
                                        .real = RealCentered<Q5_0At, 16>,
                                        .integers = IntegersCentered<Q5_0At, 16, false>};
extern const BlockFormat kBlocksQ5_1 = {
    .name = "Q5_1", .id = 7, .elements = 32, .bytes = 24, .real = RealWithMinimum<Q5_1At>};
extern const BlockFormat kBlocksQ8_0 = {.name = "Q8_0",
                                        .id = 8,
                                        .elements = 32,
                                        .bytes = 34,
                                        .real = RealCentered<Q8_0At, 0>,
                                        .integers = IntegersCentered<Q8_0At, 0, false>};
extern const BlockFormat kBlocksQ4K = {
    .name = "Q4_K", .id = 12, .elements = 256, .bytes = 144, .real = RealQ4K};
extern const BlockFormat kBlocksQ5K = {
    .name = "Q5_K", .id = 13, .elements = 256, .bytes = 176, .real = RealQ5K};
extern const BlockFormat kBlocksQ6K = {.name = "Q6_K",
                                       .id = 14,
                                       .elements = 256,
                                       .bytes = 210,
                                       .real = RealQ6K,
                                       .integers = IntegersQ6K,
                                       .group = 16};
extern const BlockFormat kBlocksQ2K = {
    .name = "Q2_K", .id = 10, .elements = 256, .bytes = 84, .real = RealQ2K};
extern const BlockFormat kBlocksQ3K = {.name = "Q3_K",
                                       .id = 11,
                                       .elements = 256,
                                       .bytes = 110,
                                       .real = RealQ3K,
                                       .integers = IntegersQ3K,
                                       .dtype = DType::kInt4,
                                       .group = 16};
extern const BlockFormat kBlocksIq4Nl = {.name = "IQ4_NL",
                                         .id = 20,
                                         .elements = 32,
                                         .bytes = 18,
                                         .real = RealCentered<Iq4NlAt, 0>,
                                         .integers = IntegersCentered<Iq4NlAt, 0, false>};
extern const BlockFormat kBlocksMxfp4 = {.name = "MXFP4",
                                         .id = 39,
                                         .elements = 32,
                                         .bytes = 17,
                                         .real = RealMxfp4,
                                         .integers = IntegersMxfp4,
                                         .dtype = DType::kFloat4E2M1};
extern const BlockFormat kBlocksNvfp4 = {.name = "NVFP4",
                                         .id = 40,
                                         .elements = 64,
                                         .bytes = 36,
                                         .real = RealNvfp4,
                                         .integers = IntegersNvfp4,
                                         .dtype = DType::kFloat4E2M1,
                                         .group = 16};
extern const BlockFormat kBlocksQ1 = {.name = "Q1_0",
                                      .id = 41,
                                      .elements = 128,
                                      .bytes = 18,
                                      .real = RealQ1,
                                      .integers = IntegersQ1,
                                      .dtype = DType::kUint2,
                                      .group = 128};

}  // namespace evoq
