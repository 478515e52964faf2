#include "kernels/conv/conv_rows_f32.h"
#include "kernels/conv/conv_taps_f32.h"
#include "kernels/gemm/linear_f32_testing.h"
#include "kernels/layout.h"

namespace evoq {
namespace {

// Sizes of one case; spatial vectors have one entry per axis.
struct Sizes {
  bool transposed = false;
  int64_t batch = 1, channels_in = 1, channels_out = 1, group = 1;
  std::vector<int64_t> in, kernel, stride, dilation, begin, end, output_padding;
  bool bias = false, residual = false;
  Activation activation;
  DType weight = DType::kFloat32;

  int64_t Out(size_t i) const {
    const int64_t extent = (kernel[i] - 1) * dilation[i] + 1;
    if (transposed) return stride[i] * (in[i] - 1) + output_padding[i] + extent - begin[i] - end[i];
    return (in[i] + begin[i] + end[i] - extent) / stride[i] + 1;
  }
  std::string Name() const {
    return fmt::format(
        "{} n{} c{} m{} g{} in {} k {} s {} d {} p {} {} bias {} residual {} activation '{}' {}",
        transposed ? "ConvTranspose" : "Conv", batch, channels_in, channels_out, group,
        fmt::join(in, "x"), fmt::join(kernel, "x"), fmt::join(stride, "x"),
        fmt::join(dilation, "x"), fmt::join(begin, "x"), fmt::join(end, "x"), bias, residual,
        ActivationName(activation.kind), DTypeName(weight));
  }
};

// Adds sum_k x w of every output element to `sum` and the absolute values to `magnitude`, straight
// from the definition: input pixel i, tap k and output pixel o meet where o = i * stride + k *
// dilation - begin (ConvTranspose), or i = o * stride + k * dilation - begin (Conv).
void Reference(const Sizes& s, const float* x, const float* w, std::vector<double>& sum,
               std::vector<double>& magnitude) {
  const size_t axes = s.in.size();
  int64_t pixels_in = 1, taps = 1, pixels_out = 1;
  for (size_t i = 0; i < axes; ++i)
    pixels_in *= s.in[i], taps *= s.kernel[i], pixels_out *= s.Out(i);
  const int64_t c_group = s.channels_in / s.group, m_group = s.channels_out / s.group;
  // From: the pixels that are walked; to: the ones computed from them by the formula above.
  const int64_t pixels_from = s.transposed ? pixels_in : pixels_out;
  for (int64_t from = 0; from < pixels_from; ++from) {
    for (int64_t t = 0; t < taps; ++t) {
      int64_t rest_from = from, rest_tap = t, to = 0, to_stride = 1;
      bool inside = true;
      for (size_t j = axes; j-- > 0;) {
        const int64_t from_size = s.transposed ? s.in[j] : s.Out(j),
                      to_size = s.transposed ? s.Out(j) : s.in[j];
        const int64_t at = rest_from % from_size * s.stride[j] +
                           rest_tap % s.kernel[j] * s.dilation[j] - s.begin[j];
        rest_from /= from_size, rest_tap /= s.kernel[j];
        inside = inside && at >= 0 && at < to_size;
        to += at * to_stride, to_stride *= to_size;
      }
      if (!inside) continue;
      for (int64_t n = 0; n < s.batch; ++n) {
        const float* px = x + (n * pixels_in + (s.transposed ? from : to)) * s.channels_in;
        const int64_t py = (n * pixels_out + (s.transposed ? to : from)) * s.channels_out;
        for (int64_t m = 0; m < s.channels_out; ++m) {
          const int64_t g = m / m_group;
          for (int64_t c = 0; c < c_group; ++c) {
            const float weight = s.transposed
                                     ? w[((g * c_group + c) * m_group + m % m_group) * taps + t]
                                     : w[(m * c_group + c) * taps + t];
            const double product = double{px[g * c_group + c]} * weight;
            sum[py + m] += product;
            magnitude[py + m] += std::fabs(product);
          }
        }
      }
    }
  }
}

Tensor RandomWeight(const Sizes& s, const Shape& shape, std::mt19937& random) {
  Tensor w = RandomF32(shape, random);
  if (s.weight == DType::kFloat32) return w;
  if (s.weight == DType::kFloat16) {
    Tensor half = Tensor::Allocate(TensorType(DType::kFloat16, shape));
    for (int64_t i = 0; i < w.elements(); ++i)
      half.mutable_data<uint16_t>()[i] = FloatToHalf(w.data<float>()[i]);
    return half;
  }
  QuantParams q = QuantParams::PerTensor(0.0625f, s.weight == DType::kUint8   ? 7
                                                  : s.weight == DType::kUint4 ? 8
                                                                              : 0);
  if (random() % 2 == 0 && !s.transposed) {
    q.axis = 0;
    const int32_t zero = q.zero_points[0];
    q.scales.clear(), q.zero_points.clear();
    for (int64_t i = 0; i < s.channels_out; ++i) {
      q.scales.push_back(0.03125f * static_cast<float>(1 + i % 3));
      q.zero_points.push_back(zero);
    }
  }
  return *QuantizeTensor(w, TensorType(s.weight, shape, q));
}

LinearCaseF32 MakeCase(const Sizes& s, std::mt19937& random) {
  LinearCaseF32 c;
  c.name = s.Name();
  c.kernel = FindKernel(s.transposed ? "conv_transpose_f32" : "conv_f32");
  std::vector<int64_t> x = {s.batch}, y = {s.batch}, pads = s.begin;
  std::vector<int64_t> w = s.transposed ? std::vector{s.channels_in, s.channels_out / s.group}
                                        : std::vector{s.channels_out, s.channels_in / s.group};
  int64_t taps = 1;
  for (size_t i = 0; i < s.in.size(); ++i) {
    x.push_back(s.in[i]), y.push_back(s.Out(i)), w.push_back(s.kernel[i]), pads.push_back(s.end[i]);
    taps *= s.kernel[i];
  }
  x.push_back(s.channels_in), y.push_back(s.channels_out);
  c.attrs.Set("channels_last", 1);
  c.attrs.Set("group", AttrValue(s.group));
  c.attrs.Set("strides", s.stride);
  c.attrs.Set("dilations", s.dilation);
  c.attrs.Set("pads", pads);
  if (s.transposed) c.attrs.Set("output_padding", s.output_padding);
  ActivationToAttrs(s.activation, c.attrs);
  c.output = TensorType(DType::kFloat32, Shape(y));
  c.inputs = {RandomF32(Shape(x), random), RandomWeight(s, Shape(w), random), Tensor(), Tensor()};
  if (s.bias) c.inputs[2] = RandomF32(Shape({s.channels_out}), random);
  if (s.residual) c.inputs[3] = RandomF32(Shape(y), random);
  c.constant = {false, true, true, false};

  const size_t elements = static_cast<size_t>(*c.output.shape.elements());
  std::vector<double> sum(elements), magnitude(elements);
  const Tensor weight = *ToFloat32(c.inputs[1]);
  Reference(s, c.inputs[0].data<float>(), weight.data<float>(), sum, magnitude);
  for (size_t i = 0; i < elements; ++i) {
    double v = sum[i], m = magnitude[i];
    const auto add = [&](float term) { v += term, m += std::fabs(term); };
    if (s.bias) add(c.inputs[2].data<float>()[i % s.channels_out]);
    if (s.residual) add(c.inputs[3].data<float>()[i]);
    ExpectActivated(s.activation, v, m, taps * s.channels_in / s.group, c);
  }
  return c;
}

template <typename T>
T Pick(std::mt19937& random, std::initializer_list<T> values) {
  return values.begin()[random() % values.size()];
}

Sizes RandomSizes(bool transposed, std::mt19937& random) {
  for (;;) {
    Sizes s;
    s.transposed = transposed;
    const int axes = Pick(random, {1, 2, 2, 2, 3});
    s.batch = Pick<int64_t>(random, {1, 1, 1, 2, 0});
    s.group = Pick<int64_t>(random, {1, 1, 1, 2, 3, 8});
    s.channels_in = s.group * Pick<int64_t>(random, {1, 2, 3, 5, 16, 17});
    s.channels_out = s.group * Pick<int64_t>(random, {1, 3, 8, 15, 16, 17, 32, 33, 50});
    bool valid = true;
    for (int i = 0; i < axes; ++i) {
      s.in.push_back(1 + static_cast<int64_t>(random() % (axes == 1 ? 60 : axes == 2 ? 15 : 7)));
      s.kernel.push_back(Pick<int64_t>(random, {1, 1, 2, 3, 3, 5}));
      s.stride.push_back(Pick<int64_t>(random, {1, 1, 2, 3}));
      s.dilation.push_back(Pick<int64_t>(random, {1, 1, 1, 2}));
      s.begin.push_back(static_cast<int64_t>(random() % 3));
      s.end.push_back(static_cast<int64_t>(random() % 3));
      s.output_padding.push_back(transposed ? static_cast<int64_t>(random() % s.stride.back()) : 0);
      const int64_t extent = (s.kernel[i] - 1) * s.dilation[i] + 1;
      valid = valid && s.Out(i) >= 1 && (transposed || s.in[i] + s.begin[i] + s.end[i] >= extent);
    }
    s.bias = random() % 2 == 0;
    s.residual = random() % 3 == 0;
    s.activation = RandomActivation(random);
    s.weight = Pick(random, {DType::kFloat32, DType::kFloat32, DType::kFloat32, DType::kFloat16,
                             DType::kInt8, DType::kUint8, DType::kInt4});
    if (valid) return s;
  }
}

// Some with a weight that is computed.
LinearCaseF32 MakeRandomCase(bool transposed, std::mt19937& random) {
  const Sizes sizes = RandomSizes(transposed, random);
  LinearCaseF32 c = MakeCase(sizes, random);
  c.constant[1] = sizes.weight != DType::kFloat32 || random() % 3 != 0;
  if (!c.constant[1]) c.name += ", computed weight";
  return c;
}

TEST(ConvF32, RandomShapes) {
  std::mt19937 random(1);
  for (int i = 0; i < 220 && !testing::Test::HasFatalFailure(); ++i)
    CheckLinearF32(MakeRandomCase(false, random));
}

TEST(ConvTransposeF32, RandomShapes) {
  std::mt19937 random(2);
  for (int i = 0; i < 120 && !testing::Test::HasFatalFailure(); ++i)
    CheckLinearF32(MakeRandomCase(true, random));
}

Sizes Image(int64_t size, int64_t channels_in, int64_t channels_out, int64_t kernel,
            int64_t stride) {
  Sizes s;
  s.channels_in = channels_in, s.channels_out = channels_out;
  s.in = {size, size}, s.kernel = {kernel, kernel}, s.stride = {stride, stride},
  s.dilation = {1, 1};
  s.begin = s.end = {kernel / 2, kernel / 2};
  s.output_padding = {0, 0};
  s.bias = true;
  s.activation.kind = ActivationKind::kRelu;
  return s;
}

// Every height of the register tile: output pixels 1 to 31; K in several segments; rows 4 KiB
// apart, which are copied.
TEST(ConvF32, TileHeightsAndSegments) {
  std::mt19937 random(3);
  for (int64_t width = 1; width <= 31 && !testing::Test::HasFatalFailure(); ++width) {
    Sizes s = Image(1, 7, 40, 1, 1);
    s.in = {1, width};
    CheckLinearF32(MakeCase(s, random));
  }
  for (const Sizes& s :
       {Image(5, 3, 20, 11, 1), Image(4, 200, 33, 3, 1), Image(4, 1024, 70, 1, 1),
        Image(3, 1300, 18, 3, 1), Image(30, 3, 32, 3, 2), Image(29, 3, 64, 7, 2),
        Image(4, 2048, 50, 1, 2), Image(9, 600, 130, 1, 1), Image(6, 1024, 300, 1, 1)}) {
    CheckLinearF32(MakeCase(s, random));
  }
}

// Inputs of few channels are copied with their border: one that ends outside the taps of the last
// output, one whose only output lies in the border, and axes of one to three dimensions.
TEST(ConvF32, PaddedInputs) {
  std::mt19937 random(9);
  Sizes cut = Image(8, 2, 24, 3, 3), beside = Image(5, 1, 16, 3, 1), after = Image(9, 3, 20, 4, 2);
  cut.batch = 2;
  beside.in = {5, 1}, beside.kernel = {3, 1}, beside.stride = {1, 3};
  beside.begin = {1, 2}, beside.end = {1, 0};
  after.begin = {0, 0}, after.end = {1, 1};
  for (const Sizes& s : {Image(28, 1, 8, 5, 1), cut, beside, after})
    CheckLinearF32(MakeCase(s, random));
  for (int i = 0; i < 120 && !testing::Test::HasFatalFailure(); ++i) {
    Sizes s = RandomSizes(false, random);
    s.group = 1;
    s.channels_in = 1 + static_cast<int64_t>(random() % 4), s.channels_out = 16 + i;
    CheckLinearF32(MakeCase(s, random));
  }
}

// All taps beside one another: lines in one band and in several, a lone line that is cut, every
// number of channels that is added up at once and more.
TEST(ConvF32, TapsBeside) {
  std::mt19937 random(10);
  for (bool transposed : {false, true}) {
    Sizes line = Image(1, 2, 1, 3, 1), bands = Image(61, 3, 3, 3, 2), wide = bands,
          beyond = Image(2, 4, 2, 5, 3), many = Image(20, 3, 1, 17, 1);
    line.in = {20000}, line.kernel = {3}, line.stride = line.dilation = {1};
    line.begin = {2}, line.end = {0}, line.output_padding = {0};
    bands.in[1] = 120, wide.in = {9, 700}, wide.dilation = {1, 2};
    std::vector<Sizes> all = {line, bands, wide, beyond, many};
    while (all.size() < 150) {
      Sizes s = RandomSizes(transposed, random);
      if (s.in.size() > 2) continue;
      s.group = 1;
      s.channels_in = 1 + static_cast<int64_t>(random() % 40);
      s.channels_out = 1 + static_cast<int64_t>(random() % 6);
      all.push_back(s);
    }
    for (Sizes& s : all) {
      s.transposed = transposed;
      LinearCaseF32 c = MakeCase(s, random);
      c.variant = kTapsBeside;
      CheckLinearF32(c);
      if (testing::Test::HasFatalFailure()) return;
    }
  }
}

TEST(ConvF32, ChoosesTapsBesideForFewOutputs) {
  ConvShapeF32 s;
  s.channels_in = 64, s.channels_out = 1;
  s.in = s.out = {1, 224, 224}, s.kernel = {1, 3, 3}, s.pad = {0, 1, 1};
  EXPECT_TRUE(ChooseTapsF32(s, false, ""));
  EXPECT_TRUE(ChooseTapsF32(s, false, kTapsBeside));
  EXPECT_FALSE(ChooseTapsF32(s, false, "direct"));
  // Where a product for each tap is slower and Winograd's method is not.
  s.channels_out = 4;
  EXPECT_TRUE(ChooseTapsF32(s, false, ""));
  EXPECT_FALSE(ChooseTapsF32(s, false, "", true));
  s.channels_out = 1;
  const auto chooses = [&](bool transposed, auto change) {
    ConvShapeF32 changed = s;
    change(changed);
    return ChooseTapsF32(changed, transposed, "");
  };
  EXPECT_TRUE(chooses(true, [](ConvShapeF32& c) { c.stride = {1, 2, 2}, c.kernel = {1, 9, 9}; }));
  EXPECT_FALSE(chooses(false, [](ConvShapeF32& c) { c.channels_out = 16; }));
  EXPECT_FALSE(chooses(false, [](ConvShapeF32& c) { c.kernel = {1, 1, 1}; }));
  EXPECT_FALSE(chooses(false, [](ConvShapeF32& c) { c.group = 2; }));
  EXPECT_FALSE(chooses(false, [](ConvShapeF32& c) { c.kernel = {2, 3, 3}; }));
  EXPECT_FALSE(chooses(false, [](ConvShapeF32& c) { c.stride = {1, 4, 4}, c.out = {1, 56, 56}; }));
  // As few multiply-adds one way as the other: one tap of a phase reaches each pixel.
  EXPECT_FALSE(chooses(true, [](ConvShapeF32& c) { c.channels_out = 128; }));
}

TEST(ConvF32, PadsInputsOfFewChannelsOnly) {
  ConvShapeF32 s;
  s.batch = 1;
  s.channels_in = 1, s.channels_out = 8;
  s.in = s.out = {1, 28, 28}, s.kernel = {1, 3, 3}, s.pad = {0, 1, 1};
  EXPECT_TRUE(PadsInput(s));
  EXPECT_EQ(OverPadded(s).in, (std::array<int64_t, 3>{1, 30, 30}));
  const auto pads = [&](auto change) {
    ConvShapeF32 changed = s;
    change(changed);
    return PadsInput(changed);
  };
  EXPECT_TRUE(pads([](ConvShapeF32& c) { c.pad = {0, 0, 0}; }));  // all of it at the end
  EXPECT_FALSE(pads([](ConvShapeF32& c) { c.pad = {0, 0, 0}, c.out = {1, 26, 26}; }));
  EXPECT_FALSE(pads([](ConvShapeF32& c) { c.pad = {0, -1, 1}; }));
  EXPECT_FALSE(pads([](ConvShapeF32& c) { c.out = {1, 0, 28}; }));
  EXPECT_FALSE(pads([](ConvShapeF32& c) { c.group = 2; }));
  EXPECT_FALSE(pads([](ConvShapeF32& c) { c.channels_in = 9, c.channels_out = 64; }));
  // A copy larger than the output by much, which the cache holds or not.
  EXPECT_TRUE(pads([](ConvShapeF32& c) { c.channels_in = 3, c.channels_out = 5; }));
  EXPECT_FALSE(pads([](ConvShapeF32& c) { c.channels_in = 3, c.channels_out = 5, c.batch = 100; }));
}

// Narrow groups share a panel of 16 columns; the last panel is not full, and 9 x 9 taps make two
// segments.
TEST(ConvF32, NarrowGroups) {
  std::mt19937 random(8);
  for (int64_t columns : {1, 2, 4, 8}) {
    for (int64_t depth = 1; depth <= columns + 1 && !testing::Test::HasFatalFailure(); ++depth) {
      for (int64_t groups : {2, 5, 8, 16}) {
        Sizes s =
            Image(9, groups * depth, groups * columns, depth == columns ? 9 : 3, 1 + groups % 2);
        s.group = groups;
        s.residual = groups == 5;
        CheckLinearF32(MakeCase(s, random));
      }
    }
  }
}

// auto_pad and output_shape give the pads that their explicit form has.
TEST(ConvF32, AutoPad) {
  std::mt19937 random(6);
  struct Case {
    bool transposed;
    const char* auto_pad;
    int64_t begin, end;
  };
  // Conv: 7 to 4 with kernel 4 and stride 2 needs 3. ConvTranspose: 7 to 14 with kernel 5 and
  // stride 2 has 3 too many.
  for (const Case& t : {Case{false, "SAME_UPPER", 1, 2}, Case{false, "SAME_LOWER", 2, 1},
                        Case{false, "VALID", 0, 0}, Case{true, "SAME_UPPER", 1, 2},
                        Case{true, "SAME_LOWER", 2, 1}, Case{true, "NOTSET", 2, 1}}) {
    Sizes s = Image(7, 3, 20, t.transposed ? 5 : 4, 2);
    s.transposed = t.transposed;
    s.begin = {t.begin, t.begin}, s.end = {t.end, t.end};
    LinearCaseF32 c = MakeCase(s, random);
    c.name += t.auto_pad;
    c.attrs.Erase("pads");
    c.attrs.Set("auto_pad", t.auto_pad);
    if (t.transposed) c.attrs.Set("output_shape", std::vector<int64_t>{14, 14});
    CheckLinearF32(c);
  }
}

TEST(ConvF32, RejectsWithAReason) {
  std::mt19937 random(4);
  LinearCaseF32 c = MakeCase(Image(4, 3, 8, 3, 1), random);
  std::vector<TensorType> types;
  std::vector<const Tensor*> constants(4);
  for (const Tensor& t : c.inputs) types.push_back(t.type());
  constants[1] = &c.inputs[1];
  const auto code = [&] {
    const auto why =
        c.kernel->reject(KernelCall{"Conv", c.attrs, types, {&c.output, 1}, constants});
    return std::string(why ? why->code : "");
  };
  EXPECT_EQ(code(), "");
  constants[1] = nullptr;
  EXPECT_EQ(code(), "");
  types[1].dtype = DType::kFloat16;
  EXPECT_EQ(code(), "not-constant");
  types[1].dtype = DType::kFloat32;
  constants[1] = &c.inputs[1];
  c.attrs.Set("channels_last", 0);
  EXPECT_EQ(code(), "layout");
  c.attrs.Set("channels_last", 1);
  c.attrs.Set("activation", "Sine");
  EXPECT_EQ(code(), "attribute");
  c.attrs.Erase("activation");
  c.attrs.Set("group", 2);
  EXPECT_EQ(code(), "shape");
  c.attrs.Set("group", 1);
  types[0].dtype = DType::kUint8;
  EXPECT_EQ(code(), "types");
}

// The product of these strides is 4 modulo 2^64.
TEST(ConvTransposeF32, RejectsMorePhasesThanItCounts) {
  const Tensor w = Tensor::Allocate(TensorType(DType::kFloat32, Shape{1, 1, 2, 2, 2}));
  const std::vector<TensorType> types = {TensorType(DType::kFloat32, Shape{1, 1, 1, 1, 1}),
                                         w.type()};
  const TensorType y(DType::kFloat32, Shape{1, 2, 2, 2, 1});
  const std::vector<const Tensor*> constants = {nullptr, &w};
  for (const int64_t stride : {int64_t{1}, int64_t{1} << 22}) {
    Attrs attrs;
    attrs.Set("channels_last", 1);
    attrs.Set("strides", std::vector<int64_t>{stride, stride, stride});
    const auto why = FindKernel("conv_transpose_f32")
                         ->reject(KernelCall{"ConvTranspose", attrs, types, {&y, 1}, constants});
    EXPECT_EQ(why ? why->code : "", std::string(stride == 1 ? "" : "attribute")) << stride;
  }
}

TEST(LayoutF32, RoundTrip) {
  std::mt19937 random(5);
  for (const char* name : {"k1n16-conv-f32", "k1n16-convtranspose-f32", "k1n16-matmul-f32"}) {
    const LayoutDef* layout = FindLayout(name);
    ASSERT_NE(layout, nullptr) << name;
    for (const Shape& shape : {Shape{1, 1, 1}, Shape{16, 3, 3, 3}, Shape{17, 5, 2},
                               Shape{33, 31, 1, 2, 3}, Shape{0, 4, 3}, Shape{3, 0, 2}, Shape{1, 1},
                               Shape{5, 15}, Shape{7, 16}, Shape{9, 17}, Shape{0, 3}}) {
      const Tensor plain = RandomF32(shape, random);
      const auto packed = layout->pack(plain);
      ASSERT_EQ(packed.has_value(),
                (shape.rank() == 2) == (std::string(name) == "k1n16-matmul-f32"));
      if (!packed) continue;
      EXPECT_EQ(packed->layout(), name);
      EXPECT_EQ(static_cast<int64_t>(packed->bytes()), *layout->bytes(plain.type()));
      const auto back = ToPlain(*packed);
      ASSERT_TRUE(back);
      EXPECT_TRUE(BitEqual(plain, *back)) << name << " " << shape.ToString();
    }
    EXPECT_FALSE(layout->bytes(TensorType(DType::kInt8, Shape{4, 4, 3, 3})));
    EXPECT_FALSE(
        layout->bytes(TensorType(DType::kFloat32, Shape{int64_t{1} << 40, int64_t{1} << 40, 3})));
  }
}

}  // namespace
}  // namespace evoq
