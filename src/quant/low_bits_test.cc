#include "quant/low_bits.h"

#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cmath>
#include <map>
#include <random>
#include <tuple>

#include "base/rows.h"
#include "kernels/gemm/blocks/scale_steps.h"
#include "quant/low_bits/rounding.h"
#include "quant/params.h"
#include "quant/quant.h"
#include "reference/reference.h"

namespace evoq {
namespace {

const LowBits& Row(const char* name) {
  const LowBits* row = FindRow(AllLowBits(), name);
  EXPECT_NE(row, nullptr) << name;
  return row != nullptr ? *row : *AllLowBits()[0];
}

Tensor Normal(int64_t k, int64_t n, std::mt19937& random) {
  std::normal_distribution<float> normal(0, 0.1f);
  Tensor w = Tensor::Allocate(TensorType(DType::kFloat32, Shape{k, n}));
  for (int64_t i = 0; i < k * n; ++i) w.mutable_data<float>()[i] = normal(random);
  return w;
}

// The sum of cubes of the errors of rows [begin, end) of column n.
double Error(const Tensor& w, const Tensor& q, int64_t begin, int64_t end, int64_t n) {
  const Tensor real = ToFloat32(q).value();
  const int64_t columns = w.sizes()[1];
  double sum = 0;
  for (int64_t k = begin; k < end; ++k)
    sum += std::pow(
        std::fabs(real.data<float>()[k * columns + n] - w.data<float>()[k * columns + n]), 3);
  return sum;
}

std::vector<int64_t> IntegersOf(const Tensor& q) {
  return ToInt64s(q.WithType(TensorType(q.dtype(), q.shape()))).value();
}

// Columns of a block: 7 and -4 give 1, 4 and -16 give 2, zeros 1; of the next: 1 gives 1/7 as a
// float16 number, 0x1p-30 the least one, 7e5 more than the largest.
TEST(LowBits, Int4ScalesOfEverySize) {
  const Tensor w = Tensor::FromValues<float>(Shape{3, 3}, {7, 4, 0, -4, -16, 0, 1, 0x1p-30f, 7e5f});
  for (int threads : {1, 3}) {
    const Tensor q = Row("int4").Quantize({w}, 2, threads).value();
    const QuantParams& params = *q.type().quant;
    EXPECT_EQ(params.axis, 0);
    EXPECT_EQ(params.block, 2);
    EXPECT_EQ(params.scales,
              (std::vector<float>{1, 2, 1, HalfToFloat(FloatToHalf(1 / 7.0f)), 0x1p-24f, 1e5f}));
    EXPECT_TRUE(ValidateQuant(q.type()));
    EXPECT_EQ(IntegersOf(q), (std::vector<int64_t>{7, 2, 0, -4, -8, 0, 7, 0, 7}));
  }
  const Tensor columns = Row("int4").Quantize({w}, 0, 1).value();
  EXPECT_EQ(columns.type().quant->axis, 1);
  EXPECT_EQ(columns.type().quant->block, 0);
  EXPECT_EQ(columns.type().quant->scales, (std::vector<float>{1, 2, 1e5f}));
  EXPECT_EQ(Row("int4").Quantize({w}, 4, 1).value().type().quant->scales,
            columns.type().quant->scales);
}

// Scales are rounded as conversions to float16 round: beside each tie, at the ends and in between.
TEST(LowBits, HalfScalesAreFloat16Numbers) {
  const auto expected = [](float scale) {
    return scale > 65504.0f ? scale : std::max(HalfToFloat(FloatToHalf(scale)), 0x1p-24f);
  };
  for (uint32_t bits = 1; bits < 0x7f800000u; bits += 1021) {
    const auto scale = std::bit_cast<float>(bits);
    ASSERT_EQ(HalfScale(scale), expected(scale)) << scale;
  }
  for (uint32_t half = 0; half < 0x7bff; ++half) {
    const float low = HalfToFloat(static_cast<uint16_t>(half)),
                high = HalfToFloat(static_cast<uint16_t>(half + 1)), tie = low + (high - low) / 2;
    for (float scale : {low, std::nextafter(tie, 0.0f), tie, std::nextafter(tie, high), high}) {
      if (scale > 0) ASSERT_EQ(HalfScale(scale), expected(scale)) << scale;
    }
  }
}

// A block that the numbers hold exactly is held exactly; weights so large that cubes of errors
// are infinite take the scale that reaches both ends.
TEST(LowBits, ExactBlocksAndHugeOnes) {
  const Tensor w = Tensor::FromValues<float>(
      Shape{4, 3}, {0, 0.25f, 3e30f, 1, -0.5f, -1e30f, -0.5f, 0, 0, 0.5f, 0.25f, 2e30f});
  const Tensor two = Row("int2").Quantize({w}, 0, 1).value();
  EXPECT_EQ(Error(w, two, 0, 4, 0), 0);
  EXPECT_EQ(Error(w, two, 0, 4, 1), 0);
  EXPECT_EQ(two.type().quant->zero_points, (std::vector<int32_t>{1, 2, 1}));
  EXPECT_FLOAT_EQ(two.type().quant->scales[2], 1.5e30f);
  EXPECT_FLOAT_EQ(Row("int4").Quantize({w}, 0, 1).value().type().quant->scales[2], 3e30f / 7);
}

// Zero lies where it does between the ends: of [0, 15], [-1, 14], [-14, 1], [-15, 0]; of zeros
// alone in the middle. Nothing below zero: no number is lost to it.
TEST(LowBits, Uint4ZeroPoints) {
  const Tensor w =
      Tensor::FromValues<float>(Shape{2, 6}, {0, -1, -14, -15, 0, -0.001f, 15, 14, 1, 0, 0, 15});
  const Tensor q = Row("uint4").Quantize({w}, 0, 1).value();
  EXPECT_EQ(q.type().quant->zero_points, (std::vector<int32_t>{0, 1, 14, 15, 8, 1}));
  EXPECT_EQ(q.type().quant->scales,
            (std::vector<float>{1, 1, 1, 1, 1, HalfToFloat(FloatToHalf(15 / 14.0f))}));
  EXPECT_EQ(IntegersOf(q), (std::vector<int64_t>{0, 0, 0, 0, 8, 1, 15, 15, 15, 15, 8, 15}));
  // Weights of one sign have twice the numbers that int4 has for them.
  std::mt19937 random(5);
  Tensor one_sided = Normal(64, 40, random);
  for (int64_t i = 0; i < one_sided.elements(); ++i)
    one_sided.mutable_data<float>()[i] = std::fabs(one_sided.data<float>()[i]);
  double int4 = 0, uint4 = 0;
  for (int64_t n = 0; n < 40; ++n) {
    int4 += Error(one_sided, Row("int4").Quantize({one_sided}, 0, 1).value(), 0, 64, n);
    uint4 += Error(one_sided, Row("uint4").Quantize({one_sided}, 0, 1).value(), 0, 64, n);
  }
  EXPECT_LT(uint4, 0.2 * int4);
}

// Whatever the sizes, elements are the nearest numbers, and the same in any number of threads.
TEST(LowBits, EverySizeInAnyNumberOfThreads) {
  std::mt19937 random(1);
  for (const LowBits* row : AllLowBits()) {
    for (const auto& [k, n, block] :
         {std::array<int64_t, 3>{64, 7, 32}, {70, 65, 32}, {33, 1, 0}, {5, 130, 3}, {1, 1, 64}}) {
      SCOPED_TRACE(fmt::format("{} {} x {}, {}", row->name, k, n, block));
      const Tensor w = Normal(k, n, random);
      const Tensor q = row->Quantize({w}, block, 1).value();
      ASSERT_TRUE(ValidateQuant(q.type()));
      EXPECT_EQ(q.dtype(), row->dtype);
      EXPECT_TRUE(BitEqual(q, row->Quantize({w}, block, 3).value()));
      EXPECT_TRUE(BitEqual(q, QuantizeTensor(w, q.type()).value()));
    }
  }
}

// Against the scale that reaches both ends: better in no block less, and in most of them more.
TEST(LowBits, Int4BeatsItsRange) {
  std::mt19937 random(3);
  const Tensor w = Normal(32, 200, random);
  const Tensor q = Row("int4").Quantize({w}, 32, 1).value();
  QuantParams plain = *q.type().quant;
  for (int64_t n = 0; n < 200; ++n) {
    float low = 0, high = 0;
    for (int64_t k = 0; k < 32; ++k) {
      low = std::min(low, w.data<float>()[k * 200 + n]);
      high = std::max(high, w.data<float>()[k * 200 + n]);
    }
    plain.scales[n] = HalfToFloat(FloatToHalf(std::max(high / 7, low / -8)));
  }
  const Tensor ranges = QuantizeTensor(w, TensorType(q.dtype(), q.shape(), plain)).value();
  int better = 0;
  for (int64_t n = 0; n < 200; ++n) {
    const double error = Error(w, q, 0, 32, n), of_range = Error(w, ranges, 0, 32, n);
    EXPECT_LE(error, of_range * 1.000001) << n;
    better += error < 0.99 * of_range;
  }
  EXPECT_GT(better, 100);
}

// Beside rounded data, int4's scales are near multiples of steps, which cost little: at most half a
// step each, and of the errors of weights a few hundredths. Blocks of zeros, and scales that are 1
// beside smaller ones, spoil none of them.
TEST(LowBits, StepsAreNearTheScales) {
  std::mt19937 random(12);
  const LowBits& shared = *FindScheme("int4-dynamic")->low_bits;
  EXPECT_EQ(shared.SharedBlocks(32), 4);
  EXPECT_EQ(shared.SharedBlocks(64), 1);
  EXPECT_EQ(shared.SharedBlocks(128), 1);
  EXPECT_EQ(shared.SharedBlocks(0), 1);
  EXPECT_EQ(Row("int4").SharedBlocks(32), 1);
  {
    constexpr int64_t block = kStepBlock;
    const int64_t depth = 300, columns = 150;
    Tensor w = Normal(depth, columns, random);
    float* const v = w.mutable_data<float>();
    for (int64_t k = 0; k < depth; ++k) {
      for (int64_t n = 0; n < columns; ++n) {
        float& x = v[k * columns + n];
        if (n == 3) x *= k < block ? 0.0f : 1e-3f;
        if (n == 4) x = 0;
        if (n == 5) x *= k < block ? 1.0f : 0.01f;
        if (n == 6) x = k == 0 ? 7.0f : 0.02f * x;  // whose scale may be 1
        if (n == 7) x *= 1e-9f;                     // no float16 step
        if (n == 8) x *= 30;
      }
    }
    const Tensor q = shared.Quantize({w}, block, 1).value(),
                 each = Row("int4").Quantize({w}, block, 1).value();
    ASSERT_TRUE(ValidateQuant(q.type()));
    EXPECT_TRUE(BitEqual(q, shared.Quantize({w}, block, 3).value()));
    EXPECT_TRUE(BitEqual(q, QuantizeTensor(w, q.type()).value()));
    const std::vector<float>&scales = q.type().quant->scales, &wanted = each.type().quant->scales;
    double of_shared = 0, of_each = 0;
    for (int64_t b = 0; b * block < depth; b += kStepDepth / block) {
      for (int64_t n = 0; n < columns; ++n) {
        std::vector<float> group;
        for (int64_t i = b; i < b + kStepDepth / block && i * block < depth; ++i)
          group.push_back(scales[i * columns + n]);
        const auto steps = StepsOf(group);
        if (n == 7) continue;
        ASSERT_TRUE(steps) << n;
        for (size_t i = 0; i < group.size(); ++i) {
          const float from = wanted[(b + i) * columns + n];
          const bool zeros = n == 4 || (n == 3 && b + i == 0);
          if (zeros || from < steps->step) continue;  // at least one step
          // The largest is at least 8 steps before, which a step found may halve or quarter.
          EXPECT_LE(std::fabs(group[i] - from), *std::ranges::max_element(group) / 14) << n;
        }
      }
    }
    EXPECT_LT(Error(w, q, 0, depth, 3), 1.5 * Error(w, each, 0, depth, 3));
    for (int64_t n = 9; n < columns; ++n) {
      for (int64_t k = 0; k < depth; k += block) {
        const int64_t end = std::min(depth, k + block);
        of_shared += Error(w, q, k, end, n);
        of_each += Error(w, each, k, end, n);
      }
    }
    EXPECT_LT(of_shared, 1.08 * of_each);
    EXPECT_GT(of_shared, of_each);
    // What no step fits keeps the scales that it has.
    for (int64_t b = 0; b * block < depth; ++b)
      EXPECT_EQ(scales[b * columns + 7], wanted[b * columns + 7]);
  }
  // In blocks of 128 nothing changes, nor for the scheme without rounded data.
  const Tensor w = Normal(256, 40, random);
  EXPECT_TRUE(
      BitEqual(shared.Quantize({w}, 128, 1).value(), Row("int4").Quantize({w}, 128, 1).value()));
}

// Of the shares of its range that int4 tries, the first with the least sum of cubes, whatever the
// weights are: most shares are left alone because an end is clipped too far.
TEST(LowBits, Int4TakesTheBestOfItsShares) {
  constexpr float kShares[] = {1,     1.05f,  0.975f, 0.95f,  0.925f, 0.9f,   0.875f,
                               0.85f, 0.825f, 0.8f,   0.775f, 0.75f,  0.725f, 0.7f};
  constexpr int64_t kCount = 48;
  std::mt19937 random(11);
  std::map<size_t, int> taken;
  for (int round = 0; round < 120; ++round) {
    const int64_t depth = std::array{2, 3, 8, 32, 256, 4096}[round % 6];
    Tensor w = Normal(depth, kCount, random);
    float* const v = w.mutable_data<float>();
    for (int64_t i = 0; i < w.elements(); ++i) {
      const int64_t n = i % kCount;
      if (n % 4 == 1) v[i] = v[i] * v[i] * v[i];                               // few large ones
      if (n % 4 == 2) v[i] = std::copysign(std::sqrt(std::fabs(v[i])), v[i]);  // none
      if (n % 8 == 3) v[i] = -std::fabs(v[i]);
      if (n % 8 == 7) v[i] = std::fabs(v[i]) * (i < 16 * kCount ? 1 : 0);
    }
    const Tensor q = Row("int4").Quantize({w}, depth, 1).value();
    for (int64_t n = 0; n < kCount; ++n) {
      float low = 0, high = 0;
      for (int64_t k = 0; k < depth; ++k) {
        low = std::min(low, v[k * kCount + n]);
        high = std::max(high, v[k * kCount + n]);
      }
      size_t best = 0;
      float least = 0, scale = 0;
      for (size_t i = 0; i < std::size(kShares); ++i) {
        const float tried = HalfScale(kShares[i] * std::max(high / 7, low / -8));
        float sum = 0;
        for (int64_t k = 0; k < depth; ++k) {
          const float x = v[k * kCount + n], inverse = 1 / tried,
                      off = x - std::nearbyintf(std::clamp(x * inverse, -8.0f, 7.0f)) * tried;
          sum += std::fabs(off) * off * off;
        }
        if (i == 0 || sum < least) best = i, least = sum, scale = tried;
      }
      ++taken[best];
      ASSERT_EQ(q.type().quant->scales[n], scale) << round << " " << n;
    }
  }
  EXPECT_EQ(taken.size(), std::size(kShares));  // of all of them
}

// Every number of float8 and its neighbours are held as the type's definition rounds them.
TEST(LowBits, Fp8NumbersAreTheTypes) {
  for (const auto& [name, dtype, most] : {std::tuple{"fp8", DType::kFloat8E4M3FN, 448.0f},
                                          std::tuple{"fp8-e5m2", DType::kFloat8E5M2, 57344.0f}}) {
    std::vector<float> values = {most};
    for (int i = 0; i < 256; ++i) {
      const float v = TinyFloatToFloat(dtype, static_cast<uint8_t>(i));
      if (!std::isfinite(v)) continue;
      for (const float near : {0.0f, 0.24f, 0.26f, 0.5f})
        values.push_back(std::clamp(v * (1 + near / 4), -most, most));
    }
    const auto count = static_cast<int64_t>(values.size());
    const Tensor w = Tensor::FromValues<float>(Shape{count, 1}, values);
    const Tensor q = Row(name).Quantize({w}, 0, 1).value();
    ASSERT_EQ(q.dtype(), dtype);
    const float scale = q.type().quant->scales[0];
    ASSERT_TRUE(scale == 1 || scale == 2) << name << " " << scale;
    for (int64_t i = 0; i < count; ++i)
      ASSERT_EQ(static_cast<uint8_t>(q.raw()[i]), FloatToTinyFloat(dtype, values[i] / scale))
          << name << " " << values[i];
  }
}

// Scales have four significant bits: of a few, those that put 6, 4 or what lies beside at the
// largest magnitude. 12 reaches 6 by 2; 5.9 rounds up to 1; 8, 2 and 2 are exact with 2 and the 4.
TEST(LowBits, Nvfp4ScalesAreShort) {
  const Tensor w = Tensor::FromValues<float>(Shape{3, 3}, {12, 5.9f, 8, -6, 0, 2, 1, 0x1p-40f, 2});
  const Tensor q = Row("nvfp4").Quantize({w}, 16, 1).value();
  EXPECT_EQ(q.type().quant->scales, (std::vector<float>{2, 1, 2}));
  std::mt19937 random(9);
  std::uniform_real_distribution<float> exponent(-60, 60);
  Tensor wide = Normal(64, 130, random);
  for (int64_t i = 0; i < wide.elements(); ++i)
    wide.mutable_data<float>()[i] *= std::exp2(exponent(random) / 4);
  const Tensor many = Row("nvfp4").Quantize({wide}, 16, 1).value();
  for (const float scale : many.type().quant->scales) {
    EXPECT_EQ(std::bit_cast<uint32_t>(scale) & 0xfffff, 0u) << scale;
    EXPECT_EQ(HalfToFloat(FloatToHalf(scale)), scale);
  }
  const LowBitsLoops& loops = Row("nvfp4").loops(Isa::kScalar);
  EXPECT_EQ(loops.scale(1.0f), 1.0f);
  EXPECT_EQ(loops.scale(1.06f), 1.0f);
  EXPECT_EQ(loops.scale(1.07f), 1.125f);
  EXPECT_EQ(loops.scale(1e-30f), 0x1p-24f);
}

// Of normally distributed weights in blocks of 32: the squared error as a share of their squares.
TEST(LowBits, ErrorsOfNormalWeights) {
  std::mt19937 random(2);
  const Tensor w = Normal(4096, 64, random);
  struct Bound {
    const char* name;
    double least, most;
  };
  const Bound bounds[] = {{"int4", 0.0072, 0.0079},  {"uint4", 0.0050, 0.0079},
                          {"int2", 0.10, 0.118},     {"mxfp4", 0.0115, 0.0132},
                          {"nvfp4", 0.0070, 0.0095}, {"nf4", 0.0064, 0.0072},
                          {"fp8", 0.0004, 0.0008},   {"fp8-e5m2", 0.0018, 0.0030}};
  EXPECT_EQ(std::size(bounds), AllLowBits().size());
  for (const Bound& bound : bounds) {
    const Tensor real = ToFloat32(Row(bound.name).Quantize({w}, 32, 2).value()).value();
    double error = 0, squares = 0;
    for (int64_t i = 0; i < w.elements(); ++i) {
      error += std::pow(real.data<float>()[i] - w.data<float>()[i], 2);
      squares += std::pow(w.data<float>()[i], 2);
    }
    EXPECT_LT(error / squares, bound.most) << bound.name;
    EXPECT_GT(error / squares, bound.least) << bound.name;
    RecordProperty(bound.name, fmt::format("{:.5f}", error / squares));
  }
}

// Each element of the matrix as a file holds it: float32, float16 or bfloat16, as it is or
// transposed.
Tensor StoredAs(const Tensor& w, DType dtype, bool transposed) {
  const std::vector<int64_t> sizes = w.sizes();
  const Shape shape = transposed ? Shape{sizes[1], sizes[0]} : w.shape();
  Tensor out = Tensor::Allocate(TensorType(dtype, shape));
  for (int64_t i = 0; i < w.elements(); ++i) {
    const int64_t k = i / sizes[1], n = i % sizes[1], at = transposed ? n * sizes[0] + k : i;
    const float value = w.data<float>()[i];
    if (dtype == DType::kFloat32) {
      out.mutable_data<float>()[at] = value;
    } else {
      out.mutable_data<uint16_t>()[at] =
          dtype == DType::kFloat16 ? FloatToHalf(value)
                                   : static_cast<uint16_t>(std::bit_cast<uint32_t>(value) >> 16);
    }
  }
  return out;
}

// The plain float32 matrix of the same values.
Tensor Plain(const Tensor& stored, bool transposed) {
  const Tensor real = ToFloat32(stored).value();
  if (!transposed) return real;
  const std::vector<int64_t> sizes = real.sizes();
  Tensor w = Tensor::Allocate(TensorType(DType::kFloat32, Shape{sizes[1], sizes[0]}));
  for (int64_t i = 0; i < w.elements(); ++i)
    w.mutable_data<float>()[i] = real.data<float>()[i % sizes[0] * sizes[1] + i / sizes[0]];
  return w;
}

constexpr DType kStoredTypes[] = {DType::kFloat32, DType::kFloat16, DType::kBfloat16};

// What a file holds is rounded as the float32 matrix of its values is, in any number of threads.
TEST(LowBits, AsStoredInFiles) {
  std::mt19937 random(5);
  for (const auto& [k, n, block] :
       {std::array<int64_t, 3>{64, 7, 32}, {70, 130, 32}, {33, 1, 0}, {600, 72, 64}, {9, 8, 3}}) {
    const Tensor w = Normal(k, n, random);
    for (DType dtype : kStoredTypes) {
      for (bool transposed : {false, true}) {
        SCOPED_TRACE(fmt::format("{} x {}, {}, {} {}", k, n, block, DTypeName(dtype), transposed));
        const Tensor stored = StoredAs(w, dtype, transposed), plain = Plain(stored, transposed);
        for (const LowBits* row : AllLowBits()) {
          const Tensor expected = row->Quantize({plain}, block, 1).value();
          for (int threads : {1, 3})
            EXPECT_TRUE(
                BitEqual(row->Quantize({stored, transposed}, block, threads).value(), expected))
                << row->name;
        }
        const int axis = transposed ? 1 : 0;
        for (int of : {axis, -1}) {
          const Tensor expected = QuantizeWeight(plain, of);
          for (int threads : {1, 3})
            EXPECT_TRUE(
                BitEqual(QuantizeStored({stored, transposed}, of, threads).value(), expected));
        }
      }
    }
  }
}

// Numbers of every exponent, subnormal ones and negative zero too.
TEST(LowBits, EveryHalfIsRead) {
  Tensor halves = Tensor::Allocate(TensorType(DType::kFloat16, Shape{248, 256}));
  uint16_t bits = 0;
  for (int64_t i = 0; i < halves.elements(); ++i, ++bits) {
    if ((bits & 0x7c00) == 0x7c00) bits = 0x8000;
    halves.mutable_data<uint16_t>()[i] = bits;
  }
  const Tensor real = ToFloat32(halves).value();
  for (const auto& row : StoredLoopsRows) {
    if (!IsaSupported(row.needs)) continue;
    Tensor read = Tensor::Allocate(real.type());
    EXPECT_TRUE(
        StoredMatrix{halves}.Read(*row.table, 0, 248, 0, 256, read.mutable_data<float>(), 256));
    EXPECT_TRUE(BitEqual(read, real)) << IsaName(row.needs);
  }
}

TEST(LowBits, StoredNumbersThatAreNone) {
  for (DType dtype : {DType::kFloat16, DType::kBfloat16}) {
    for (float bad : {INFINITY, -INFINITY, NAN}) {
      for (int64_t at : {0, 35, 69 * 9 + 8}) {
        Tensor w = Tensor::Allocate(TensorType(DType::kFloat32, Shape{70, 9}));
        w.mutable_data<float>()[at] = bad;
        for (bool transposed : {false, true}) {
          const StoredMatrix stored{StoredAs(w, dtype, transposed), transposed};
          for (const Result<Tensor>& q : {Row("int4").Quantize(stored, 32, 2),
                                          QuantizeStored(stored, transposed ? 1 : 0, 2)}) {
            ASSERT_FALSE(q) << bad << " " << at << " " << transposed;
            EXPECT_EQ(q.error().message(),
                      "a constant of float32[70, 9] holds a NaN or an infinity");
          }
        }
      }
    }
  }
}

// All that a family of loops computes is the same bits on every instruction set.
template <size_t kCount>
void ExpectSameLoops(const IsaRow<LowBitsLoops> (&rows)[kCount], const Tensor& w) {
  const LowBitsLoops& plain = *rows[kCount - 1].table;
  const int64_t depth = w.sizes()[0], count = w.sizes()[1];
  const float* values = w.data<float>();
  const std::vector<float> importance(static_cast<size_t>(depth), 0.3f);
  struct Results {
    std::vector<float> scale, zero, number;
    std::vector<std::byte> stored;
    bool operator==(const Results&) const = default;
  };
  const auto of = [&](const LowBitsLoops& loops, const float* by) {
    Results r{std::vector<float>(count), std::vector<float>(count), std::vector<float>(count),
              std::vector<std::byte>(depth * count)};
    loops.choose(values, count, depth, count, by, r.scale.data(), r.zero.data());
    loops.nearest(values, r.scale.data(), r.zero.data(), count, r.number.data());
    loops.store(values, count, depth, count, r.scale.data(), r.zero.data(), 1, count,
                r.stored.data());
    return r;
  };
  for (const auto& row : rows) {
    if (!IsaSupported(row.needs)) continue;
    for (const float* by : {static_cast<const float*>(nullptr), importance.data()})
      EXPECT_TRUE(of(*row.table, by) == of(plain, by)) << IsaName(row.needs);
  }
}

TEST(LowBits, SameBitsOnEveryInstructionSet) {
  std::mt19937 random(7);
  for (int64_t count : {1, 15, 16, 17, 63, 64}) {
    const Tensor w = Normal(33, count, random);
    ExpectSameLoops(Int4LoopsRows, w);
    ExpectSameLoops(Int2LoopsRows, w);
    ExpectSameLoops(Mxfp4LoopsRows, w);
    ExpectSameLoops(Nf4LoopsRows, w);
  }
}

TEST(LowBits, NothingToQuantize) {
  for (const LowBits* row : AllLowBits()) {
    for (const Shape& shape : {Shape{0, 3}, Shape{3, 0}, Shape{0, 0}}) {
      const Tensor q =
          row->Quantize({Tensor::Allocate(TensorType(DType::kFloat32, shape))}, 0, 2).value();
      EXPECT_EQ(q.elements(), 0);
    }
  }
}

// Weights that a file has in blocks of more bits than the scheme's are rounded again, once for all
// who read them; those of as few stay.
TEST(LowBits, WeightsOfMoreBitsAreRoundedAgain) {
  std::mt19937 random(4);
  const auto blocks = [&](DType dtype, int64_t k, int64_t n) {
    Tensor q = Tensor::Allocate(TensorType(dtype, Shape{k, n}));
    for (int64_t i = 0; i < k * n; ++i)
      SetPackedBits(q.mutable_raw(), i, DTypeBits(dtype), static_cast<int>(random()));
    QuantParams quant;
    quant.axis = 0;
    quant.block = 32;
    quant.scales.assign(static_cast<size_t>(k / 32 * n), 0.25f);
    quant.zero_points.assign(quant.scales.size(), 0);
    return q.WithType(TensorType(dtype, Shape{k, n}, quant));
  };
  const Tensor eight = blocks(DType::kInt8, 64, 64), four = blocks(DType::kUint4, 64, 8);
  const auto run = [&](const char* scheme) {
    Graph graph;
    const ValueId x = graph.AddInput("x", TensorType(DType::kFloat32, Shape{2, 64})),
                  w = graph.AddConstant("w", eight);
    const ValueId a = graph.Apply("MatMul", "a", {x, w}), b = graph.Apply("MatMul", "b", {a, w});
    graph.MarkOutput(graph.Apply("MatMul", "c", {b, graph.AddConstant("v", four)}));
    EXPECT_TRUE(InferTypes(graph));
    auto report = FindScheme(scheme)->run(graph, {}, {});
    EXPECT_TRUE(report) << report.error().message();
    std::vector<Tensor> weights;
    for (NodeId id : graph.order())
      weights.push_back(graph.value(graph.node(id).input(1)).constant);
    EXPECT_EQ(graph.node(graph.order()[0]).input(1).index,
              graph.node(graph.order()[1]).input(1).index);
    return std::pair(std::move(weights), report->warnings);
  };
  const auto [weights, warnings] = run("int4-weights");
  ASSERT_EQ(weights.size(), 3u);
  const Tensor again = Row("int4").Quantize({ToFloat32(eight).value()}, 32, 1).value();
  EXPECT_TRUE(BitEqual(weights[0], again));
  EXPECT_TRUE(BitEqual(weights[2], four));
  EXPECT_EQ(warnings,
            (std::vector<std::string>{
                "weights that had few bits already were rounded again, to int4 (1 of int8)"}));
  EXPECT_EQ(run("int2-dynamic").first[2].dtype(), DType::kUint2);
  EXPECT_TRUE(BitEqual(run("int8-weights").first[0], eight));
  EXPECT_TRUE(run("int8-weights").second.empty());
}

}  // namespace
}  // namespace evoq
