// Every bfloat16 kernel but the linear ones gives the float32 kernel's result on the widened
// inputs, rounded.
#include "kernels/bf16/bf16.h"

#include <cmath>

#include "kernels/call_util.h"
#include "kernels/gemm/linear_bf16_testing.h"

namespace evoq {
namespace {

template <typename T>
T Pick(std::mt19937& random, std::initializer_list<T> values) {
  return values.begin()[random() % values.size()];
}

Shape RandomShape(std::mt19937& random, int rank) {
  std::vector<int64_t> sizes;
  for (int i = 0; i < rank; ++i) sizes.push_back(Pick<int64_t>(random, {1, 2, 3, 5, 16, 17, 33}));
  return Shape(sizes);
}

// What the float32 kernel computes of the widened inputs, in float32.
std::vector<Tensor> WideResults(const char* kernel, const TestCall& call) {
  TestCall wide = call;
  for (Tensor& t : wide.inputs) {
    if (t.defined() && t.dtype() == DType::kBfloat16) t = *ToFloat32(t);
  }
  for (TensorType& type : wide.outputs) type.dtype = DType::kFloat32;
  const auto why = RejectOf(*FindKernel(kernel), wide);
  EVOQ_CHECK(!why, "{}: {}", kernel, why->sentence);
  return RunKernel(*FindKernel(kernel), wide, Isa::kScalar);
}

Tensor Narrowed(const Tensor& wide) {
  Tensor t = Tensor::Allocate(TensorType(DType::kBfloat16, wide.shape()));
  for (int64_t i = 0; i < t.elements(); ++i)
    t.mutable_data<uint16_t>()[i] = FloatToBfloat16(wide.data<float>()[i]);
  return t;
}

void CheckRounded(const std::string& kernel, const std::string& wide_kernel, const TestCall& call,
                  const std::string& label) {
  const auto why = RejectOf(*FindKernel(kernel), call);
  ASSERT_FALSE(why) << kernel << " " << label << ": " << why->sentence;
  std::vector<Tensor> want;
  for (const Tensor& t : WideResults(wide_kernel.c_str(), call)) want.push_back(Narrowed(t));
  ExpectKernel(*FindKernel(kernel), call, want, label);
}

Tensor Bound(float value) {
  Tensor t = Tensor::Allocate(TensorType(DType::kBfloat16, Shape{}));
  t.mutable_data<uint16_t>()[0] = FloatToBfloat16(value);
  return t;
}

TestCall Call(std::string op, std::vector<Tensor> inputs, const Shape& y) {
  TestCall call;
  call.op = std::move(op);
  call.inputs = std::move(inputs);
  call.is_constant.assign(call.inputs.size(), false);
  call.outputs = {TensorType(DType::kBfloat16, y)};
  return call;
}

TEST(Bf16Elementwise, Binary) {
  std::mt19937 random(1);
  const std::pair<const char*, const char*> kRows[] = {
      {"Add", "add"}, {"Sub", "sub"}, {"Mul", "mul"},    {"Div", "div"},
      {"Max", "max"}, {"Min", "min"}, {"PRelu", "prelu"}};
  for (int i = 0; i < 90 && !testing::Test::HasFailure(); ++i) {
    const auto& [op, name] = kRows[random() % std::size(kRows)];
    const Shape y =
        i % 10 == 0 ? Shape{3, 2500} : RandomShape(random, 1 + static_cast<int>(random() % 4));
    std::vector<int64_t> b = y.sizes();
    for (int64_t& size : b) size = random() % 3 == 0 ? 1 : size;
    TestCall call = Call(op, {RandomBf16(y, random), RandomBf16(Shape(b), random)}, y);
    if (std::string(op) == "Add" && random() % 2 == 0)
      ActivationToAttrs(RandomActivation(random), call.attrs);
    if (std::string(op) != "PRelu" && random() % 3 == 0) std::swap(call.inputs[0], call.inputs[1]);
    CheckRounded(std::string(name) + "_bf16", std::string(name) + "_f32", call,
                 fmt::format("{} {}", op, y.ToString()));
  }
}

// Rows that go together, one behind the other: beside one row for all, a number for each and both.
TEST(Bf16Elementwise, ShortRows) {
  std::mt19937 random(2);
  for (int64_t n : {2, 31, 32, 255, 256}) {
    const Shape y{3, 70, n};
    for (const Shape& b : {Shape{n}, Shape{70, 1}, Shape{3, 1, n}, Shape{3, 1, 1}}) {
      TestCall call = Call("Mul", {RandomBf16(y, random), RandomBf16(b, random)}, y);
      CheckRounded("mul_bf16", "mul_f32", call, fmt::format("{} {}", n, b.ToString()));
      std::swap(call.inputs[0], call.inputs[1]);
      CheckRounded("mul_bf16", "mul_f32", call, fmt::format("{} {} first", n, b.ToString()));
    }
  }
}

TEST(Bf16Elementwise, Unary) {
  std::mt19937 random(2);
  for (const char* op : {"Relu", "Sigmoid", "Tanh", "Exp", "Sqrt", "Gelu", "HardSwish", "Silu",
                         "LeakyRelu", "Neg", "Clip", "Erf"}) {
    for (int i = 0; i < 3; ++i) {
      const Shape shape = i == 0 ? Shape{2, 3000} : RandomShape(random, 3);
      TestCall call = Call(op, {RandomBf16(shape, random)}, shape);
      if (std::string(op) == "Clip") {
        call.inputs.push_back(i == 1 ? Tensor() : Bound(-0.25f));
        call.inputs.push_back(i == 2 ? Tensor() : Bound(0.5f));
        call.is_constant = {false, false, false};
      }
      CheckRounded(fmt::format("{}_bf16", op), fmt::format("{}_f32", op), call, op);
    }
  }
}

TEST(Bf16Rows, SoftmaxAndNormalization) {
  std::mt19937 random(3);
  for (int i = 0; i < 60 && !testing::Test::HasFailure(); ++i) {
    const int64_t n = Pick<int64_t>(random, {1, 2, 15, 16, 17, 64, 100, 768, 5000});
    const Shape x = Shape{Pick<int64_t>(random, {1, 2, 7}), Pick<int64_t>(random, {1, 3, 13}), n};
    CheckRounded("softmax_bf16", "softmax_f32", Call("Softmax", {RandomBf16(x, random)}, x),
                 x.ToString());
    const Tensor bias = random() % 2 == 0 ? RandomF32(Shape{n}, random) : Tensor();
    CheckRounded(
        "layer_norm_bf16", "layer_norm_f32",
        Call("LayerNormalization", {RandomBf16(x, random), RandomF32(Shape{n}, random), bias}, x),
        x.ToString());
    CheckRounded("rms_norm_bf16", "rms_norm_f32",
                 Call("RMSNormalization", {RandomBf16(x, random), RandomF32(Shape{n}, random)}, x),
                 x.ToString());
  }
}

TEST(Bf16Pool, RandomShapes) {
  std::mt19937 random(4);
  const std::pair<const char*, const char*> kRows[] = {{"MaxPool", "maxpool"},
                                                       {"AveragePool", "avgpool"},
                                                       {"GlobalMaxPool", "global_maxpool"},
                                                       {"GlobalAveragePool", "global_avgpool"}};
  for (int i = 0; i < 80 && !testing::Test::HasFailure(); ++i) {
    const auto& [op, name] = kRows[random() % std::size(kRows)];
    const bool global = std::string(op).starts_with("Global");
    const int64_t kernel = Pick<int64_t>(random, {1, 2, 3}), stride = Pick<int64_t>(random, {1, 2}),
                  pad = kernel / 2;
    const int64_t h = Pick<int64_t>(random, {3, 7, 12}), w = Pick<int64_t>(random, {3, 8, 15});
    const int64_t c = Pick<int64_t>(random, {1, 3, 16, 64, 81, 300});
    const auto out = [&](int64_t in) { return global ? 1 : (in + 2 * pad - kernel) / stride + 1; };
    TestCall call = Call(op, {RandomBf16(Shape{2, h, w, c}, random)}, Shape{2, out(h), out(w), c});
    call.attrs.Set("channels_last", 1);
    if (!global) {
      call.attrs.Set("kernel_shape", std::vector<int64_t>{kernel, kernel});
      call.attrs.Set("strides", std::vector<int64_t>{stride, stride});
      call.attrs.Set("pads", std::vector<int64_t>{pad, pad, pad, pad});
      call.attrs.Set("count_include_pad", static_cast<int64_t>(random() % 2));
    }
    CheckRounded(fmt::format("{}_bf16", name), fmt::format("{}_f32", name), call,
                 fmt::format("{} {}x{}x{}", op, h, w, c));
  }
}

// Fused multiply-adds differ between instruction sets: a few roundings of float32 and one of
// bfloat16.
TEST(DwConvBf16, RandomShapes) {
  std::mt19937 random(5);
  for (int i = 0; i < 80 && !testing::Test::HasFailure(); ++i) {
    const int64_t kernel = Pick<int64_t>(random, {1, 3, 3, 5, 7}),
                  stride = Pick<int64_t>(random, {1, 1, 2}), pad = kernel / 2;
    const int64_t width = Pick<int64_t>(random, {kernel, kernel, 1, 4, 11});
    const int64_t dilation = Pick<int64_t>(random, {1, 1, 1, 2}),
                  h = (kernel - 1) * dilation + 1 + static_cast<int64_t>(random() % 9),
                  w = (width - 1) * dilation + 1 + static_cast<int64_t>(random() % 20);
    const int64_t c = Pick<int64_t>(random, {1, 3, 8, 16, 17, 33, 96});
    const auto out = [&](int64_t in, int64_t taps) {
      return (in + 2 * pad - (taps - 1) * dilation - 1) / stride + 1;
    };
    const Shape y = Shape{2, out(h, kernel), out(w, width), c};
    TestCall call =
        Call("Conv",
             {RandomBf16(Shape{2, h, w, c}, random), RandomBf16(Shape{c, 1, kernel, width}, random),
              random() % 2 == 0 ? RandomF32(Shape{c}, random) : Tensor(),
              random() % 2 == 0 ? RandomBf16(y, random) : Tensor()},
             y);
    call.is_constant = {false, true, true, false};
    call.attrs.Set("channels_last", 1);
    call.attrs.Set("group", c);
    call.attrs.Set("strides", std::vector<int64_t>{stride, stride});
    call.attrs.Set("dilations", std::vector<int64_t>{dilation, dilation});
    call.attrs.Set("pads", std::vector<int64_t>{pad, pad, pad, pad});
    ActivationToAttrs(RandomActivation(random), call.attrs);
    const KernelDef& kernel_row = *FindKernel("dwconv_bf16");
    ASSERT_FALSE(RejectOf(kernel_row, call)) << RejectOf(kernel_row, call)->sentence;
    const Tensor want = WideResults("dwconv_f32", call)[0];
    for (Isa isa : TestIsas()) {
      const Tensor got = RunKernel(kernel_row, call, isa)[0];
      for (int64_t k = 0; k < got.elements(); ++k) {
        const double v = At(want, k), error = static_cast<double>(kernel * width + 8) * 0x1p-22 *
                                              static_cast<double>(kernel * width);
        ASSERT_LE(std::fabs(At(got, k) - v), 0x1p-8 * (std::fabs(v) + error) + error)
            << IsaName(isa) << " kernel " << kernel << "x" << width << " stride " << stride
            << " channels " << c << " element " << k;
      }
      EXPECT_EQ(FirstDifference(RunKernel(kernel_row, call, isa, 3)[0], got), "");
      // Where the output is float32, what was rounded.
      TestCall wide = call;
      wide.outputs[0].dtype = DType::kFloat32;
      ASSERT_FALSE(RejectOf(kernel_row, wide)) << RejectOf(kernel_row, wide)->sentence;
      EXPECT_EQ(FirstDifference(Narrowed(RunKernel(kernel_row, wide, isa)[0]), got), "")
          << IsaName(isa) << " kernel " << kernel << "x" << width << " channels " << c;
    }
  }
}

}  // namespace
}  // namespace evoq
