#include "kernels/dwconv/dwconv.h"

#include <array>
#include <random>

#include "kernels/layout.h"
#include "kernels/test_util.h"

namespace evoq {
extern const KernelDef kDwConvInt8, kDwConvFloat;
namespace {

struct Case {
  int64_t n, h, w, c, kh, kw, stride, pad, dilation;
  const char* activation = "";
  bool residual = false;
  bool float_output = false;
  bool asymmetric = false;  // uint8 weights with zero points
  float scale_y = 0.11f;    // of an integer output
  int32_t bias = 0;         // added to that of every third channel
};

int64_t OutSize(int64_t in, int64_t k, const Case& s) {
  return (in + 2 * s.pad - (k - 1) * s.dilation - 1) / s.stride + 1;
}

std::string Label(const Case& s) {
  return fmt::format(
      "{}x{}x{}x{} k{}x{} s{} p{} d{} {} residual={} float={} asymmetric={} scale={}", s.n, s.h,
      s.w, s.c, s.kh, s.kw, s.stride, s.pad, s.dilation, s.activation, s.residual, s.float_output,
      s.asymmetric, s.scale_y);
}

TestCall MakeCall(const Case& s, bool int8, uint32_t seed) {
  TestCall t;
  t.op = "Conv";
  t.attrs.Set("channels_last", 1);
  t.attrs.Set("group", AttrValue(s.c));
  t.attrs.Set("strides", std::vector<int64_t>{s.stride, s.stride});
  t.attrs.Set("pads", std::vector<int64_t>(4, s.pad));
  t.attrs.Set("dilations", std::vector<int64_t>{s.dilation, s.dilation});
  if (*s.activation) t.attrs.Set("activation", s.activation);
  t.attrs.Set("activation_alpha", std::string(s.activation) == "Clip" ? -1.5f : 0.3f);
  t.attrs.Set("activation_beta", 2.0f);
  std::vector<float> slopes;
  for (int64_t c = 0; c < s.c; ++c) slopes.push_back(0.3f * static_cast<float>((c * 5) % 9 - 2));
  if (std::string(s.activation) == "PRelu") t.attrs.Set("activation_slopes", slopes);
  const Shape x{s.n, s.h, s.w, s.c}, w{s.c, 1, s.kh, s.kw},
      y{s.n, OutSize(s.h, s.kh, s), OutSize(s.w, s.kw, s), s.c};
  QuantParams per_channel;
  per_channel.axis = 0;
  for (int64_t c = 0; c < s.c; ++c)
    per_channel.scales.push_back(0.01f + 0.003f * static_cast<float>(c % 7));
  for (int64_t c = 0; c < s.c; ++c) {
    const bool fits =
        s.c > 64 &&
        c / 64 % 2 == 0;  // of 64 channels that are computed together, all weights fit int8
    per_channel.zero_points.push_back(!s.asymmetric ? 0
                                      : fits        ? 128
                                                    : static_cast<int32_t>((c * 37 + s.c) % 256));
  }
  const TensorType y_type =
      int8 && !s.float_output ? TensorType(DType::kUint8, y, QuantParams::PerTensor(s.scale_y, 117))
                              : TensorType(DType::kFloat32, y);
  TensorType r_type = y_type;
  if (int8 && !s.float_output)
    r_type.quant = std::make_shared<QuantParams>(QuantParams::PerTensor(0.07f, 31));
  t.inputs = {
      RandomTensor(int8 ? TensorType(DType::kUint8, x, QuantParams::PerTensor(0.05f, 101))
                        : TensorType(DType::kFloat32, x),
                   seed),
      RandomTensor(int8 ? TensorType(s.asymmetric ? DType::kUint8 : DType::kInt8, w, per_channel)
                        : TensorType(DType::kFloat32, w),
                   seed + 1),
      RandomTensor(TensorType(int8 ? DType::kInt32 : DType::kFloat32, Shape{s.c}), seed + 2)};
  if (int8) {
    for (int64_t c = 0; c < s.c; c += 3) t.inputs[2].mutable_data<int32_t>()[c] += s.bias;
  }
  if (s.residual) t.inputs.push_back(RandomTensor(r_type, seed + 3));
  t.is_constant = {false, true, true, false};
  t.outputs = {y_type};
  return t;
}

// Calls body(output index, channel, bias index, sum over taps of term(x index, w index)).
template <typename Sum, typename Term, typename Body>
void ForEachOutput(const Case& s, const Term& term, const Body& body) {
  const int64_t oh = OutSize(s.h, s.kh, s), ow = OutSize(s.w, s.kw, s);
  for (int64_t n = 0, at = 0; n < s.n; ++n)
    for (int64_t oy = 0; oy < oh; ++oy)
      for (int64_t ox = 0; ox < ow; ++ox)
        for (int64_t c = 0; c < s.c; ++c, ++at) {
          Sum sum = {};
          for (int64_t i = 0; i < s.kh; ++i)
            for (int64_t j = 0; j < s.kw; ++j) {
              const int64_t iy = oy * s.stride - s.pad + i * s.dilation,
                            ix = ox * s.stride - s.pad + j * s.dilation;
              if (iy < 0 || iy >= s.h || ix < 0 || ix >= s.w) continue;
              sum += term(((n * s.h + iy) * s.w + ix) * s.c + c, (c * s.kh + i) * s.kw + j);
            }
          body(at, c, sum);
        }
}

// kernels/requant.h, word by word.
Tensor Int8Reference(const TestCall& t, const Case& s) {
  Tensor y = Tensor::Allocate(t.outputs[0]);
  const auto* x = t.inputs[0].data<uint8_t>();
  const std::vector<int64_t> w =
      ToInt64s(t.inputs[1].WithType(TensorType(t.inputs[1].dtype(), t.inputs[1].shape()))).value();
  const int64_t taps = s.kh * s.kw;
  const QuantParams &qx = *t.inputs[0].type().quant, &qw = *t.inputs[1].type().quant;
  const ProductActivation product = ProductActivationFromAttrs(t.attrs).value();
  const Activation activation = product.activation;
  const float scale_y = s.float_output ? 1 : y.type().quant->scales[0];
  ForEachOutput<int32_t>(
      s,
      [&](int64_t xi, int64_t wi) {
        return (x[xi] - qx.zero_points[0]) *
               static_cast<int32_t>(w[wi] - qw.zero_points[wi / taps]);
      },
      [&](int64_t at, int64_t c, int32_t sum) {
        float v = static_cast<float>(sum + t.inputs[2].data<int32_t>()[c]) *
                  LinearMultiplier(qx.scales[0], qw.scales[c], scale_y);
        if (s.residual && s.float_output) v = v + t.inputs[3].data<float>()[at];
        if (s.residual && !s.float_output) {
          const QuantParams& qr = *t.inputs[3].type().quant;
          v = v + static_cast<float>(t.inputs[3].data<uint8_t>()[at] - qr.zero_points[0]) *
                      ScaleRatio(qr.scales[0], scale_y);
        }
        if (!product.slopes.empty()) v = v < 0 ? v * product.slopes[c] : v;
        v = Apply(ScaledActivation(activation, scale_y), v);
        if (s.float_output) {
          y.mutable_data<float>()[at] = v;
        } else {
          y.mutable_data<uint8_t>()[at] =
              static_cast<uint8_t>(RoundToInteger(v, y.type().quant->zero_points[0], 0, 255));
        }
      });
  return y;
}

const Case kCases[] = {
    {1, 5, 6, 16, 3, 3, 1, 1, 1},
    {2, 9, 15, 17, 3, 3, 2, 1, 1, "Relu"},
    {1, 8, 8, 144, 3, 3, 1, 1, 1, "Clip"},
    {1, 1, 1, 2, 3, 3, 1, 1, 1},
    {1, 3, 3, 7, 3, 3, 1, 0, 1, "LeakyRelu"},
    {0, 4, 4, 8, 3, 3, 1, 1, 1},
    {1, 11, 13, 33, 5, 5, 1, 2, 1},
    {1, 11, 14, 48, 5, 5, 2, 2, 1, "Relu"},
    {1, 9, 9, 20, 7, 7, 1, 3, 1, "Clip", true},
    {1, 10, 17, 19, 7, 7, 2, 3, 1},
    {1, 12, 12, 24, 3, 3, 1, 2, 2, "Relu"},
    {1, 9, 47, 17, 3, 3, 1, 3, 3, "Relu"},
    {2, 11, 40, 35, 5, 5, 1, 4, 2, "", true},
    {1, 9, 20, 16, 3, 3, 2, 2, 2},
    {1, 6, 29, 31, 1, 4, 1, 1, 1},
    {1, 7, 7, 32, 3, 3, 1, 1, 1, "", true},
    {1, 7, 9, 21, 3, 3, 1, 1, 1, "Relu", true, true},
    {1, 7, 9, 40, 3, 3, 2, 1, 1, "LeakyRelu", true, true},
    {1, 4, 4, 5, 9, 2, 1, 4, 1},
    {2, 1, 200, 33, 1, 31, 1, 15, 1, "Relu"},
    {1, 1, 200, 18, 1, 9, 1, 4, 16, "", true},
    {1, 1, 1700, 3, 1, 1600, 1, 0, 1},
    {1, 1, 300, 16, 1, 8, 4, 2, 1, "Clip", false, true},
    {1, 3, 70, 20, 2, 5, 3, 2, 3, "", false, false, true},
    {1, 90, 3, 19, 13, 1, 1, 6, 1, "LeakyRelu", false, true},
    {1, 40, 5, 24, 6, 1, 2, 0, 2},
    {1, 30, 29, 17, 27, 27, 1, 13, 1, "Relu", true, false, true},
    {1, 80, 80, 3, 2, 40, 1, 30, 2, "Relu"},
    {1, 3, 9, 17, 1, 1, 1, 0, 1000000},
    {1, 3, 9, 17, 1, 1, 2, 0, 1000000},
    {1, 5, 1, 16, 3, 3, 3, 1, 1},
    {1, 8, 9, 37, 3, 3, 1, 1, 1, "Clip", false, false, true},
    {1, 7, 9, 48, 5, 5, 2, 2, 1, "", true, false, true},
    {1, 9, 9, 5, 3, 3, 1, 1, 1, "Relu", false, false, true},
    {1, 9, 9, 6, 3, 3, 1, 2, 2, "", false, false, true},
    {1, 6, 7, 130, 3, 3, 1, 1, 1, "Relu", false, false, true},
    {1, 6, 7, 150, 5, 5, 2, 2, 1, "Clip", true, true, true},
    {1, 6, 9, 90, 7, 7, 1, 3, 1, "Relu", false, true, true},
    // Sums that float32 does not hold, and those at the edge.
    {1, 7, 12, 25, 3, 3, 1, 1, 1, "", false, false, false, 20000, 0x40000001},
    {1, 7, 12, 40, 5, 5, 1, 2, 1, "", false, true, false, 1, -0x40000001},
    {1, 7, 12, 25, 3, 3, 2, 1, 1, "", true, false, true, 50, 1 << 23},
    {2, 7, 12, 18, 7, 7, 1, 3, 1, "", false, true, false, 1, -(1 << 23)},
};

TEST(DwConv, Int8EqualsTheDefinition) {
  for (const Case& s : kCases) {
    for (const char* activation : {s.activation, "PRelu"}) {
      Case with = s;
      with.activation = activation;
      const TestCall t = MakeCall(with, true, 7);
      ExpectKernel(kDwConvInt8, t, {Int8Reference(t, with)}, Label(with));
    }
  }
}

TEST(DwConv, Int8RandomShapes) {
  for (uint32_t seed = 1; seed <= 300 && !HasFailure(); ++seed) {
    std::mt19937 rng(seed);
    const auto pick = [&](std::initializer_list<int64_t> from) {
      return from.begin()[rng() % from.size()];
    };
    Case s = {};
    s.n = pick({1, 1, 2});
    s.c = pick({2,  3,  6,  8,  15, 16, 17,  24,  31,  32,  33, 40,
                48, 63, 64, 65, 80, 96, 100, 128, 144, 150, 200});
    s.kh = s.kw = pick({3, 3, 3, 5, 5, 7, 7, 2});
    if (rng() % 4 == 0) s.kw = pick({1, 3, 4, 8, 11});
    s.stride = pick({1, 1, 1, 2, 2, 3});
    s.dilation = pick({1, 1, 1, 1, 2, 3});
    s.pad = pick({0, s.kw / 2, s.kw / 2, s.kw / 2 * s.dilation, s.kw});
    const int64_t least =
        std::max<int64_t>(1, (std::max(s.kh, s.kw) - 1) * s.dilation + 1 - 2 * s.pad);
    s.h = least + pick({0, 1, 2, 5, 8});
    s.w = least + pick({0, 1, 3, 7, 12, 40});
    s.activation = std::array{"", "PRelu", "Relu", "Clip", "LeakyRelu"}[rng() % 5];
    s.residual = rng() % 5 == 0;
    s.float_output = rng() % 5 == 0;
    s.asymmetric = rng() % 5 == 0;
    s.scale_y = std::array{0.11f, 0.11f, 3.0f, 1e-12f}[rng() % 4];
    if (rng() % 4 == 0) s.bias = std::array{0x123457, -0x765431, 0x7654321}[rng() % 3];
    const TestCall t = MakeCall(s, true, seed);
    ExpectKernel(kDwConvInt8, t, {Int8Reference(t, s)}, Label(s));
  }
}

TEST(DwConv, FloatIsWithinItsBound) {
  for (const Case& s : kCases) {
    for (const char* activation : {s.activation, "Silu"}) {
      Case with = s;
      with.activation = activation;
      const TestCall t = MakeCall(with, false, 11);
      const Activation a = ActivationFromAttrs(t.attrs).value();
      std::vector<double> want, bound;
      const auto *x = t.inputs[0].data<float>(), *w = t.inputs[1].data<float>();
      ForEachOutput<double>(
          s, [&](int64_t xi, int64_t wi) { return double{x[xi]} * w[wi]; },
          [&](int64_t at, int64_t c, double sum) {
            const double r = s.residual ? t.inputs[3].data<float>()[at] : 0;
            want.push_back(Apply(a, static_cast<float>(sum + t.inputs[2].data<float>()[c] + r)));
            // 16 is |x| |w|: each of the taps + 3 additions rounds a sum of at most that many such
            // products.
            const double terms = static_cast<double>(s.kh * s.kw + 3);
            bound.push_back(terms * terms * 16 * 0x1p-23);
          });
      for (Isa isa : TestIsas()) {
        const auto got = RunKernel(kDwConvFloat, t, isa, 3);
        for (size_t i = 0; i < want.size(); ++i) {
          ASSERT_NEAR(got[0].data<float>()[i], want[i], bound[i])
              << IsaName(isa) << " " << i << " " << Label(with);
        }
      }
    }
  }
}

TEST(DwConv, TableBehindTheDefinition) {
  for (const Case& s : kCases) {
    if (s.float_output) continue;
    TestCall t = MakeCall(s, true, 7);
    Tensor want = Int8Reference(t, s);
    t.inputs.resize(5);
    t.inputs[4] = RandomTensor(TensorType(DType::kUint8, Shape{256}, *t.outputs[0].quant), 9);
    t.is_constant = {false, true, true, false, true};
    for (int64_t i = 0; i < want.elements(); ++i)
      want.mutable_data<uint8_t>()[i] = t.inputs[4].data<uint8_t>()[want.data<uint8_t>()[i]];
    t.outputs[0].quant = std::make_shared<QuantParams>(QuantParams::PerTensor(0.5f, 1));
    ExpectKernel(kDwConvInt8, t, {want.WithType(t.outputs[0])}, Label(s));
  }
}

// Weights stored as integers compute as the float32 weights that they stand for.
TEST(DwConv, FloatWithQuantizedWeights) {
  for (DType dtype : {DType::kInt8, DType::kUint8, DType::kInt4}) {
    TestCall t = MakeCall(kCases[1], false, 5);
    const bool is_signed = dtype != DType::kUint8;
    const TensorType type(dtype, t.inputs[1].shape(),
                          QuantParams::PerTensor(0.02f, is_signed ? 0 : 131));
    const Tensor stored = RandomTensor(type, 8);
    for (Isa isa : TestIsas()) {
      t.inputs[1] = ToFloat32(stored).value();
      const auto want = RunKernel(kDwConvFloat, t, isa, 1);
      t.inputs[1] = stored;
      EXPECT_TRUE(BitEqual(RunKernel(kDwConvFloat, t, isa, 2)[0], want[0]))
          << IsaName(isa) << " " << DTypeName(dtype);
    }
  }
}

TEST(DwConv, OneDimension) {
  TestCall t = MakeCall({2, 1, 19, 18, 1, 3, 1, 0, 1, "Relu"}, true, 3);
  const Tensor want = Int8Reference(t, {2, 1, 19, 18, 1, 3, 1, 0, 1, "Relu"});
  const auto reshape = [](Tensor& tensor, Shape shape) {
    TensorType type = tensor.type();
    type.shape = std::move(shape);
    tensor = tensor.WithType(type);
  };
  reshape(t.inputs[0], Shape{2, 19, 18});
  reshape(t.inputs[1], Shape{18, 1, 3});
  t.outputs[0].shape = Shape{2, 17, 18};
  for (const char* name : {"strides", "pads", "dilations"}) t.attrs.Erase(name);
  ExpectKernel(kDwConvInt8, t, {want.WithType(t.outputs[0])}, "1-D");
}

TEST(DwConv, RejectsWithAReason) {
  const Case s{1, 4, 4, 8, 3, 3, 1, 1, 1};
  TestCall t = MakeCall(s, true, 1);
  t.attrs.Erase("channels_last");
  EXPECT_EQ(RejectOf(kDwConvInt8, t)->code, "layout");
  t = MakeCall(s, true, 1);
  t.attrs.Set("group", 4);
  EXPECT_EQ(RejectOf(kDwConvInt8, t)->code, "shape");
  t = MakeCall(s, true, 1);
  t.attrs.Set("activation", "Silu");
  EXPECT_EQ(RejectOf(kDwConvInt8, t)->code, "attribute");
  EXPECT_EQ(RejectOf(kDwConvFloat, t)->code, "types");
  t.is_constant[1] = false;
  t.attrs.Erase("activation");
  EXPECT_EQ(RejectOf(kDwConvInt8, t)->code, "not-constant");
  EXPECT_EQ(RejectOf(kDwConvInt8, MakeCall({1, 4, 4, 1, 3, 3, 1, 1, 1}, true, 1))->sentence,
            "one channel: most lanes would be idle");
}

TEST(DwConv, LayoutRoundTrips) {
  const LayoutDef* layout = FindLayout("taps-c");
  const Tensor w = RandomTensor(TensorType(DType::kInt8, Shape{21, 1, 3, 5}), 5);
  const auto packed = layout->pack(w);
  ASSERT_TRUE(packed) << packed.error().message();
  EXPECT_EQ(packed->bytes(), 32 * 15);
  EXPECT_TRUE(BitEqual(layout->unpack(*packed).value(), w));
  EXPECT_FALSE(layout->bytes(TensorType(DType::kInt8, Shape{8, 2, 3, 3})));
  EXPECT_FALSE(
      layout->bytes(TensorType(DType::kFloat32, Shape{int64_t{1} << 40, 1, int64_t{1} << 30, 3})));
}

}  // namespace
}  // namespace evoq
