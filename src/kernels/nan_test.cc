// NaN, infinities and -0 through every float kernel that compares: a NaN in gives a NaN out, as
// ONNX has it, on every instruction set, in the body of vectors and in their tails, fused behind a
// sum or alone. What is expected is written down here, not computed by the code under test.
#include <cmath>
#include <limits>

#include "kernels/gemm/linear_f32_testing.h"
#include "kernels/math/unary.h"
#include "kernels/test_util.h"

namespace evoq {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN(),
                kInf = std::numeric_limits<float>::infinity();

Tensor AsType(const Tensor& x, DType dtype) {
  if (dtype == DType::kFloat32) return x;
  Tensor y = Tensor::Allocate(TensorType(dtype, x.shape()));
  for (int64_t i = 0; i < x.elements(); ++i)
    y.mutable_data<uint16_t>()[i] = FloatToBfloat16(x.data<float>()[i]);
  return y;
}

float At(const Tensor& x, int64_t i) {
  return x.dtype() == DType::kBfloat16 ? Bfloat16ToFloat(x.data<uint16_t>()[i])
                                       : x.data<float>()[i];
}

Tensor Filled(const Shape& shape, float value) {
  return Tensor::FromValues<float>(
      shape, std::vector<float>(static_cast<size_t>(*shape.elements()), value));
}

// A body of whole vectors, an odd tail, less than a vector, one element.
constexpr int64_t kLengths[] = {1, 7, 16, 67, 300};

// The places of a row that a test makes NaN: first, last, and one of a vector's body.
std::vector<int64_t> PlacesOf(int64_t n) { return {0, n / 2, n - 1}; }

// Every unary operator: NaN gives NaN, but for the two that ONNX defines as 0 where no comparison
// holds.
TEST(Nan, PassesEveryUnaryKernel) {
  for (int kind = 0; kind <= static_cast<int>(UnaryKind::kThresholdedRelu); ++kind) {
    const std::string op = UnaryOpName(static_cast<UnaryKind>(kind));
    const bool zero = op == "Shrink" || op == "ThresholdedRelu";
    for (DType dtype : {DType::kFloat32, DType::kBfloat16}) {
      const KernelDef& kernel = *FindKernel(op + (dtype == DType::kFloat32 ? "_f32" : "_bf16"));
      for (int64_t n : kLengths) {
        for (int64_t place : PlacesOf(n)) {
          Tensor x = Filled(Shape{n}, op == "Acosh" ? 1.5f : 0.5f);
          x.mutable_data<float>()[place] = kNan;
          TestCall t{op, {}, {AsType(x, dtype)}, {}, {TensorType(dtype, Shape{n})}};
          if (op == "Clip") {
            t.inputs.push_back(AsType(Filled(Shape{}, -1), dtype));
            t.inputs.push_back(AsType(Filled(Shape{}, 2), dtype));
          }
          for (Isa isa : TestIsas()) {
            const Tensor y = RunKernel(kernel, t, isa)[0];
            for (int64_t i = 0; i < n; ++i) {
              const bool wanted = i == place && !zero;
              ASSERT_EQ(std::isnan(At(y, i)), wanted) << kernel.name << " " << IsaName(isa) << " n "
                                                      << n << " element " << i << " " << At(y, i);
            }
            if (zero) ASSERT_EQ(At(y, place), 0.0f) << kernel.name;
          }
        }
      }
    }
  }
}

struct Piecewise {
  const char* op;
  std::vector<float> want;  // of kSpecials
};
constexpr float kSpecials[] = {-kInf, -8, -2, -0.0f, 0.0f, 1, 8, kInf};
const Piecewise kPiecewise[] = {
    {"Relu", {0, 0, 0, -0.0f, 0, 1, 8, kInf}},
    {"Clip", {-1, -1, -1, -0.0f, 0, 1, 6, 6}},                 // bounds -1 and 6
    {"LeakyRelu", {-kInf, -4, -1, -0.0f, 0, 1, 8, kInf}},      // alpha 0.5
    {"HardSigmoid", {0, 0, 0.25f, 0.5f, 0.5f, 0.625f, 1, 1}},  // alpha 0.125, beta 0.5
    {"HardSwish",
     {kNan, 0, -2 * (-2 / 6.0f + 0.5f), 0, 0, 1 / 6.0f + 0.5f, 8, kInf}},  // -inf * 0 is NaN
};

// Special values by hand, at every place of a row.
TEST(Nan, SpecialValuesOfPiecewiseLinearOperators) {
  for (const Piecewise& p : kPiecewise) {
    for (int64_t n : kLengths) {
      Tensor x = Tensor::Allocate(TensorType(DType::kFloat32, Shape{n})), want = x.Clone();
      for (int64_t i = 0; i < n; ++i) {
        x.mutable_data<float>()[i] = kSpecials[i % 8];
        want.mutable_data<float>()[i] = p.want[static_cast<size_t>(i % 8)];
      }
      TestCall t{p.op, {}, {x}, {}, {x.type()}};
      t.attrs.Set("alpha", std::string(p.op) == "HardSigmoid" ? 0.125f : 0.5f);
      t.attrs.Set("beta", 0.5f);
      if (t.op == "Clip") t.inputs = {x, Filled(Shape{}, -1), Filled(Shape{}, 6)};
      for (Isa isa : TestIsas()) {
        const Tensor y = RunKernel(*FindKernel(t.op + "_f32"), t, isa)[0];
        for (int64_t i = 0; i < n; ++i) {
          const float got = y.data<float>()[i], expected = want.data<float>()[i];
          if (std::isnan(expected)) {
            ASSERT_TRUE(std::isnan(got))
                << t.op << " " << IsaName(isa) << " " << x.data<float>()[i] << " " << got;
            continue;
          }
          ASSERT_EQ(got, expected) << t.op << " " << IsaName(isa) << " " << x.data<float>()[i];
          // Clip, Relu and LeakyRelu leave what is inside as it is, a zero's sign too.
          if (t.op != "HardSwish")
            ASSERT_EQ(std::signbit(got), std::signbit(expected))
                << t.op << " " << IsaName(isa) << " " << x.data<float>()[i];
        }
      }
    }
  }
}

// A missing bound bounds nothing, and a NaN passes beside it.
TEST(Nan, ClipWithMissingBounds) {
  const Tensor x = Tensor::FromValues<float>(Shape{5}, {kNan, -kInf, -3, 3, kInf});
  const float want[3][5] = {
      {kNan, -kInf, -3, 3, kInf}, {kNan, -1, -1, 3, kInf}, {kNan, -kInf, -3, 2, 2}};
  for (int given = 0; given < 3; ++given) {
    TestCall t{"Clip", {}, {x}, {}, {x.type()}};
    if (given == 1) t.inputs = {x, Filled(Shape{}, -1)};
    if (given == 2) t.inputs = {x, Tensor(), Filled(Shape{}, 2)};
    for (Isa isa : TestIsas()) {
      const Tensor y = RunKernel(*FindKernel("Clip_f32"), t, isa)[0];
      EXPECT_TRUE(std::isnan(y.data<float>()[0])) << given;
      for (int i = 1; i < 5; ++i)
        EXPECT_EQ(y.data<float>()[i], want[given][i]) << given << " " << i;
    }
  }
}

// Both sides, both orders, broadcast or not.
TEST(Nan, PassesEveryBinaryKernel) {
  for (const char* op : {"Add", "Sub", "Mul", "Div", "Max", "Min", "PRelu"}) {
    std::string name = op;
    for (char& c : name) c = static_cast<char>(std::tolower(c));
    for (DType dtype : {DType::kFloat32, DType::kBfloat16}) {
      const KernelDef& kernel = *FindKernel(name + (dtype == DType::kFloat32 ? "_f32" : "_bf16"));
      for (int64_t n : kLengths) {
        for (int64_t place : PlacesOf(n)) {
          for (int side :
               {0, 1, 2, 3}) {  // NaN in a, in b, in both, in a b that all elements share
            Tensor a = Filled(Shape{n}, -2), b = Filled(side == 3 ? Shape{1} : Shape{n}, 3);
            if (side != 1 && side != 3) a.mutable_data<float>()[place] = kNan;
            if (side == 1 || side == 2) b.mutable_data<float>()[place] = kNan;
            if (side == 3) b.mutable_data<float>()[0] = kNan;
            const TestCall t{
                op, {}, {AsType(a, dtype), AsType(b, dtype)}, {}, {TensorType(dtype, Shape{n})}};
            for (Isa isa : TestIsas()) {
              const Tensor y = RunKernel(kernel, t, isa)[0];
              for (int64_t i = 0; i < n; ++i)
                ASSERT_EQ(std::isnan(At(y, i)), side == 3 || i == place)
                    << kernel.name << " " << IsaName(isa) << " side " << side << " n " << n
                    << " element " << i;
            }
          }
        }
      }
    }
  }
}

const Activation kFused[] = {
    {ActivationKind::kNone, 0, 0},      {ActivationKind::kRelu, 0, 0},
    {ActivationKind::kClip, -1, 6},     {ActivationKind::kLeakyRelu, 0.5f, 0},
    {ActivationKind::kHardSwish, 0, 0}, {ActivationKind::kSilu, 0, 0},
    {ActivationKind::kSigmoid, 0, 0},   {ActivationKind::kTanh, 0, 0},
    {ActivationKind::kGelu, 0, 0}};

// `t` (with a residual as input 3, as the output) gives NaN exactly where the residual is NaN, for
// a few places of a row of n.
void ExpectNanWhereResidualIs(const KernelDef& kernel, TestCall t, int64_t n,
                              const std::string& variant = "") {
  const int64_t elements = *t.outputs[0].shape.elements();
  Tensor residual = Filled(t.outputs[0].shape, 0.25f);
  std::vector<bool> nan(static_cast<size_t>(elements), false);
  for (int64_t row = 0; row < elements / n; ++row) {
    for (int64_t place : PlacesOf(n)) {
      const int64_t at = row * n + (place + row) % n;
      nan[static_cast<size_t>(at)] = true;
      residual.mutable_data<float>()[at] = kNan;
    }
  }
  t.inputs[3] = AsType(
      residual, t.inputs[0].dtype() == DType::kBfloat16 ? DType::kBfloat16 : DType::kFloat32);
  for (const Activation& activation : kFused) {
    t.attrs.Erase("activation");
    ActivationToAttrs(activation, t.attrs);
    if (const auto why = RejectOf(kernel, t)) {
      ASSERT_EQ(std::string(why->code), "attribute")
          << kernel.name << ": " << why->sentence;  // integer kernels fuse piecewise-linear ones
      ASSERT_FALSE(IsPiecewiseLinear(activation.kind)) << kernel.name << ": " << why->sentence;
      continue;
    }
    for (Isa isa : TestIsas()) {
      Tensor y;
      if (variant.empty()) {
        y = RunKernel(kernel, t, isa)[0];
      } else {
        const LinearCaseF32 c{.name = kernel.name,
                              .kernel = &kernel,
                              .attrs = t.attrs,
                              .inputs = t.inputs,
                              .constant = t.is_constant,
                              .output = t.outputs[0],
                              .variant = variant};
        y = Tensor::FromValues<float>(t.outputs[0].shape, RunLinearF32(c, isa, 1));
      }
      for (int64_t i = 0; i < elements; ++i) {
        ASSERT_EQ(std::isnan(At(y, i)), nan[static_cast<size_t>(i)])
            << kernel.name << " " << variant << " " << IsaName(isa) << " '"
            << ActivationName(activation.kind) << "' n " << n << " element " << i << " "
            << At(y, i);
      }
    }
  }
}

TestCall ConvCall(const std::string& op, const Tensor& x, const Tensor& w, const Shape& y,
                  int64_t group, int64_t pad) {
  TestCall t{op,
             {},
             {x, w, Tensor(), Tensor()},
             {false, true, true, false},
             {TensorType(x.dtype() == DType::kBfloat16 ? DType::kBfloat16 : DType::kFloat32, y)}};
  t.attrs.Set("channels_last", 1);
  t.attrs.Set("group", AttrValue(group));
  t.attrs.Set("strides", std::vector<int64_t>{1, 1});
  t.attrs.Set("dilations", std::vector<int64_t>{1, 1});
  t.attrs.Set("pads", std::vector<int64_t>(4, pad));
  if (op == "ConvTranspose") t.attrs.Set("output_padding", std::vector<int64_t>{0, 0});
  return t;
}

TEST(Nan, PassesFusedActivationsOfProducts) {
  for (int64_t n : {1, 5, 16, 33, 70}) {
    for (int64_t m : {1, 9}) {
      for (DType dtype : {DType::kFloat32, DType::kBfloat16}) {
        const TestCall t{"MatMul",
                         {},
                         {AsType(Filled(Shape{m, 6}, 0.5f), dtype),
                          AsType(Filled(Shape{6, n}, 0.25f), dtype), Tensor(), Tensor()},
                         {false, true, false, false},
                         {TensorType(dtype, Shape{m, n})}};
        ExpectNanWhereResidualIs(
            *FindKernel(dtype == DType::kFloat32 ? "matmul_f32" : "matmul_bf16"), t, n);
      }
      TestCall t{
          "MatMul",
          {},
          {RandomTensor(TensorType(DType::kUint8, Shape{m, 6}, QuantParams::PerTensor(0.01f, 128)),
                        1),
           RandomTensor(TensorType(DType::kInt8, Shape{6, n}, QuantParams::PerTensor(0.01f, 0)), 2),
           Tensor(), Tensor()},
          {false, true, false, false},
          {TensorType(DType::kFloat32, Shape{m, n})}};
      ExpectNanWhereResidualIs(*FindKernel("matmul_int8"), t, n);
    }
  }
}

TEST(Nan, PassesFusedActivationsOfConvolutions) {
  for (int64_t c : {1, 6, 16, 33}) {
    const Shape image{1, 7, 9, c};
    for (DType dtype : {DType::kFloat32, DType::kBfloat16}) {
      const bool f32 = dtype == DType::kFloat32;
      const Tensor x = AsType(Filled(Shape{1, 7, 9, 4}, 0.5f), dtype),
                   w = AsType(Filled(Shape{c, 4, 3, 3}, 0.1f), dtype);
      const TestCall conv = ConvCall("Conv", x, w, image, 1, 1);
      ExpectNanWhereResidualIs(*FindKernel(f32 ? "conv_f32" : "conv_bf16"), conv, c);
      if (f32) {
        for (const char* variant : {"direct", "winograd 2x2", "winograd 4x4"})
          ExpectNanWhereResidualIs(*FindKernel("conv_f32"), conv, c, variant);
      }
      const TestCall transposed =
          ConvCall("ConvTranspose", x, AsType(Filled(Shape{4, c, 3, 3}, 0.1f), dtype), image, 1, 1);
      ExpectNanWhereResidualIs(*FindKernel(f32 ? "conv_transpose_f32" : "conv_transpose_bf16"),
                               transposed, c);
      if (c == 1) continue;
      const TestCall depthwise =
          ConvCall("Conv", AsType(Filled(image, 0.5f), dtype),
                   AsType(Filled(Shape{c, 1, 3, 3}, 0.1f), dtype), image, c, 1);
      ExpectNanWhereResidualIs(*FindKernel(f32 ? "dwconv_f32" : "dwconv_bf16"), depthwise, c);
    }
    const auto byte = [](const Shape& s, uint32_t seed) {
      return RandomTensor(TensorType(DType::kUint8, s, QuantParams::PerTensor(0.01f, 128)), seed);
    };
    const auto weight = [](const Shape& s, uint32_t seed) {
      return RandomTensor(TensorType(DType::kInt8, s, QuantParams::PerTensor(0.01f, 0)), seed);
    };
    ExpectNanWhereResidualIs(
        *FindKernel("conv_int8"),
        ConvCall("Conv", byte(Shape{1, 7, 9, 4}, 1), weight(Shape{c, 4, 3, 3}, 2), image, 1, 1), c);
    if (c > 1)
      ExpectNanWhereResidualIs(
          *FindKernel("dwconv_int8"),
          ConvCall("Conv", byte(image, 1), weight(Shape{c, 1, 3, 3}, 2), image, c, 1), c);
  }
}

// A window has a NaN: the output is one. The largest of infinities is what it is.
TEST(Nan, PassesMaxPooling) {
  struct Window {
    int64_t size, kernel, stride;
  };
  for (const Window& s :
       {Window{6, 2, 2}, Window{7, 3, 1}, Window{7, 3, 2}, Window{9, 5, 1}, Window{20, 17, 1}}) {
    const int64_t out = (s.size - s.kernel) / s.stride + 1;
    for (int64_t c : {1, 7, 16, 37, 300}) {
      Tensor x = Filled(Shape{1, s.size, s.size, c}, 1);
      std::vector<bool> nan(static_cast<size_t>(out * out * c), false);
      std::vector<float> want(nan.size(), 1.0f);
      // One NaN, one +infinity and one -infinity per channel, at places that differ from channel to
      // channel.
      for (int64_t k = 0; k < c; ++k) {
        const auto set = [&](int64_t place, float v, const auto& mark) {
          const int64_t row = place / s.size, column = place % s.size;
          x.mutable_data<float>()[(row * s.size + column) * c + k] = v;
          for (int64_t i = 0; i < out; ++i) {
            for (int64_t j = 0; j < out; ++j) {
              const bool inside = row >= i * s.stride && row < i * s.stride + s.kernel &&
                                  column >= j * s.stride && column < j * s.stride + s.kernel;
              if (inside) mark(static_cast<size_t>((i * out + j) * c + k));
            }
          }
        };
        const int64_t pixels = s.size * s.size, at = k * 5 % pixels;
        set(at, kNan, [&](size_t i) { nan[i] = true; });
        set((at + 2) % pixels, kInf, [&](size_t i) { want[i] = kInf; });
        set((at + s.size) % pixels, -kInf, [](size_t) {});
      }
      for (DType dtype : {DType::kFloat32, DType::kBfloat16}) {
        TestCall t{
            "MaxPool", {}, {AsType(x, dtype)}, {}, {TensorType(dtype, Shape{1, out, out, c})}};
        t.attrs.Set("channels_last", 1);
        t.attrs.Set("kernel_shape", std::vector<int64_t>{s.kernel, s.kernel});
        t.attrs.Set("strides", std::vector<int64_t>{s.stride, s.stride});
        const bool f32 = dtype == DType::kFloat32;
        TestCall global{"GlobalMaxPool", {}, t.inputs, {}, {TensorType(dtype, Shape{1, 1, 1, c})}};
        global.attrs.Set("channels_last", 1);
        for (Isa isa : TestIsas()) {
          const Tensor y = RunKernel(*FindKernel(f32 ? "maxpool_f32" : "maxpool_bf16"), t, isa)[0];
          for (int64_t i = 0; i < y.elements(); ++i) {
            const auto u = static_cast<size_t>(i);
            ASSERT_EQ(std::isnan(At(y, i)), nan[u])
                << IsaName(isa) << " kernel " << s.kernel << " stride " << s.stride << " channels "
                << c << " element " << i;
            if (!nan[u])
              ASSERT_EQ(At(y, i), want[u]) << IsaName(isa) << " kernel " << s.kernel << " channels "
                                           << c << " element " << i;
          }
          const Tensor all = RunKernel(
              *FindKernel(f32 ? "global_maxpool_f32" : "global_maxpool_bf16"), global, isa)[0];
          for (int64_t i = 0; i < c; ++i)
            ASSERT_TRUE(std::isnan(At(all, i)))
                << "global " << IsaName(isa) << " channels " << c << " element " << i;
        }
      }
    }
  }
}

// x is [rows, n] and reduced along one of the axes; a NaN at `place` makes its output NaN and no
// other.
TEST(Nan, PassesReductions) {
  for (const char* op : {"ReduceMax", "ReduceMin", "ReduceSum", "ReduceMean", "ReduceProd",
                         "ReduceL1", "ReduceL2", "ReduceSumSquare", "ReduceLogSum"}) {
    for (int64_t n : {1, 2, 3, 4, 5, 16, 67, 130}) {
      for (int64_t axis : {0, 1}) {
        for (int64_t place : PlacesOf(n)) {
          for (int64_t row : {0, 2}) {
            Tensor x = Filled(Shape{3, n}, 2);
            x.mutable_data<float>()[row * n + place] = kNan;
            TestCall t{op,
                       {},
                       {x, Tensor::FromValues<int64_t>(Shape{1}, {axis})},
                       {false, true},
                       {TensorType(DType::kFloat32, axis == 0 ? Shape{1, n} : Shape{3, 1})}};
            for (Isa isa : TestIsas()) {
              const Tensor y = RunKernel(*FindKernel(std::string(op) + "_f32"), t, isa)[0];
              for (int64_t i = 0; i < y.elements(); ++i)
                ASSERT_EQ(std::isnan(y.data<float>()[i]), i == (axis == 0 ? place : row))
                    << op << " " << IsaName(isa) << " n " << n << " axis " << axis << " output "
                    << i;
            }
          }
        }
      }
    }
  }
}

// As numpy: the first NaN, or the last with select_last_index.
TEST(Nan, IsTheLargestAndTheSmallestToArgMaxAndArgMin) {
  for (const char* op : {"ArgMax", "ArgMin"}) {
    const KernelDef& kernel =
        *FindKernel(std::string(op) == "ArgMax" ? "argmax_f32" : "argmin_f32");
    for (int64_t n : {2, 5, 16, 67, 130}) {
      for (int64_t axis : {0, 1}) {
        for (int64_t last : {0, 1}) {
          Tensor x = Filled(axis == 1 ? Shape{3, n} : Shape{n, 3}, 2);
          const auto set = [&](int64_t row, int64_t k, float v) {
            x.mutable_data<float>()[axis == 1 ? row * n + k : k * 3 + row] = v;
          };
          set(0, 0, kInf), set(0, n / 2, kNan), set(0, n - 1, kNan);  // NaNs at n / 2 and n - 1
          set(1, 0, kNan);                                            // one at the front
          set(2, n - 1, std::string(op) == "ArgMax" ? kInf : -kInf);  // none
          const std::vector<int64_t> want = {last != 0 ? n - 1 : n / 2, 0, n - 1};
          TestCall t{
              op, {}, {x}, {}, {TensorType(DType::kInt64, axis == 1 ? Shape{3, 1} : Shape{1, 3})}};
          t.attrs.Set("axis", AttrValue(axis));
          t.attrs.Set("select_last_index", AttrValue(last));
          for (Isa isa : TestIsas()) {
            const Tensor y = RunKernel(kernel, t, isa)[0];
            for (int64_t i = 0; i < 3; ++i)
              ASSERT_EQ(y.data<int64_t>()[i], want[static_cast<size_t>(i)])
                  << op << " " << IsaName(isa) << " n " << n << " axis " << axis << " last " << last
                  << " row " << i;
          }
        }
      }
    }
  }
}

// A NaN in the second of two steps' input: the first step's state stays, the second's is NaN,
// whatever the gates compute.
TEST(Nan, PassesRecurrentLayers) {
  for (const char* activation : {"Relu", "Tanh", "Sigmoid"}) {
    for (int64_t hidden : {1, 5, 16, 33}) {
      Tensor x = Filled(Shape{2, 1, 3}, 0.5f);
      x.mutable_data<float>()[4] = kNan;
      TestCall t{"RNN",
                 {},
                 {x, Filled(Shape{1, hidden, 3}, 0.25f), Filled(Shape{1, hidden, hidden}, 0.125f)},
                 {false, true, true},
                 {TensorType(DType::kFloat32, Shape{2, 1, 1, hidden}),
                  TensorType(DType::kFloat32, Shape{1, 1, hidden})}};
      t.attrs.Set("hidden_size", AttrValue(hidden));
      t.attrs.Set("activations", std::vector<std::string>{activation});
      const KernelDef& kernel = *FindKernel("rnn_f32");
      ASSERT_FALSE(RejectOf(kernel, t)) << RejectOf(kernel, t)->sentence;
      for (Isa isa : TestIsas()) {
        const auto y = RunKernel(kernel, t, isa);
        for (int64_t i = 0; i < hidden; ++i) {
          EXPECT_FALSE(std::isnan(y[0].data<float>()[i])) << activation << " " << IsaName(isa);
          EXPECT_TRUE(std::isnan(y[0].data<float>()[hidden + i]))
              << activation << " " << IsaName(isa) << " hidden " << hidden;
          EXPECT_TRUE(std::isnan(y[1].data<float>()[i])) << activation << " " << IsaName(isa);
        }
      }
    }
  }
}

// QuantizeLinear of NaN is the zero point; of an infinity the end of the range.
TEST(Nan, QuantizesToTheZeroPoint) {
  for (float scale : {0.0078125f, 0.1f, 0.3f, 1e-20f, 3e30f}) {
    for (DType dtype : {DType::kUint8, DType::kInt8}) {
      const int32_t low = dtype == DType::kUint8 ? 0 : -128, high = low + 255, zero = low + 77;
      for (int64_t n : {1, 7, 64, 67, 300}) {
        Tensor x = Filled(Shape{n}, 0), want = Tensor::Allocate(TensorType(
                                            dtype, Shape{n}, QuantParams::PerTensor(scale, zero)));
        const float values[] = {kNan, kInf, -kInf, 0, -kNan};
        const int32_t integers[] = {zero, high, low, zero, zero};
        for (int64_t i = 0; i < n; ++i) {
          x.mutable_data<float>()[i] = values[i % 5];
          want.mutable_raw()[i] = static_cast<std::byte>(integers[i % 5]);
        }
        const TestCall t{"QuantizeLinear", {}, {x}, {}, {want.type()}};
        ExpectKernel(*FindKernel("quantize"), t, {want}, fmt::format("scale {} n {}", scale, n));
      }
    }
  }
}

}  // namespace
}  // namespace evoq
