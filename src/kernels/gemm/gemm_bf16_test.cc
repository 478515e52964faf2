#include "kernels/gemm/gemm_bf16.h"

#include "kernels/conv/conv_ways.h"
#include "kernels/conv/tap_sums.h"
#include "kernels/gemm/linear_bf16_testing.h"
#include "kernels/layout.h"

namespace evoq {
extern const KernelDef kMatMulBf16, kConvBf16, kConvTransposeBf16;
namespace {

template <typename T>
T Pick(std::mt19937& random, std::initializer_list<T> values) {
  return values.begin()[random() % values.size()];
}

// y[i, m, n] for batches of a that are b's, or one b for all.
LinearCaseBf16 MakeMatMul(int64_t batch, bool b_batched, bool constant, int64_t m, int64_t k,
                          int64_t n, std::mt19937& random) {
  LinearCaseBf16 c;
  c.call.op = "MatMul";
  const Tensor a = RandomBf16(batch > 0 ? Shape{batch, m, k} : Shape{m, k}, random);
  const Tensor b = RandomBf16(b_batched ? Shape{batch, k, n} : Shape{k, n}, random);
  c.call.inputs = {a, b};
  c.call.is_constant = {false, constant};
  AddExtras(batch > 0 ? Shape{batch, m, n} : Shape{m, n}, n, random, c);
  for (int64_t i = 0; i < std::max<int64_t>(batch, 1) * m; ++i) {
    const int64_t from = b_batched ? i / m * k * n : 0;
    for (int64_t j = 0; j < n; ++j) {
      double sum = 0, magnitude = 0;
      for (int64_t l = 0; l < k; ++l) {
        const double product = At(a, i * k + l) * At(b, from + l * n + j);
        sum += product, magnitude += std::fabs(product);
      }
      Expect(c, i * n + j, sum, magnitude, k, j);
    }
  }
  return c;
}

TEST(MatMulBf16, RandomShapes) {
  std::mt19937 random(1);
  for (int i = 0; i < 160 && !testing::Test::HasFatalFailure(); ++i) {
    const int64_t batch = Pick<int64_t>(random, {0, 0, 1, 2, 5});
    const bool constant = random() % 2 == 0, batched = !constant && batch > 0 && random() % 2 == 0;
    const int64_t m = Pick<int64_t>(random, {0, 1, 1, 2, 6, 7, 14, 15, 29, 40}),
                  k = Pick<int64_t>(random, {0, 1, 2, 3, 16, 31, 64, 97});
    const int64_t n = Pick<int64_t>(random, {1, 2, 15, 16, 17, 32, 33, 64, 65, 100});
    CheckLinearBf16(kMatMulBf16, MakeMatMul(batch, batched, constant, m, k, n, random),
                    fmt::format("case {}: {} x {} x {} x {}", i, batch, m, k, n));
  }
}

// K in several segments, even and odd, with few and many rows; rows 4 KiB apart, which are copied;
// a cut K with an activation that waits for the whole sum.
TEST(MatMulBf16, LongSums) {
  std::mt19937 random(2);
  for (int64_t k : {1280, 1281, 1295, 2048, 2600, 4001}) {
    for (int64_t m : {1, 5, 15, 30}) {
      for (int64_t n : {16, 40, 130})
        CheckLinearBf16(kMatMulBf16, MakeMatMul(0, false, true, m, k, n, random),
                        fmt::format("{} x {} x {}", m, k, n));
    }
  }
}

// Few rows are summed in one go as far as there is room for what they are widened to.
TEST(MatMulBf16, FewRowsOfALongK) {
  std::mt19937 random(10);
  for (const auto& [m, k] : {std::pair<int64_t, int64_t>{1, 70000}, {6, 12000}, {10, 4001}})
    CheckLinearBf16(kMatMulBf16, MakeMatMul(0, false, true, m, k, 20, random),
                    fmt::format("{} x {}", m, k));
}

struct ConvSizes {
  bool transposed = false;
  int64_t batch = 1, channels_in = 1, channels_out = 1, group = 1;
  std::vector<int64_t> in, kernel, stride, dilation, pad;

