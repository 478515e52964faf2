#include "kernels/quantize/quantize.h"

#include <cmath>
#include <limits>
#include <random>

#include "kernels/requant.h"
#include "kernels/test_util.h"

namespace evoq {
extern const KernelDef kQuantizeKernel, kQuantizeRuntime, kDequantizeKernel, kDequantizeRuntime,
    kDynamicQuantizeKernel, kDynamicQuantizeBytesKernel, kQuantizeBytesKernel, kCastKernel;
namespace {

QuantParams Scales(int count, int axis, DType dtype) {
  QuantParams q;
  q.axis = count == 1 ? -1 : axis;
  for (int i = 0; i < count; ++i) {
    q.scales.push_back(0.01f + 0.007f * static_cast<float>(i % 5));
    const int32_t middle = dtype == DType::kUint8 ? 127 : dtype == DType::kUint16 ? 32767 : 0;
    q.zero_points.push_back(dtype == DType::kInt32 ? 0 : middle - 7 + i % 3);
  }
  return q;
}

// (count of scales, axis, shape)
struct Case {
  int count, axis;
  Shape shape;
};
const Case kCases[] = {{1, -1, {}},        {1, -1, {0}},        {1, -1, {1}},  {1, -1, {3, 7, 11}},
                       {5, 1, {3, 5, 13}}, {19, 2, {3, 2, 19}}, {40, 0, {40}}, {1, -1, {40000}}};

constexpr DType kStored[] = {DType::kUint8, DType::kInt8, DType::kUint16, DType::kInt16};

// Some of it beyond what the integers reach by Scales.
Tensor Data(DType dtype, const Shape& shape) {
  const Tensor x = RandomTensor(TensorType(DType::kFloat32, shape), 1);
  Tensor y = x.Clone();
  if (DTypeBits(dtype) == 16)
    for (int64_t i = 0; i < y.elements(); ++i) y.mutable_data<float>()[i] *= 300;
  return y;
}

Tensor WithSpecials(Tensor x) {
  const float specials[] = {std::nanf(""), INFINITY, -INFINITY, 0.005f, 0.015f, -0.0f};
  Tensor y = x.Clone();
  for (int64_t i = 0; i < std::min<int64_t>(6, y.elements() - 1); ++i)
    y.mutable_data<float>()[i] = specials[i];
  return y;
}

TEST(Quantize, EqualsTheTensorFunctions) {
  for (const Case& s : kCases) {
    for (DType dtype : kStored) {
      TestCall t;
      t.op = "QuantizeLinear";
      t.inputs = {WithSpecials(Data(dtype, s.shape))};
      t.outputs = {TensorType(dtype, s.shape, Scales(s.count, s.axis, dtype))};
      ExpectKernel(kQuantizeKernel, t, {QuantizeTensor(t.inputs[0], t.outputs[0]).value()},
                   s.shape.ToString());
    }
    for (DType dtype :
         {DType::kUint8, DType::kInt8, DType::kUint16, DType::kInt16, DType::kInt32}) {
      TestCall t;
      t.op = "DequantizeLinear";
      t.inputs = {RandomTensor(TensorType(dtype, s.shape, Scales(s.count, s.axis, dtype)), 2)};
      t.outputs = {TensorType(DType::kFloat32, s.shape)};
      const Tensor want = ToFloat32(t.inputs[0]).value();
      ExpectKernel(kDequantizeKernel, t, {want}, s.shape.ToString());
      // Requantize.
      t.op = "QuantizeLinear";
      for (const DType to : {DType::kInt8, DType::kUint16}) {
        t.outputs = {TensorType(to, s.shape, QuantParams::PerTensor(0.013f, 4))};
        ExpectKernel(kQuantizeKernel, t, {QuantizeTensor(want, t.outputs[0]).value()},
                     s.shape.ToString());
      }
    }
  }
}

// Beside every tie, the multiplication rounds as the division does.
TEST(Quantize, DivisorsRoundAsDivisionDoes) {
  std::mt19937 random(3);
  int exact = 0;
  for (int round = 0; round < 500; ++round) {
    const float scale = round < 20
                            ? std::ldexp(1.0f, round - 10)
                            : std::exp(std::uniform_real_distribution<float>(-12, 12)(random));
    const Divisor by = Divisor::Of(scale);
    exact += by.exact;
    for (int k = 0; by.exact && k < 256; ++k) {
      float x = scale * (static_cast<float>(k) + 0.5f);
      for (int i = 0; i < 4; ++i) x = std::nextafter(x, 0.0f);
      for (int i = 0; i < 9; ++i, x = std::nextafter(x, 1e30f)) {
        ASSERT_EQ(std::nearbyint(std::fma(x, by.high, x * by.low)), std::nearbyint(x / scale))
            << scale << " " << x;
      }
    }
  }
  EXPECT_GT(exact, 480);
}

// Long rows of values on ties and beside them, infinities and NaNs, for scales that kernels
// multiply by.
TEST(Quantize, TiesAndInfinities) {
  for (float scale : {0.05f, 0.25f, 0.0371f, 3.3f}) {
    for (DType dtype : {DType::kUint8, DType::kInt8}) {
      TestCall t;
      t.op = "QuantizeLinear";
      Tensor x = Tensor::Allocate(TensorType(DType::kFloat32, Shape{3000}));
      for (int i = 0; i < 3000; ++i) {
        float v = scale * (static_cast<float>(i % 600 - 300) + 0.5f);
        for (int k = 0; k < i / 600; ++k) v = std::nextafter(v, 1e30f);
        x.mutable_data<float>()[i] = v;
      }
      const float inf = std::numeric_limits<float>::infinity();
      const float special[] = {inf, -inf, std::nanf(""), 3e38f, -3e38f, 1e-44f, -0.0f};
      for (size_t i = 0; i < std::size(special); ++i)
        x.mutable_data<float>()[100 + 150 * i] = special[i];
      t.inputs = {x};
      t.outputs = {TensorType(dtype, x.shape(),
                              QuantParams::PerTensor(scale, dtype == DType::kInt8 ? -7 : 131))};
      ExpectKernel(kQuantizeKernel, t, {QuantizeTensor(x, t.outputs[0]).value()},
                   fmt::format("{}", scale));
    }
  }
}

// Scales that kernels divide by, or multiply by the inverse of and then divide where that may round
// to the other side: in each 64 values one lies on a tie or beside it, the others far from any.
// Expected: the definition, written out.
TEST(Quantize, TiesAtScalesThatAreDividedBy) {
  std::vector<float> scales;
  for (int i = 0; scales.size() < 12; ++i) {
    const float scale = 0.003f * std::pow(1.0037f, static_cast<float>(i));
    if (!Divisor::Of(scale).exact) scales.push_back(scale);
  }
  for (float scale : scales) {
    for (DType dtype : {DType::kUint8, DType::kInt8}) {
      const int32_t low = dtype == DType::kUint8 ? 0 : -128, zero = low + 100;
      constexpr int kBlocks = 255;
      Tensor x = Tensor::Allocate(TensorType(DType::kFloat32, Shape{64 * kBlocks}));
      Tensor want =
          Tensor::Allocate(TensorType(dtype, x.shape(), QuantParams::PerTensor(scale, zero)));
      for (int i = 0; i < 64 * kBlocks; ++i) {
        const int block = i / 64, place = i % 64;
        float v = scale * static_cast<float>(place - 32);
        if (place == block % 64) {
          v = scale * (static_cast<float>(block - 128) + 0.5f);
          for (int k = 0; k < block % 5; ++k)
            v = std::nextafter(v, block % 2 == 0 ? 1e30f : -1e30f);
        }
        x.mutable_data<float>()[i] = v;
        // Division in float32, then the nearest integer, the even one of two.
        const float quotient = v / scale;
        double q = std::floor(static_cast<double>(quotient));
        const double rest = static_cast<double>(quotient) - q;
        if (rest > 0.5 || (rest == 0.5 && std::fmod(q, 2.0) != 0)) q += 1;
        want.mutable_raw()[i] = static_cast<std::byte>(
            static_cast<int>(std::min(std::max(q + zero, static_cast<double>(low)), low + 255.0)));
      }
      TestCall t;
      t.op = "QuantizeLinear";
      t.inputs = {x};
      t.outputs = {want.type()};
      ExpectKernel(kQuantizeKernel, t, {want}, fmt::format("{}", scale));
    }
  }
}

TEST(Quantize, RunTimeScales) {
  for (const Case& s : kCases) {
    for (DType dtype : kStored) {
      const QuantParams q = Scales(s.count, s.axis, dtype);
      const TensorType typed(dtype, s.shape, q), plain(dtype, s.shape),
          f32(DType::kFloat32, s.shape);
      Tensor zeros = Tensor::Allocate(TensorType(dtype, s.count == 1 ? Shape{} : Shape{s.count}));
      const auto bytes = static_cast<size_t>(DTypeBits(dtype) / 8);
      for (int i = 0; i < s.count; ++i)
        std::memcpy(zeros.mutable_raw() + i * bytes, &q.zero_points[i], bytes);
      TestCall t;
      t.op = "QuantizeLinear";
      t.attrs.Set("axis", std::max(s.axis, 0));
      t.inputs = {WithSpecials(Data(dtype, s.shape)), Tensor::FromValues(zeros.shape(), q.scales),
                  zeros};
      t.outputs = {plain};
      const Tensor want = QuantizeTensor(t.inputs[0], typed).value();
      ExpectKernel(kQuantizeRuntime, t, {want.WithType(plain)}, s.shape.ToString());
      t.op = "DequantizeLinear";
      t.inputs[0] = want.WithType(plain);
      t.outputs = {f32};
      ExpectKernel(kDequantizeRuntime, t, {ToFloat32(want).value()}, s.shape.ToString());
    }
  }
}

TEST(Quantize, DynamicFollowsOnnx) {
  for (int64_t n : {1, 7, 100, 40000}) {
    for (float shift : {0.0f, 9.0f, -9.0f}) {
      TestCall t;
      t.op = "DynamicQuantizeLinear";
      Tensor x = RandomTensor(TensorType(DType::kFloat32, Shape{n}), 4);
      for (int64_t i = 0; i < n; ++i) x.mutable_data<float>()[i] += shift;
      t.inputs = {x};
      t.outputs = {TensorType(DType::kUint8, Shape{n}), TensorType(DType::kFloat32, Shape{}),
                   TensorType(DType::kUint8, Shape{})};
      float low = 0, high = 0;
      for (float v : x.values<float>()) low = std::min(low, v), high = std::max(high, v);
      const float scale = (high - low) / 255;
      const auto zero =
          static_cast<uint8_t>(std::nearbyint(std::min(255.0f, std::max(0.0f, 0 - low / scale))));
      const auto y = QuantizeTensor(
          x, TensorType(DType::kUint8, x.shape(), QuantParams::PerTensor(scale, zero)));
      ExpectKernel(kDynamicQuantizeKernel, t,
                   {y->WithType(t.outputs[0]), Tensor::Scalar(scale), Tensor::Scalar(zero)},
                   fmt::format("{} {}", n, shift));
    }
  }
  TestCall zero;
  zero.op = "DynamicQuantizeLinear";
  zero.inputs = {Tensor::FromValues<float>(Shape{2}, {0, 0})};
  zero.outputs = {TensorType(DType::kUint8, Shape{2}), TensorType(DType::kFloat32, Shape{}),
                  TensorType(DType::kUint8, Shape{})};
  EXPECT_EQ(RunKernel(kDynamicQuantizeKernel, zero, Isa::kScalar)[1].data<float>()[0], 1);
}

// The second byte holds what the first leaves, in steps of `ratio` of the first one's.
TEST(Quantize, BytesByTheRangeOfTheData) {
  for (int64_t n : {1, 7, 1024, 1025, 40000}) {
    for (float shift : {0.0f, 9.0f, -9.0f}) {
      constexpr float kRatio = 1.0f / 254;
      Tensor x = RandomTensor(TensorType(DType::kFloat32, Shape{n}), 4);
      for (int64_t i = 0; i < n; ++i) x.mutable_data<float>()[i] += shift;
      TestCall one{"DynamicQuantizeLinear",
                   {},
                   {x},
                   {},
                   {TensorType(DType::kUint8, Shape{n}), TensorType(DType::kFloat32, Shape{}),
                    TensorType(DType::kUint8, Shape{})}};
      std::vector<Tensor> want = RunKernel(kDynamicQuantizeKernel, one, Isa::kScalar);
      const float scale = want[1].data<float>()[0], rest_scale = scale * kRatio;
      const int zero = want[2].data<uint8_t>()[0];
      Tensor rest = Tensor::Allocate(one.outputs[0]);
      for (int64_t i = 0; i < n; ++i) {
        const float rounded = static_cast<float>(want[0].data<uint8_t>()[i] - zero) * scale;
        const float left = x.data<float>()[i] - rounded;
        const float q = std::nearbyint(left / rest_scale) + 128;
        rest.mutable_data<uint8_t>()[i] = static_cast<uint8_t>(std::min(255.0f, std::max(0.0f, q)));
      }
      want.insert(want.end(), {rest, Tensor::Scalar(rest_scale)});
      TestCall t = one;
      t.op = "DynamicQuantizeBytes";
      t.attrs.Set("ratio", kRatio);
      t.outputs.insert(t.outputs.end(), {one.outputs[0], one.outputs[1]});
      ExpectKernel(kDynamicQuantizeBytesKernel, t, want, fmt::format("{} {}", n, shift));
      // Nothing is further from x than half a step of the second byte, at the ends two.
      for (int64_t i = 0; i < n; ++i) {
        const float back = static_cast<float>(want[0].data<uint8_t>()[i] - zero) * scale +
                           static_cast<float>(rest.data<uint8_t>()[i] - 128) * rest_scale;
        EXPECT_NEAR(back, x.data<float>()[i], 2 * rest_scale) << i;
      }
    }
  }
}

// As DynamicQuantizeBytes, but by a scale and a zero point that are known: values beyond them are
// at the ends of both bytes.
TEST(Quantize, BytesByScalesThatAreKnown) {
  for (int64_t n : {1, 7, 1024, 1025, 40000}) {
    Tensor x = RandomTensor(TensorType(DType::kFloat32, Shape{n}), 5);
    if (n > 7) x.mutable_data<float>()[3] = std::nanf(""), x.mutable_data<float>()[4] = INFINITY;
    constexpr float kScale = 0.01f, kRest = 0.00004f;
    constexpr uint8_t kZero = 90;
    TestCall t{"QuantizeBytes",
               {},
               {x, Tensor::Scalar(kScale), Tensor::Scalar(kZero)},
               {},
               {TensorType(DType::kUint8, Shape{n}), TensorType(DType::kUint8, Shape{n})}};
    t.attrs.Set("rest_scale", kRest);
    const auto stored = [](float v, int zero) {
      const float q = std::isnan(v) ? 0.0f : std::nearbyint(v);
      return static_cast<uint8_t>(std::min(255.0f, std::max(0.0f, q + static_cast<float>(zero))));
    };
    Tensor y = Tensor::Allocate(t.outputs[0]), rest = Tensor::Allocate(t.outputs[1]);
    int ends = 0;
    for (int64_t i = 0; i < n; ++i) {
      const float v = x.data<float>()[i];
      const uint8_t q = y.mutable_data<uint8_t>()[i] = stored(v / kScale, kZero);
      ends += q == 0 || q == 255;
      rest.mutable_data<uint8_t>()[i] =
          stored((v - static_cast<float>(q - kZero) * kScale) / kRest, 128);
    }
    EXPECT_TRUE(n < 1000 || ends > 0);
    ExpectKernel(kQuantizeBytesKernel, t, {y, rest}, fmt::format("{}", n));
  }
}

// Without a zero point it is 0; what nobody reads is not written; a range that is known is not
// sought.
TEST(Quantize, OptionalInputsAndOutputs) {
  const Tensor x = Tensor::FromValues<float>(Shape{5}, {-1, 0, 0.75f, 2, 1000});
  TestCall t{
      "QuantizeLinear", {}, {x, Tensor::Scalar(0.5f)}, {}, {TensorType(DType::kUint8, Shape{5})}};
  ExpectKernel(kQuantizeRuntime, t, {Tensor::FromValues<uint8_t>(Shape{5}, {0, 0, 2, 4, 255})},
               "no zero point");
  const Tensor integers = Tensor::FromValues<int32_t>(Shape{3}, {-70000, 0, 3});
  TestCall d{"DequantizeLinear",
             {},
             {integers, Tensor::Scalar(0.5f)},
             {},
             {TensorType(DType::kFloat32, Shape{3})}};
  ExpectKernel(kDequantizeRuntime, d, {Tensor::FromValues<float>(Shape{3}, {-35000, 0, 1.5f})},
               "int32");
  d.inputs.push_back(Tensor::FromValues<int32_t>(Shape{}, {2}));
  ExpectKernel(kDequantizeRuntime, d, {Tensor::FromValues<float>(Shape{3}, {-35001, -1, 0.5f})},
               "int32");
  // The range [-1, 254] of input 1: scale 1, zero point 1.
  const Tensor want = Tensor::FromValues<uint8_t>(Shape{5}, {0, 1, 2, 3, 255});
  TestCall q{
      "DynamicQuantizeLinear", {}, {x, Tensor::FromValues<float>(Shape{2}, {-1, 254})}, {}, {}};
  for (const bool scale : {false, true}) {
    for (const bool zero : {false, true}) {
      q.outputs = {want.type(), TensorType(), TensorType()};
      if (scale) q.outputs[1] = TensorType(DType::kFloat32, Shape{});
      if (zero) q.outputs[2] = TensorType(DType::kUint8, Shape{});
      for (Isa isa : TestIsas()) {
        const BoundTest b = Bind(kDynamicQuantizeKernel, q, isa, 1);
        const void* in[] = {x.raw(), q.inputs[1].raw()};
        uint8_t y[5] = {}, zero_point = 99;
        float found = 99;
        void* out[] = {y, &found, &zero_point};
        ThreadPool pool(1);
        b.bound.run(b.bound.state.get(), in, out, RunContext{pool, b.scratch});
        EXPECT_EQ(std::memcmp(y, want.raw(), 5), 0) << IsaName(isa);
        EXPECT_EQ(found, scale ? 1 : 99) << IsaName(isa);
        EXPECT_EQ(zero_point, zero ? 1 : 99) << IsaName(isa);
      }
    }
  }
}

// y[i] = table[x[i]], also of lengths that threads share: more than 80001 bytes of 0.05 ns to a
// piece.
TEST(Quantize, LooksBytesUp) {
  for (int64_t n : {0, 1, 63, 64, 65, 95, 96, 127, 1000, 300000}) {
    TestCall t;
    t.op = "Lookup";
    const TensorType type(DType::kUint8, Shape{n}, QuantParams::PerTensor(0.1f, 3));
    t.inputs = {RandomTensor(type, 1), RandomTensor(TensorType(DType::kUint8, Shape{256}), 2)};
    t.outputs = {type};
    Tensor want = Tensor::Allocate(type);
    for (int64_t i = 0; i < n; ++i)
      want.mutable_data<uint8_t>()[i] = t.inputs[1].data<uint8_t>()[t.inputs[0].data<uint8_t>()[i]];
    ExpectKernel(*FindKernel("lookup_u8"), t, {want}, fmt::format("{}", n));
  }
}

// The bounds of each type, the values beside them, and NaN.
TEST(Cast, SaturatesToEveryInteger) {
  struct Case {
    DType dtype;
    int64_t low, high;  // as their bits
    float above;        // the least float32 beyond the type
  };
  const Case cases[] = {
      {DType::kUint8, 0, 255, 256.0f},          {DType::kInt8, -128, 127, 128.0f},
      {DType::kUint16, 0, 65535, 0x1p16f},      {DType::kInt16, -32768, 32767, 0x1p15f},
      {DType::kUint32, 0, 0xffffffff, 0x1p32f}, {DType::kInt32, INT32_MIN, INT32_MAX, 0x1p31f},
      {DType::kUint64, 0, -1, 0x1p64f},         {DType::kInt64, INT64_MIN, INT64_MAX, 0x1p63f}};
  for (const Case& c : cases) {
    const float inf = std::numeric_limits<float>::infinity();
    const float inside = std::nextafter(c.above, 0.0f);
    const bool is_signed = c.low != 0;
    const float x[] = {c.above,
                       1.25f * c.above,
                       inf,
                       -2 * c.above,
                       -inf,
                       std::nanf(""),
                       is_signed ? -c.above : -1.0f,
                       inside};
    const auto bits = [&](float v) {  // of `inside`, which is an integer from 2^24 on
      return c.above > 0x1p24f ? static_cast<int64_t>(static_cast<uint64_t>(v)) : c.high;
    };
    const int64_t want[] = {c.high, c.high, c.high, c.low, c.low, 0, c.low, bits(inside)};
    TestCall t{"Cast",
               {},
               {Tensor::FromValues<float>(Shape{8}, std::vector<float>(x, x + 8))},
               {},
               {TensorType(c.dtype, Shape{8})}};
    const Tensor y = RunKernel(kCastKernel, t, Isa::kScalar)[0];
    const size_t bytes = y.bytes() / 8;
    for (size_t i = 0; i < 8; ++i)
      EXPECT_EQ(std::memcmp(y.raw() + i * bytes, &want[i], bytes), 0)
          << DTypeName(c.dtype) << " of " << x[i];
  }
}

TEST(Cast, TruncatesAndSaturates) {
  TestCall t;
  t.op = "Cast";
  t.inputs = {
      Tensor::FromValues<float>(Shape{7}, {1.9f, -1.9f, 300, -300, std::nanf(""), 1e20f, 0})};
  t.outputs = {TensorType(DType::kInt8, Shape{7})};
  EXPECT_EQ(ToInt64s(RunKernel(kCastKernel, t, Isa::kScalar)[0]).value(),
            (std::vector<int64_t>{1, -1, 127, -128, 0, 127, 0}));
  t.outputs = {TensorType(DType::kInt64, Shape{7})};
  EXPECT_EQ(ToInt64s(RunKernel(kCastKernel, t, Isa::kScalar)[0]).value()[5], INT64_MAX);
  t.outputs = {TensorType(DType::kBool, Shape{7})};
  EXPECT_EQ(ToInt64s(RunKernel(kCastKernel, t, Isa::kScalar)[0]).value(),
            (std::vector<int64_t>{1, 1, 1, 1, 1, 1, 0}));
  t.outputs = {TensorType(DType::kFloat16, Shape{7})};
  EXPECT_EQ(ToFloat32(RunKernel(kCastKernel, t, Isa::kScalar)[0])->data<float>()[2], 300);
  t.inputs = {Tensor::FromValues<int32_t>(Shape{2}, {16777217, -5})};
  t.outputs = {TensorType(DType::kFloat32, Shape{2})};
  EXPECT_EQ(RunKernel(kCastKernel, t, Isa::kScalar)[0].data<float>()[0], 16777216);
  t.inputs = {Tensor::FromValues<int32_t>(Shape{2}, {257, -1})};
  t.outputs = {TensorType(DType::kUint8, Shape{2})};
  EXPECT_EQ(ToInt64s(RunKernel(kCastKernel, t, Isa::kScalar)[0]).value(),
            (std::vector<int64_t>{1, 255}));
}

// Every half, and floats around every rounding boundary of one.
TEST(Cast, HalvesOfEveryKind) {
  std::vector<uint16_t> halves(65536);
  std::vector<float> floats,
      edges = {0x1p-25f, 0x1.000002p-25f, 65519.0f,      65520.0f,      1e30f,
               1e-30f,   1e-40f,          std::nanf(""), -std::nanf("")};
  for (uint32_t i = 0; i < 65536; ++i) {
    halves[i] = static_cast<uint16_t>(i);
    floats.push_back(HalfToFloat(halves[i]));
    if (i % 32768 >= 0x7bff) continue;
    const float between = (floats.back() + HalfToFloat(static_cast<uint16_t>(i + 1))) / 2;
    for (float v : {between, std::nextafterf(between, 0), std::nextafterf(between, 1e9f)})
      edges.push_back(v);
  }
  const auto n = static_cast<int64_t>(edges.size());
  TestCall t;
  t.op = "Cast";
  t.inputs = {Tensor::Allocate(TensorType(DType::kFloat16, Shape{65536}))};
  std::memcpy(t.inputs[0].mutable_raw(), halves.data(), 2 * halves.size());
  t.outputs = {TensorType(DType::kFloat32, Shape{65536})};
  Tensor wide = Tensor::Allocate(t.outputs[0]);
  std::memcpy(wide.mutable_raw(), floats.data(), 4 * floats.size());
  for (Isa isa : TestIsas()) {
    const Tensor got = RunKernel(kCastKernel, t, isa)[0];
    EXPECT_EQ(std::memcmp(got.raw(), wide.raw(), 4 * floats.size()), 0) << IsaName(isa);
  }
  t.inputs = {Tensor::Allocate(TensorType(DType::kFloat32, Shape{n}))};
  std::memcpy(t.inputs[0].mutable_raw(), edges.data(), 4 * edges.size());
  t.outputs = {TensorType(DType::kFloat16, Shape{n})};
  for (Isa isa : TestIsas()) {
    const Tensor got = RunKernel(kCastKernel, t, isa)[0];
    for (int64_t i = 0; i < n; ++i)
      ASSERT_EQ(got.data<uint16_t>()[i], FloatToHalf(edges[i])) << IsaName(isa) << " " << edges[i];
  }
}

TEST(Quantize, RejectsWithAReason) {
  TestCall t;
  t.op = "QuantizeLinear";
  t.inputs = {RandomTensor(TensorType(DType::kFloat32, Shape{4}), 1), Tensor::Scalar(0.1f)};
  t.outputs = {TensorType(DType::kUint8, Shape{4})};
  EXPECT_EQ(RejectOf(kQuantizeKernel, t)->code, "types");
  EXPECT_EQ(RejectOf(kQuantizeRuntime, t), std::nullopt);
  t.inputs[1] = Tensor::FromValues<float>(Shape{3}, {1, 1, 1});
  EXPECT_EQ(RejectOf(kQuantizeRuntime, t)->code, "shape");
}

TEST(Quantize, GathersRowsOfBytes) {
  for (bool per_row : {false, true}) {
    QuantParams quant = QuantParams::PerTensor(0.02f, 3);
    if (per_row) quant = {{0.01f, 0.02f, 0.03f, 0.5f, 1.0f}, {1, 0, -2, 3, 7}, 0, 0};
    TestCall t;
    t.op = "Gather";
    t.inputs = {RandomTensor(TensorType(DType::kInt8, Shape{5, 37}, quant), 3),
                Tensor::FromValues<int64_t>(Shape{2, 3}, std::vector<int64_t>{4, 0, -1, 2, -5, 1})};
    t.is_constant = {true, false};
    t.outputs = {TensorType(DType::kFloat32, Shape{2, 3, 37})};
    Tensor want = Tensor::Allocate(t.outputs[0]);
    const int64_t rows[] = {4, 0, 4, 2, 0, 1};
    for (int64_t i = 0; i < want.elements(); ++i) {
      const auto row = static_cast<size_t>(rows[i / 37]), s = per_row ? row : 0;
      want.mutable_data<float>()[i] = DequantizeValue(t.inputs[0].data<int8_t>()[row * 37 + i % 37],
                                                      quant.scales[s], quant.zero_points[s]);
    }
    ExpectKernel(*FindKernel("gather_dequantize"), t, {want}, per_row ? "per row" : "one scale");
  }
}

}  // namespace
}  // namespace evoq
