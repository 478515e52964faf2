// Streams: a packed constant that holds its scales gives back the plain tensor, bit for bit.
#include "kernels/gemm/blocks/stream.h"

#include <bit>

#include "base/work_threads.h"
#include "kernels/gemm/blocks/scale_steps_testing.h"
#include "kernels/gemm/linear_f32_testing.h"
#include "kernels/gemm/weights/format_testing.h"

namespace evoq {
namespace {

// The kinds of weights that have a stream.
std::vector<WeightKind> Kinds() {
  std::vector<WeightKind> kinds;
  for (const WeightKind& kind : AllWeightKinds()) {
    if (FindStored(kind.dtype) != nullptr && kind.block % FindStored(kind.dtype)->block() == 0)
      kinds.push_back(kind);
    if (FindStored(kind.dtype) != nullptr && kind.scales != WeightKind::kBlocks)
      kinds.push_back(kind);
  }
  EXPECT_GT(kinds.size(), 30u);
  return kinds;
}

TensorType WithHalfScales(const TensorType& type) {
  QuantParams quant = *type.quant;
  for (float& scale : quant.scales) scale = HalfToFloat(FloatToHalf(scale));
  return TensorType(type.dtype, type.shape, std::move(quant));
}

Tensor Weights(const WeightKind& kind, int64_t k, int64_t n, bool halves, std::mt19937& random) {
  const TensorType type = kind.Type(k, n, random);
  return WeightsOf(halves ? WithHalfScales(type) : type, Elements::kRandom, random);
}

TEST(Stream, GivesBackWhatWasPacked) {
  std::mt19937 random(1);
  for (const WeightKind& kind : Kinds()) {
    for (const auto& [k, n] : {std::pair<int64_t, int64_t>{1, 1}, {77, 33}, {64, 32}, {96, 50}}) {
      for (bool halves : {false, true}) {
        SCOPED_TRACE(fmt::format("{} {}x{} {}", kind.Name(), k, n, halves));
        const Tensor plain = Weights(kind, k, n, halves, random);
        const auto packed = PackStream(plain);
        ASSERT_TRUE(packed) << packed.error().message();
        const LayoutDef* layout = FindLayout(packed->layout());
        ASSERT_NE(layout, nullptr);
        const auto bytes = layout->bytes(packed->type());
        ASSERT_TRUE(bytes) << bytes.error().message();
        EXPECT_EQ(static_cast<int64_t>(packed->bytes()), *bytes);
        EXPECT_TRUE(layout->check(*packed));
        EXPECT_TRUE(ValidateQuant(packed->type()));
        EXPECT_EQ(packed->type().ToString(), plain.type().ToString());
        if (kind.scales != WeightKind::kTensor) {
          ASSERT_TRUE(packed->type().quant->inside);
          EXPECT_EQ(packed->type().quant->inside->half_scales, halves);
          EXPECT_TRUE(packed->type().quant->scales.empty());
        }
        const auto back = ToPlain(*packed);
        ASSERT_TRUE(back) << back.error().message();
        EXPECT_TRUE(BitEqual(*back, plain));
      }
    }
  }
}

// Scales that are multiples of steps lie so where all are.
TEST(Stream, StepsAndMultiples) {
  std::mt19937 random(6);
  for (const auto& [k, n] : {std::pair<int64_t, int64_t>{33, 1}, {77, 33}, {256, 32}, {300, 50}}) {
    SCOPED_TRACE(fmt::format("{}x{}", k, n));
    const Tensor plain = WeightsOf(TypeWithSteps(k, n, random), Elements::kRandom, random);
    const Tensor packed = PackStream(plain).value();
    EXPECT_EQ(packed.layout(), kStreamW4Steps);
    EXPECT_EQ(
        static_cast<int64_t>(packed.bytes()),
        CeilDiv(n, int64_t{32}) * (CeilDiv(k, kStepDepth) * 128 + CeilDiv(k, int64_t{8}) * 128));
    const LayoutDef* layout = FindLayout(packed.layout());
    EXPECT_EQ(layout->bytes(packed.type()), static_cast<int64_t>(packed.bytes()));
    EXPECT_TRUE(layout->check(packed));
    EXPECT_EQ(layout->scale_bytes(packed.type(), packed.layout()).scales,
              CeilDiv(k, kStepDepth) * n * 4);
    EXPECT_TRUE(BitEqual(ToPlain(packed).value(), plain));
    EXPECT_TRUE(BitEqual(layout->pack(plain).value(), packed));
    // The other layout holds them as they are.
    const Tensor each = FindLayout(kStreamW4)->pack(plain).value();
    EXPECT_EQ(each.layout(), kStreamW4);
    EXPECT_TRUE(BitEqual(ToPlain(each).value(), plain));
    // One scale of another kind, the last, and none lie so.
    QuantParams quant = *plain.type().quant;
    quant.scales.back() = std::nextafter(quant.scales.back(), 1.0f);
    const Tensor other = plain.WithType(TensorType(DType::kInt4, Shape{k, n}, quant));
    EXPECT_EQ(PackStream(other).value().layout(), kStreamW4);
    EXPECT_FALSE(layout->pack(other));
    quant = *plain.type().quant;
    quant.zero_points.assign(quant.zero_points.size(), 1);
    EXPECT_EQ(
        PackStream(plain.WithType(TensorType(DType::kInt4, Shape{k, n}, quant))).value().layout(),
        kStreamW4);
  }
  // Many, which threads look at.
  Tensor plain = WeightsOf(TypeWithSteps(1056, 2100, random), Elements::kRandom, random);
  const Tensor alone = PackStream(plain).value();
  const WorkThreads scope(3);
  EXPECT_TRUE(BitEqual(PackStream(plain).value(), alone));
  EXPECT_EQ(alone.layout(), kStreamW4Steps);
  QuantParams quant = *plain.type().quant;
  quant.scales[quant.scales.size() / 2] = 0.3f;
  plain = plain.WithType(TensorType(DType::kInt4, plain.shape(), quant));
  EXPECT_EQ(PackStream(plain).value().layout(), kStreamW4);
}

TEST(Stream, TheSameInAnyNumberOfThreads) {
  std::mt19937 random(4);
  const WeightFormat* int4 = AllWeightFormats()[1].back().table;
  for (const DType dtype : {DType::kInt4, DType::kUint4}) {
    const WeightKind kind = {int4, dtype, WeightKind::kBlocks, 32, false};
    const Tensor plain = Weights(kind, 1056, 2100, true, random), alone = PackStream(plain).value();
    ASSERT_GT(alone.bytes(), size_t{1} << 20);  // what threads share
    for (int threads : {2, 3}) {
      const WorkThreads scope(threads);
      EXPECT_EQ(WorkThreads::Get(), threads);
      EXPECT_TRUE(BitEqual(PackStream(plain).value(), alone));
    }
    EXPECT_EQ(WorkThreads::Get(), 1);
    EXPECT_TRUE(BitEqual(ToPlain(alone).value(), plain));
  }
}

// Scales inside are float16 where, and only where, all of them are such numbers.
TEST(Stream, HalfScalesAreThoseThatAre) {
  std::mt19937 random(5);
  const WeightFormat* int4 = AllWeightFormats()[1].back().table;
  const WeightKind kind = {int4, DType::kInt4, WeightKind::kBlocks, 32, false};
  const Tensor weights = Weights(kind, 32, 1, true, random);
  const auto halves = [&](float scale) {
    QuantParams quant = *weights.type().quant;
    quant.scales = {scale};
    return StreamShapeOf(TensorType(DType::kInt4, Shape{32, 1}, quant)).value().half_scales;
  };
  for (uint32_t bits = 0x2d000000; bits < 0x48000000; bits += 509) {  // 2^-37 to 2^17
    for (const uint32_t near : {bits, bits & ~0x1fffu, bits & ~0xfffu}) {
      const auto scale = std::bit_cast<float>(near);
      ASSERT_EQ(halves(scale), HalfToFloat(FloatToHalf(scale)) == scale) << scale;
    }
  }
}

// Column after column it gives the numbers of ToFloat32.
TEST(Stream, ColumnsAreTheirNumbers) {
  std::mt19937 random(2);
  for (const WeightKind& kind : Kinds()) {
    const int64_t k = 77, n = 45;
    Tensor plain = Weights(kind, k, n, random() % 2 == 0, random);
    if (kind.dtype == DType::kInt4 && !kind.zeros && kind.block == 32)
      plain = WeightsOf(TypeWithSteps(k, n, random), Elements::kRandom, random);
    const Tensor real = ToFloat32(plain).value(), packed = PackStream(plain).value();
    const StreamShape shape = StreamShapeOf(packed.type(), packed.layout()).value();
    const auto numbers = StreamNumbers(*shape.stored);
    for (int64_t column = 0; column < n; ++column) {
      std::vector<float> y(k + 1, -1);
      ReadStreamColumn(shape, reinterpret_cast<const uint8_t*>(packed.raw()), numbers, column,
                       y.data());
      EXPECT_EQ(y[k], -1);
      for (int64_t i = 0; i < k; ++i)
        ASSERT_EQ(y[i], real.data<float>()[i * n + column]) << kind.Name() << " " << i;
    }
  }
}

// What stands inside and is no scale or zero point.
TEST(Stream, BadBytes) {
  std::mt19937 random(3);
  const WeightFormat* int4 = AllWeightFormats()[1].back().table;
  for (bool halves : {true, false}) {
    const WeightKind kind = {int4, DType::kUint4, WeightKind::kBlocks, 32, true};
    const Tensor packed = PackStream(Weights(kind, 64, 40, halves, random)).value();
    const LayoutDef& layout = *FindLayout(packed.layout());
    const auto with = [&](size_t at, std::vector<uint8_t> bytes) {
      std::vector<std::byte> all(packed.raw(), packed.raw() + packed.bytes());
      std::memcpy(all.data() + at, bytes.data(), bytes.size());
      const Status status =
          layout.check(Tensor::Packed(packed.type(), packed.layout(), std::move(all)));
      return status ? std::string() : status.error().message();
    };
    const char* scale = "a scale inside that is no finite number > 0";
    if (halves) {
      EXPECT_EQ(with(2, {0, 0}), scale);            // 0
      EXPECT_EQ(with(2, {0, 0x80 | 0x3c}), scale);  // -1
      EXPECT_EQ(with(62, {0, 0x7c}), scale);        // infinity
    } else {
      EXPECT_EQ(with(4, {0, 0, 0, 0}), scale);
      EXPECT_EQ(with(4, {0, 0, 0xc0, 0x7f}), scale);  // NaN
    }
    EXPECT_EQ(with(halves ? 64 : 128, {16}), "a zero point inside that uint4 has not");
    EXPECT_EQ(with(halves ? 64 : 128, {15}), "");
    // Columns that fill the last unit up have no scales.
    const size_t unit = packed.bytes() / 2;
    EXPECT_EQ(with(unit + (halves ? 2 : 4) * 8, {0, 0, 0, 0}), "");
    EXPECT_NE(with(unit + (halves ? 2 : 4) * 7, {0, 0, 0, 0}), "");
  }
}

TEST(Stream, BadSteps) {
  std::mt19937 random(7);
  const Tensor packed =
      PackStream(WeightsOf(TypeWithSteps(150, 40, random), Elements::kRandom, random)).value();
  const auto with = [&](size_t at, uint16_t half) {
    std::vector<std::byte> all(packed.raw(), packed.raw() + packed.bytes());
    std::memcpy(all.data() + at, &half, 2);
    const Status status =
        FindLayout(packed.layout())
            ->check(Tensor::Packed(packed.type(), packed.layout(), std::move(all)));
    return status ? std::string() : status.error().message();
  };
  const std::string scale = "a scale inside that is no finite number > 0",
                    step = "a step inside that is not 4, 5, 6 or 7 times a power of two";
  EXPECT_EQ(with(2, FloatToHalf(0.625f)), "");
  EXPECT_EQ(with(2, FloatToHalf(0.5625f)), step);
  EXPECT_EQ(with(2, 0), scale);
  EXPECT_EQ(with(2, 0x8000 | FloatToHalf(0.5f)), scale);
  EXPECT_EQ(with(2, 0x7c00), scale);
  EXPECT_EQ(with(64 + 2, 0x1234), "");
  EXPECT_EQ(with(64 + 2, 0x1034), scale);  // no multiple for the third block
  // K = 150 ends within the first block of the second head.
  const size_t head = 128 + 128 * 16;
  EXPECT_EQ(with(head + 64, 0x0001), "");
  EXPECT_EQ(with(head + 64, 0x1110), scale);
}

// Types that have no stream, and sizes that no memory holds.
TEST(Stream, RefusesTypes) {
  const auto bytes = [](const char* layout, const TensorType& type) {
    const auto result = FindLayout(layout)->bytes(type);
    return result ? std::to_string(*result) : result.error().message();
  };
  const auto type = [](DType dtype, Shape shape, int axis, int64_t block) {
    QuantParams quant;
    quant.axis = axis;
    quant.block = block;
    quant.inside = QuantParams::Inside{true, false, 0};
    return TensorType(dtype, std::move(shape), std::move(quant));
  };
  EXPECT_EQ(bytes(kStreamW4, type(DType::kInt4, Shape{64, 32}, 0, 32)), "1152");
  EXPECT_EQ(bytes(kStreamW4, type(DType::kInt4, Shape{64, 33}, 0, 32)), "2304");
  EXPECT_EQ(bytes(kStreamW2, type(DType::kUint2, Shape{64, 32}, 1, 0)), "576");
  EXPECT_EQ(bytes(kStreamW8, type(DType::kInt8, Shape{64, 32}, 0, 32)), "2176");
  EXPECT_EQ(bytes(kStreamW2, type(DType::kInt4, Shape{64, 32}, 0, 32)),
            "layout stream-matmul-w2 of int4[64, 32](64 scales on axis 0, block 32): expected 2 "
            "bits");
  EXPECT_NE(bytes(kStreamW4, type(DType::kInt4, Shape{64, 32}, 0, 12)).find("multiple of 8"),
            std::string::npos);
  EXPECT_NE(bytes(kStreamW4, type(DType::kInt4, Shape{64, 32}, 1, 32)).find("along axis 0"),
            std::string::npos);
  EXPECT_NE(bytes(kStreamW4, type(DType::kInt4, Shape{64, 2, 2}, 0, 32)).find("matrix"),
            std::string::npos);
  EXPECT_NE(bytes(kStreamW4, TensorType(DType::kInt4, Shape{64, 32})).find("quantized matrix"),
            std::string::npos);
  EXPECT_NE(bytes(kStreamW4, TensorType(DType::kFloat32, Shape{64, 32})).find("quantized matrix"),
            std::string::npos);
  EXPECT_EQ(bytes(kStreamW4Steps, type(DType::kInt4, Shape{64, 32}, 0, 32)), "1152");
  EXPECT_EQ(bytes(kStreamW4Steps, type(DType::kInt4, Shape{129, 33}, 0, 32)), "4864");
  for (const TensorType& wrong :
       {type(DType::kInt4, Shape{128, 32}, 0, 64), type(DType::kInt4, Shape{64, 32}, 1, 0),
        type(DType::kInt4, Shape{32, 32}, 0, 32)})
    EXPECT_NE(bytes(kStreamW4Steps, wrong).find("expected several blocks of 32"),
              std::string::npos);
  EXPECT_NE(bytes(kStreamW4Steps, type(DType::kUint4, Shape{64, 32}, 0, 32)), "1152");
  const int64_t large = int64_t{1} << 61;
  EXPECT_FALSE(FindLayout(kStreamW4)->bytes(type(DType::kInt4, Shape{32, large}, 0, 32)));
  EXPECT_FALSE(FindLayout(kStreamW4)->bytes(type(DType::kInt4, Shape{large, 32}, 0, 32)));
  // Scales that are listed beside a stream.
  QuantParams listed;
  listed.axis = 1;
  listed.scales.assign(32, 1.0f), listed.zero_points.assign(32, 0);
  EXPECT_NE(bytes(kStreamW4, TensorType(DType::kInt4, Shape{64, 32}, listed)).find("inside"),
            std::string::npos);
}

}  // namespace
}  // namespace evoq
