#include "kernels/pool/pool.h"

#include "kernels/test_util.h"

namespace evoq {
extern const KernelDef kMaxPoolByte, kMaxPoolFloat, kAveragePoolByte, kAveragePoolFloat,
    kGlobalAveragePoolByte, kGlobalAveragePoolFloat, kGlobalMaxPoolFloat;
namespace {

struct Case {
  std::vector<int64_t> in, out, kernel, strides, pads, dilations;  // spatial
  int64_t batch, channels;
  bool include_pad = false;
};

TestCall MakeCall(const Case& s, const char* op, TensorType x, TensorType y) {
  TestCall t;
  t.op = op;
  t.attrs.Set("channels_last", 1);
  t.attrs.Set("kernel_shape", s.kernel);
  t.attrs.Set("strides", s.strides);
  t.attrs.Set("pads", s.pads);
  if (!s.dilations.empty()) t.attrs.Set("dilations", s.dilations);
  t.attrs.Set("count_include_pad", s.include_pad ? 1 : 0);
  const auto shape = [&](const std::vector<int64_t>& spatial) {
    std::vector<int64_t> sizes = {s.batch};
    sizes.insert(sizes.end(), spatial.begin(), spatial.end());
    sizes.push_back(s.channels);
    return Shape(sizes);
  };
  x.shape = shape(s.in);
  y.shape = shape(s.out);
  t.inputs = {RandomTensor(x, 5)};
  t.outputs = {y};
  return t;
}

// Calls body(output index, values inside the window in order, count) over real elements read by
// `at`.
template <typename T, typename Body>
void Reference(const Case& s, const Tensor& x, const Body& body) {
  const size_t rank = s.in.size();
  int64_t positions = 1, taps = 1, pixels = 1;
  for (size_t i = 0; i < rank; ++i) positions *= s.out[i], taps *= s.kernel[i], pixels *= s.in[i];
  for (int64_t at = 0; at < s.batch * positions * s.channels; ++at) {
    const int64_t c = at % s.channels, position = at / s.channels % positions,
                  n = at / s.channels / positions;
    std::vector<T> values;
    int64_t padded = 0;
    for (int64_t tap = 0; tap < taps; ++tap) {
      int64_t pixel = 0, rest = tap, where = position, stride = 1;
      bool inside = true, in_padding = true;
      for (size_t i = rank; i-- > 0;) {
        const int64_t dilation = s.dilations.empty() ? 1 : s.dilations[i];
        const int64_t p =
            where % s.out[i] * s.strides[i] - s.pads[i] + rest % s.kernel[i] * dilation;
        inside = inside && p >= 0 && p < s.in[i];
        in_padding = in_padding && p < s.in[i] + s.pads[rank + i];
        pixel += p * stride;
        stride *= s.in[i];
        rest /= s.kernel[i];
        where /= s.out[i];
      }
      if (inside) values.push_back(x.data<T>()[(n * pixels + pixel) * s.channels + c]);
      padded += in_padding;
    }
    body(at, values, s.include_pad ? padded : static_cast<int64_t>(values.size()));
  }
}

const Case kCases[] = {
    {{6, 7}, {3, 4}, {3, 3}, {2, 2}, {1, 1, 1, 1}, {}, 2, 19},
    {{6, 7}, {3, 4}, {3, 3}, {2, 2}, {1, 1, 1, 1}, {}, 1, 80, true},
    {{5, 5}, {3, 3}, {2, 2}, {2, 2}, {0, 0, 0, 0}, {}, 1, 64, true},  // ceil_mode: the last window
                                                                      // reaches past x
    {{9}, {7}, {3}, {1}, {0, 0}, {}, 3, 1},
    {{4, 5, 6}, {2, 2, 3}, {2, 3, 2}, {2, 2, 2}, {0, 0, 0, 0, 0, 0}, {}, 1, 33},
    {{9, 9}, {5, 5}, {3, 3}, {1, 1}, {0, 0, 0, 0}, {2, 2}, 1, 300},
    {{20, 20}, {1, 1}, {20, 20}, {1, 1}, {0, 0, 0, 0}, {}, 1, 81},
    {{4, 4}, {4, 4}, {3, 3}, {1, 1}, {1, 1, 1, 1}, {}, 0, 8},
    {{5, 700}, {3, 350}, {3, 3}, {2, 2}, {1, 1, 1, 1}, {}, 1, 24},  // rows of several bands
};

// Windows, strides and dilations around the edges of the input.
std::vector<Case> RandomCases(int count) {
  std::mt19937 rng(3);
  std::vector<Case> cases(std::begin(kCases), std::end(kCases));
  while (static_cast<int>(cases.size()) < count) {
    Case c;
    c.batch = 1 + rng() % 2;
    const int64_t channels[] = {1, 3, 6, 13, 16, 24, 37, 64, 100, 300};
    c.channels = channels[rng() % 10];
    c.include_pad = rng() % 2 == 0;
    c.pads.assign(4, 0);
    for (int i = 0; i < 2; ++i) {
      const int64_t kernel = 1 + rng() % 5, dilation = 1 + rng() % 2, stride = 1 + rng() % 3,
                    in = 1 + rng() % 20;
      const int64_t reach = (kernel - 1) * dilation;
      c.kernel.push_back(kernel), c.dilations.push_back(dilation), c.strides.push_back(stride),
          c.in.push_back(in);
      c.pads[i] = rng() % kernel, c.pads[i + 2] = rng() % kernel;
      c.out.push_back((in + c.pads[i] + c.pads[i + 2] - reach - 1) / stride + 1);
      if (in + c.pads[i] + c.pads[i + 2] <= reach) c.out.back() = 0;
    }
    // Every window has a tap inside, and the sizes are ONNX's.
    bool fits = c.out[0] > 0 && c.out[1] > 0;
    for (int i = 0; fits && i < 2; ++i) {
      const WindowDim w{c.in[i],        c.out[i],  c.kernel[i],  c.strides[i],
                        c.dilations[i], c.pads[i], c.pads[i + 2]};
      for (int64_t o = 0; o < w.out; ++o) fits = fits && w.TapBegin(o) < w.TapEnd(o);
    }
    if (fits) cases.push_back(c);
  }
  return cases;
}

TEST(Pool, MaxKeepsIntegersAndFloats) {
  for (const Case& s : RandomCases(200)) {
    for (DType dtype : {DType::kUint8, DType::kInt8}) {
      const TensorType type(dtype, Shape{}, QuantParams::PerTensor(0.1f, 3));
      const TestCall t = MakeCall(s, "MaxPool", type, type);
      Tensor want = Tensor::Allocate(t.outputs[0]);
      if (dtype == DType::kUint8) {
        Reference<uint8_t>(s, t.inputs[0], [&](int64_t at, const auto& v, int64_t) {
          want.mutable_data<uint8_t>()[at] = *std::max_element(v.begin(), v.end());
        });
      } else {
        Reference<int8_t>(s, t.inputs[0], [&](int64_t at, const auto& v, int64_t) {
          want.mutable_data<int8_t>()[at] = *std::max_element(v.begin(), v.end());
        });
      }
      ExpectKernel(kMaxPoolByte, t, {want},
                   fmt::format("{} kernel {}x{}", t.inputs[0].type().ToString(), s.kernel[0],
                               s.kernel.back()));
    }
    const TensorType f32(DType::kFloat32, Shape{});
    const TestCall t = MakeCall(s, "MaxPool", f32, f32);
    Tensor want = Tensor::Allocate(t.outputs[0]);
    Reference<float>(s, t.inputs[0], [&](int64_t at, const auto& v, int64_t) {
      want.mutable_data<float>()[at] = *std::max_element(v.begin(), v.end());
    });
    ExpectKernel(kMaxPoolFloat, t, {want},
                 fmt::format("{} kernel {}x{}", t.inputs[0].type().ToString(), s.kernel[0],
                             s.kernel.back()));
  }
}

TEST(Pool, AverageEqualsTheDefinition) {
  for (const Case& s : RandomCases(200)) {
    const TestCall t = MakeCall(
        s, "AveragePool", TensorType(DType::kUint8, Shape{}, QuantParams::PerTensor(0.1f, 77)),
        TensorType(DType::kUint8, Shape{}, QuantParams::PerTensor(0.06f, 130)));
    Tensor want = Tensor::Allocate(t.outputs[0]);
    Reference<uint8_t>(s, t.inputs[0], [&](int64_t at, const auto& values, int64_t count) {
      int32_t sum = 0;
      for (int v : values) sum += v - 77;
      const float m = static_cast<float>(static_cast<double>(0.1f) /
                                         (static_cast<double>(0.06f) * static_cast<double>(count)));
      want.mutable_data<uint8_t>()[at] =
          static_cast<uint8_t>(RoundToInteger(static_cast<float>(sum) * m, 130, 0, 255));
    });
    ExpectKernel(kAveragePoolByte, t, {want},
                 fmt::format("{} kernel {}x{}", t.inputs[0].type().ToString(), s.kernel[0],
                             s.kernel.back()));

    const TensorType f32(DType::kFloat32, Shape{});
    const TestCall f = MakeCall(s, "AveragePool", f32, f32);
    Tensor want_f = Tensor::Allocate(f.outputs[0]);
    Reference<float>(s, f.inputs[0], [&](int64_t at, const auto& values, int64_t count) {
      float sum = 0;
      for (float v : values) sum += v;
      want_f.mutable_data<float>()[at] = sum / static_cast<float>(count);
    });
    ExpectKernel(kAveragePoolFloat, f, {want_f},
                 fmt::format("{} kernel {}x{}", t.inputs[0].type().ToString(), s.kernel[0],
                             s.kernel.back()));
  }
}

// 1 2 3 4 5 6 under windows of 3, 3 apart, with a pad on both sides and ceil_mode: [_ 1 2], [3 4
// 5], [6 _ .], where _ is a pad and . lies behind it. With count_include_pad pads count and what
// lies behind them does not: 3/3, 12/3, 6/2; else 3/2, 12/3, 6/1.
TEST(Pool, AverageWithCeilModeAndPads) {
  for (bool include : {false, true}) {
    const float want[3] = {include ? 1.0f : 1.5f, 4, include ? 3.0f : 6.0f};
    for (int64_t c : {1, 7, 16, 37, 300}) {
      TestCall t;
      t.op = "AveragePool";
      t.attrs.Set("channels_last", 1);
      t.attrs.Set("kernel_shape", std::vector<int64_t>{3});
      t.attrs.Set("strides", std::vector<int64_t>{3});
      t.attrs.Set("pads", std::vector<int64_t>{1, 1});
      t.attrs.Set("ceil_mode", 1);
      t.attrs.Set("count_include_pad", AttrValue(static_cast<int64_t>(include)));
      const Shape from{1, 6, c}, to{1, 3, c};
      const TensorType bytes(DType::kUint8, from, QuantParams::PerTensor(0.5f, 10));
      Tensor f32 = Tensor::Allocate(TensorType(DType::kFloat32, from)),
             bf16 = Tensor::Allocate(TensorType(DType::kBfloat16, from));
      Tensor u8 = Tensor::Allocate(bytes),
             y_f32 = Tensor::Allocate(TensorType(DType::kFloat32, to));
      Tensor y_bf16 = Tensor::Allocate(TensorType(DType::kBfloat16, to)),
             y_u8 = Tensor::Allocate(TensorType(DType::kUint8, to, *bytes.quant));
      for (int64_t i = 0; i < 6 * c; ++i) {
        f32.mutable_data<float>()[i] = static_cast<float>(i / c + 1);
        bf16.mutable_data<uint16_t>()[i] = FloatToBfloat16(static_cast<float>(i / c + 1));
        u8.mutable_data<uint8_t>()[i] =
            static_cast<uint8_t>(2 * (i / c + 1) + 10);  // the same values in steps of 0.5
      }
      for (int64_t i = 0; i < 3 * c; ++i) {
        y_f32.mutable_data<float>()[i] = want[i / c];
        y_bf16.mutable_data<uint16_t>()[i] = FloatToBfloat16(want[i / c]);
        y_u8.mutable_data<uint8_t>()[i] = static_cast<uint8_t>(2 * want[i / c] + 10);
      }
      for (const auto& [name, x, y] :
           {std::tuple{"avgpool_f32", f32, y_f32}, std::tuple{"avgpool_bf16", bf16, y_bf16},
            std::tuple{"avgpool_u8", u8, y_u8}}) {
        t.inputs = {x};
        t.outputs = {y.type()};
        ExpectKernel(*FindKernel(name), t, {y}, fmt::format("{} channels, include {}", c, include));
      }
    }
  }
}

TEST(Pool, GlobalIsTheWindowOfEverything) {
  const Case s{{20, 17}, {1, 1}, {20, 17}, {1, 1}, {0, 0, 0, 0}, {}, 2, 300};
  const TensorType f32(DType::kFloat32, Shape{}),
      u8(DType::kUint8, Shape{}, QuantParams::PerTensor(0.1f, 5));
  for (const auto& [global, windowed, type] :
       {std::tuple{&kGlobalAveragePoolByte, &kAveragePoolByte, u8},
        std::tuple{&kGlobalAveragePoolFloat, &kAveragePoolFloat, f32},
        std::tuple{&kGlobalMaxPoolFloat, &kMaxPoolFloat, f32}}) {
    TestCall t = MakeCall(s, windowed->op, type, type);
    const auto want = RunKernel(*windowed, t, Isa::kScalar);
    t.op = global->op;
    for (const char* name : {"kernel_shape", "strides", "pads"}) t.attrs.Erase(name);
    ExpectKernel(*global, t, want, global->name);
  }
}

// A zero maximum of all of x is +0; of a window it is the first zero that stands there.
TEST(Pool, ZeroOfTheGlobalMaximumIsPositive) {
  for (int64_t channels : {1, 7, 16, 37}) {
    Tensor x = Tensor::Allocate(TensorType(DType::kFloat32, Shape{1, 4, channels}));
    for (int64_t i = 0; i < x.elements(); ++i)
      x.mutable_data<float>()[i] = i < channels ? -1.0f : -0.0f;
    TestCall t{"GlobalMaxPool", {}, {x}, {}, {TensorType(DType::kFloat32, Shape{1, 1, channels})}};
    t.attrs.Set("channels_last", 1);
    TestCall window = t;
    window.op = "MaxPool";
    window.attrs.Set("kernel_shape", std::vector<int64_t>{4});
    for (Isa isa : TestIsas()) {
      const Tensor all = RunKernel(kGlobalMaxPoolFloat, t, isa)[0],
                   one = RunKernel(kMaxPoolFloat, window, isa)[0];
      for (int64_t c = 0; c < channels; ++c) {
        EXPECT_EQ(all.data<float>()[c], 0) << IsaName(isa);
        EXPECT_FALSE(std::signbit(all.data<float>()[c]))
            << IsaName(isa) << " channel " << c << " of " << channels;
        EXPECT_TRUE(std::signbit(one.data<float>()[c]))
            << IsaName(isa) << " channel " << c << " of " << channels;
      }
    }
  }
}

// auto_pad of models with free sizes: 5 pixels under a window of 2, 2 apart, to 3; the pad is on
// the upper or lower side.
TEST(Pool, AutoPad) {
  const std::pair<const char*, std::vector<float>> cases[] = {
      {"SAME_UPPER", {2, 4, 5}}, {"SAME_LOWER", {1, 3, 5}}, {"VALID", {2, 4}}};
  for (const auto& [mode, want] : cases) {
    const auto n = static_cast<int64_t>(want.size());
    TestCall t{"MaxPool",
               {},
               {Tensor::FromValues<float>(Shape{1, 5, 1}, {1, 2, 3, 4, 5})},
               {},
               {TensorType(DType::kFloat32, Shape{1, n, 1})}};
    t.attrs.Set("channels_last", 1);
    t.attrs.Set("kernel_shape", std::vector<int64_t>{2});
    t.attrs.Set("strides", std::vector<int64_t>{2});
    t.attrs.Set("auto_pad", mode);
    ExpectKernel(kMaxPoolFloat, t, {Tensor::FromValues<float>(Shape{1, n, 1}, want)}, mode);
  }
}

TEST(Pool, RejectsWithAReason) {
  const TensorType f32(DType::kFloat32, Shape{}),
      u8(DType::kUint8, Shape{}, QuantParams::PerTensor(0.1f, 5));
  TestCall t = MakeCall(kCases[0], "MaxPool", u8, f32);
  EXPECT_EQ(RejectOf(kMaxPoolByte, t)->code, "types");
  t = MakeCall(kCases[0], "MaxPool", f32, f32);
  t.attrs.Set("strides", std::vector<int64_t>{0, 1});
  EXPECT_EQ(RejectOf(kMaxPoolFloat, t)->code, "attribute");
  t = MakeCall(kCases[0], "MaxPool", f32, f32);
  t.outputs.push_back(TensorType(DType::kInt64, t.outputs[0].shape));
  EXPECT_EQ(RejectOf(kMaxPoolFloat, t)->code, "attribute");
}

}  // namespace
}  // namespace evoq