  int64_t Out(size_t i) const {
    const int64_t extent = (kernel[i] - 1) * dilation[i] + 1;
    if (transposed) return (in[i] - 1) * stride[i] + extent - 2 * pad[i];
    return in[i] + 2 * pad[i] < extent ? 0 : (in[i] + 2 * pad[i] - extent) / stride[i] + 1;
  }
};

Shape ChannelsLast(int64_t batch, const std::vector<int64_t>& spatial, int64_t channels) {
  std::vector<int64_t> sizes = {batch};
  sizes.insert(sizes.end(), spatial.begin(), spatial.end());
  sizes.push_back(channels);
  return Shape(sizes);
}

// Scatters every product of an input pixel, a tap and two channels to its output element.
LinearCaseBf16 MakeConv(const ConvSizes& s, std::mt19937& random) {
  const size_t axes = s.in.size();
  std::vector<int64_t> out, w_sizes = {s.transposed ? s.channels_in : s.channels_out,
                                       (s.transposed ? s.channels_out : s.channels_in) / s.group};
  for (size_t i = 0; i < axes; ++i) out.push_back(s.Out(i)), w_sizes.push_back(s.kernel[i]);
  LinearCaseBf16 c;
  c.call.op = s.transposed ? "ConvTranspose" : "Conv";
  const Tensor x = RandomBf16(ChannelsLast(s.batch, s.in, s.channels_in), random),
               w = RandomBf16(Shape(w_sizes), random);
  c.call.inputs = {x, w};
  c.call.is_constant = {false, true};
  std::vector<int64_t> pads = s.pad;
  pads.insert(pads.end(), s.pad.begin(), s.pad.end());
  for (const auto& [name, values] :
       {std::pair{"strides", s.stride}, {"dilations", s.dilation}, {"pads", pads}})
    c.call.attrs.Set(name, values);
  c.call.attrs.Set("group", s.group);
  c.call.attrs.Set("channels_last", 1);
  const Shape y = ChannelsLast(s.batch, out, s.channels_out);
  AddExtras(y, s.channels_out, random, c);
  std::vector<double> sums(*y.elements()), magnitudes(*y.elements());
  int64_t pixels = 1, taps = 1;
  for (size_t i = 0; i < axes; ++i) pixels *= s.in[i], taps *= s.kernel[i];
  const int64_t depth = s.channels_in / s.group, columns = s.channels_out / s.group;
  for (int64_t pixel = 0; pixel < s.batch * pixels; ++pixel) {
    for (int64_t tap = 0; tap < taps; ++tap) {
      int64_t at = pixel, t = tap, to = 0, step = 1;
      bool inside = true;
      for (size_t i = axes; i-- > 0; at /= s.in[i], t /= s.kernel[i]) {
        const int64_t moved =
            s.transposed ? at % s.in[i] * s.stride[i] + t % s.kernel[i] * s.dilation[i] - s.pad[i]
                         : at % s.in[i] - t % s.kernel[i] * s.dilation[i] + s.pad[i];
        const int64_t stride = s.transposed ? 1 : s.stride[i];
        inside = inside && moved >= 0 && moved % stride == 0 && moved / stride < out[i];
        to += moved / stride * step, step *= out[i];
      }
      if (!inside) continue;
      to = (at * step + to) * s.channels_out;
      for (int64_t ci = 0; ci < s.channels_in; ++ci) {
        const int64_t g = ci / depth;
        for (int64_t co = g * columns; co < (g + 1) * columns; ++co) {
          const int64_t wi = s.transposed ? ci * columns + co % columns : co * depth + ci % depth;
          const double product = At(x, pixel * s.channels_in + ci) * At(w, wi * taps + tap);
          sums[to + co] += product, magnitudes[to + co] += std::fabs(product);
        }
      }
    }
  }
  for (size_t i = 0; i < sums.size(); ++i)
    Expect(c, static_cast<int64_t>(i), sums[i], magnitudes[i], taps * depth,
           static_cast<int64_t>(i) % s.channels_out);
  return c;
}

ConvSizes RandomConv(bool transposed, std::mt19937& random) {
  for (;;) {
    ConvSizes s;
    s.transposed = transposed;
    const int axes = Pick(random, {1, 2, 2, 2, 3});
    s.batch = Pick<int64_t>(random, {1, 1, 2, 0});
    s.group = Pick<int64_t>(random, {1, 1, 1, 2, 3, 8});
    s.channels_in = s.group * (transposed ? Pick<int64_t>(random, {2, 4, 6, 16, 34})
                                          : Pick<int64_t>(random, {1, 2, 3, 4, 5, 16, 17}));
    s.channels_out = s.group * Pick<int64_t>(random, {1, 3, 8, 15, 16, 17, 32, 50});
    bool valid = true;
    for (int i = 0; i < axes; ++i) {
      s.in.push_back(1 + static_cast<int64_t>(random() % (axes == 1 ? 60 : axes == 2 ? 15 : 7)));
      s.kernel.push_back(Pick<int64_t>(random, {1, 1, 2, 3, 3, 5}));
      s.stride.push_back(Pick<int64_t>(random, {1, 1, 2, 3}));
      s.dilation.push_back(Pick<int64_t>(random, {1, 1, 1, 2}));
      s.pad.push_back(static_cast<int64_t>(random() % 3));
      valid = valid && s.Out(i) >= 1;
    }
    if (valid) return s;
  }
}

std::string Label(const ConvSizes& s) {
  return fmt::format("{} {} {}>{} group {} in {} kernel {} stride {} dilation {} pad {}",
                     s.transposed ? "transposed" : "conv", s.batch, s.channels_in, s.channels_out,
                     s.group, fmt::join(s.in, "x"), fmt::join(s.kernel, "x"),
                     fmt::join(s.stride, "x"), fmt::join(s.dilation, "x"), fmt::join(s.pad, "x"));
}

TEST(ConvBf16, RandomShapes) {
  std::mt19937 random(3);
  for (int i = 0; i < 180 && !testing::Test::HasFatalFailure(); ++i) {
    const ConvSizes s = RandomConv(false, random);
    CheckLinearBf16(kConvBf16, MakeConv(s, random), Label(s));
  }
}

TEST(ConvTransposeBf16, RandomShapes) {
  std::mt19937 random(4);
  for (int i = 0; i < 80 && !testing::Test::HasFatalFailure(); ++i) {
    const ConvSizes s = RandomConv(true, random);
    CheckLinearBf16(kConvTransposeBf16, MakeConv(s, random), Label(s));
  }
}

ConvSizes Image(int64_t size, int64_t channels_in, int64_t channels_out, int64_t kernel,
                int64_t stride) {
  ConvSizes s;
  s.channels_in = channels_in, s.channels_out = channels_out;
  s.in = {size, size}, s.kernel = {kernel, kernel}, s.stride = {stride, stride},
  s.dilation = {1, 1};
  s.pad = {kernel / 2, kernel / 2};
  return s;
}

// Every height of the register tile; first layers, whose rows are copied; K in several segments,
// also of an odd depth.
TEST(ConvBf16, TileHeightsAndSegments) {
  std::mt19937 random(5);
  for (int64_t width = 1; width <= 31 && !testing::Test::HasFatalFailure(); ++width) {
    ConvSizes s = Image(1, 6, 40, 1, 1);
    s.in = {1, width};
    CheckLinearBf16(kConvBf16, MakeConv(s, random), Label(s));
  }
  for (const ConvSizes& s :
       {Image(5, 3, 20, 11, 1), Image(4, 200, 33, 3, 1), Image(4, 2048, 70, 1, 1),
        Image(3, 1300, 18, 3, 1), Image(30, 3, 32, 3, 2), Image(29, 3, 64, 7, 2),
        Image(4, 2048, 50, 1, 2), Image(5, 201, 35, 3, 1)}) {
    CheckLinearBf16(kConvBf16, MakeConv(s, random), Label(s));
  }
  // An odd depth whose 27 taps are cut into copies, in images of 2 x 5 x 4 pixels and borders on
  // each side.
  ConvSizes s = Image(4, 77, 20, 3, 1);
  s.in = {2, 5, 4};
  s.kernel = {3, 3, 3}, s.stride = {1, 1, 1}, s.dilation = {1, 1, 1}, s.pad = {1, 1, 1};
  CheckLinearBf16(kConvBf16, MakeConv(s, random), Label(s));
}

// All taps beside one another, also of transposed convolutions, in one band and in several.
TEST(ConvBf16, TapsBeside) {
  std::mt19937 random(11);
  for (int i = 0; i < 100 && !testing::Test::HasFatalFailure();) {
    ConvSizes s = RandomConv(i % 2 == 1, random);
    if (s.in.size() > 2) continue;
    s.group = 1;
    s.channels_in = 2 * (1 + static_cast<int64_t>(random() % 20));
    s.channels_out = 1 + static_cast<int64_t>(random() % 6);
    if (i % 10 == 0) s.in[0] = 300;
    const KernelDef& kernel = s.transposed ? kConvTransposeBf16 : kConvBf16;
    LinearCaseBf16 c = MakeConv(s, random);
    c.call.variant = kTapsBeside;
    CheckLinearBf16(kernel, c, Label(s));
    ++i;
  }
}

// Where float32 is faster by another way than summing all taps, so is bfloat16.
TEST(ConvBf16, TakesTheWaysOfFloat32) {
  std::mt19937 random(12);
  const auto method = [&](ConvSizes s, Isa isa) {
    const KernelDef& kernel = s.transposed ? kConvTransposeBf16 : kConvBf16;
    s.in = {24, 24};
    return Bind(kernel, MakeConv(s, random).call, isa, 1).bound.plan.method;
  };
  ConvSizes last = Image(24, 64, 1, 3, 1), up = Image(24, 64, 1, 9, 2);
  up.transposed = true;
  for (Isa isa : TestIsas()) {
    const int speed = RowFor(kGemmRowsBf16, isa).table->speed;
    SCOPED_TRACE(IsaName(isa));
    EXPECT_EQ(method(Image(24, 3, 16, 3, 2), isa), kInFloat32);
    if (speed > 2) continue;
    EXPECT_EQ(method(Image(24, 64, 64, 3, 1), isa), "winograd 4x4");
    EXPECT_EQ(method(Image(24, 64, 64, 3, 2), isa), "");
    EXPECT_EQ(method(Image(24, 3, 64, 7, 2), isa), speed == 1 ? kInFloat32 : "");
    EXPECT_EQ(method(last, isa), kTapsBeside);
    EXPECT_EQ(method(up, isa), kTapsBeside);
  }
}

#if defined(__x86_64__)
// What is multiplied in float32 is so in one order, whatever the tiles and the segments of K.
TEST(LinearBf16, Avx2AndAvx512GiveTheSameBits) {
  if (!IsaSupported(Isa::kAvx512)) GTEST_SKIP() << "no AVX-512";
  std::mt19937 random(9);
  const auto check = [](const KernelDef& kernel, const LinearCaseBf16& c,
                        const std::string& label) {
    EXPECT_EQ(FirstDifference(RunKernel(kernel, c.call, Isa::kAvx512, 1)[0],
                              RunKernel(kernel, c.call, Isa::kAvx2, 1)[0]),
              "")
        << label;
  };
  for (int64_t m : {1, 6, 9, 15, 40}) {
    for (int64_t k : {7, 64, 1030, 4100})
      check(kMatMulBf16, MakeMatMul(0, false, true, m, k, 70, random),
            fmt::format("{} x {}", m, k));
  }
  for (const ConvSizes& s :
       {Image(9, 34, 40, 3, 1), Image(9, 5, 20, 3, 2), Image(4, 2048, 16, 1, 1)})
    check(kConvBf16, MakeConv(s, random), Label(s));
}
#endif

TEST(LinearBf16, RejectsWithAReason) {
  std::mt19937 random(6);
  LinearCaseBf16 c = MakeConv(Image(4, 3, 8, 3, 1), random);
  const auto code = [](const KernelDef& kernel, const TestCall& call) {
    const auto why = RejectOf(kernel, call);
    return std::string(why ? why->code : "");
  };
  EXPECT_EQ(code(kConvBf16, c.call), "");
  TestCall call = c.call;
  call.is_constant[1] = false;
  EXPECT_EQ(code(kConvBf16, call), "not-constant");
  call = c.call;
  call.inputs[0] = RandomF32(call.inputs[0].shape(), random);
  EXPECT_EQ(code(kConvBf16, call), "types");
  call = c.call;
  call.attrs.Set("channels_last", 0);
  EXPECT_EQ(code(kConvBf16, call), "layout");
  ConvSizes odd = Image(4, 3, 8, 3, 1);
  odd.transposed = true;
  EXPECT_EQ(code(kConvTransposeBf16, MakeConv(odd, random).call), "shape");
  call = MakeMatMul(2, true, false, 3, 4, 5, random).call;
  EXPECT_EQ(code(kMatMulBf16, call), "");
  call.is_constant[1] = true;
  EXPECT_EQ(code(kMatMulBf16, call), "shape");
}

TEST(LayoutBf16, RoundTrip) {
  std::mt19937 random(7);
  for (const char* name : {"k2n16-conv-bf16", "k2n16-convtranspose-bf16", "k2n16-matmul-bf16"}) {
    const LayoutDef* layout = FindLayout(name);
    ASSERT_NE(layout, nullptr) << name;
    for (const Shape& shape : {Shape{1, 1, 1}, Shape{16, 3, 3, 3}, Shape{17, 5, 2},
                               Shape{33, 31, 1, 2, 3}, Shape{0, 4, 3}, Shape{3, 0, 2}, Shape{1, 1},
                               Shape{5, 15}, Shape{7, 16}, Shape{9, 17}, Shape{0, 3}}) {
      const Tensor plain = RandomBf16(shape, random);
      const auto packed = layout->pack(plain);
      ASSERT_EQ(packed.has_value(),
                (shape.rank() == 2) == (std::string(name) == "k2n16-matmul-bf16"));
      if (!packed) continue;
      EXPECT_EQ(static_cast<int64_t>(packed->bytes()), *layout->bytes(plain.type()));
      const auto back = ToPlain(*packed);
      ASSERT_TRUE(back);
      EXPECT_TRUE(BitEqual(plain, *back)) << name << " " << shape.ToString();
    }
    EXPECT_FALSE(layout->bytes(TensorType(DType::kFloat32, Shape{4, 4, 3, 3})));
    EXPECT_FALSE(
        layout->bytes(TensorType(DType::kBfloat16, Shape{int64_t{1} << 40, int64_t{1} << 40, 3})));
  }
}

// Every bit pattern widens and narrows as tensor/dtype.h says.
TEST(Bf16Rows, WidenAndNarrow) {
  std::vector<uint16_t> all(65536), back(65536);
  std::vector<float> wide(65536);
  for (size_t i = 0; i < all.size(); ++i) all[i] = static_cast<uint16_t>(i);
  std::mt19937 random(8);
  std::vector<float> floats(65536);
  for (float& f : floats) f = __builtin_bit_cast(float, static_cast<uint32_t>(random()));
  for (Isa isa : TestIsas()) {
    Bf16TableFor(isa).widen(all.data(), wide.data(), 65536);
    for (size_t i = 0; i < all.size(); ++i) {
      const float want = Bfloat16ToFloat(all[i]);
      ASSERT_EQ(std::memcmp(&wide[i], &want, 4), 0) << i;
    }
    for (const std::vector<float>* x : {&wide, &floats}) {
      Bf16TableFor(isa).narrow(x->data(), back.data(), 65536);
      for (size_t i = 0; i < x->size(); ++i)
        ASSERT_EQ(back[i], FloatToBfloat16((*x)[i])) << IsaName(isa) << " " << (*x)[i];
    }
  }
}

}  // namespace
}  // namespace evoq
