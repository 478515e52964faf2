// Steps that are long enough to be cut for threads: the pieces give what the whole gives. Other
// tests compare the whole with its definition, mostly on sizes that are not worth cutting.
#include "kernels/test_util.h"
#include "tensor/test_attrs.h"

namespace evoq {
namespace {

const DType kF = DType::kFloat32, kB = DType::kBfloat16, kU = DType::kUint8, kI8 = DType::kInt8;

TensorType Plain(DType dtype, Shape shape) { return TensorType(dtype, std::move(shape)); }
TensorType Q(Shape shape, DType dtype = DType::kUint8, float scale = 0.05f) {
  return TensorType(dtype, std::move(shape), QuantParams::PerTensor(scale, dtype == kU ? 120 : 3));
}
TensorType PerAxis(DType dtype, Shape shape, int axis) {
  QuantParams q;
  q.axis = axis;
  for (int64_t i = 0; i < shape[axis].value; ++i) {
    q.scales.push_back(0.01f + 0.001f * static_cast<float>(i % 7));
    q.zero_points.push_back(static_cast<int32_t>(i % 5));
  }
  return TensorType(dtype, std::move(shape), q);
}
Tensor Ints(const std::vector<int64_t>& v) { return Tensor::FromValues(v); }

struct Case {
  const char* kernel;
  std::vector<TensorType> inputs;  // random
  std::vector<TensorType> outputs;
  Attrs attrs = {};
  std::vector<Tensor> constants = {};  // inputs behind the random ones
};

void ExpectPieces(const std::vector<Case>& cases) {
  for (const Case& c : cases) {
    const KernelDef& kernel = *FindKernel(c.kernel);
    TestCall t{kernel.op, c.attrs, {}, {}, c.outputs};
    for (const TensorType& type : c.inputs) {
      Tensor x = RandomTensor(type, static_cast<uint32_t>(t.inputs.size()) + 1);
      if (type.dtype == kB) {  // numbers, no NaN
        for (int64_t i = 0; i < x.elements(); ++i)
          x.mutable_data<uint16_t>()[i] = FloatToBfloat16(static_cast<float>(i * 37 % 101 - 50));
      }
      t.inputs.push_back(x);
      t.is_constant.push_back(false);
    }
    for (const Tensor& x : c.constants) t.inputs.push_back(x), t.is_constant.push_back(true);
    for (Isa isa : {TestIsas().front(), TestIsas().back()}) {
      const auto whole = RunKernel(kernel, t, isa, 1);
      for (int threads : {2, 3}) {
        const auto pieces = RunKernel(kernel, t, isa, threads);
        for (size_t i = 0; i < whole.size(); ++i)
          EXPECT_EQ(FirstDifference(pieces[i], whole[i]), "")
              << c.kernel << " " << IsaName(isa) << " " << threads << " threads, output " << i
              << " of " << t.inputs[0].type().ToString();
      }
    }
  }
}

TEST(Pieces, ElementByElement) {
  const Shape n{30000}, large{200000}, rows{300, 400};
  ExpectPieces(
      {{"Relu_f32", {Plain(kF, n)}, {Plain(kF, n)}},
       {"Relu_bf16", {Plain(kB, n)}, {Plain(kB, n)}},
       {"Relu_u8", {Q(large)}, {Q(large)}},
       {"add_f32", {Plain(kF, rows), Plain(kF, Shape{400})}, {Plain(kF, rows)}},
       {"add_bf16", {Plain(kB, rows), Plain(kB, Shape{300, 1})}, {Plain(kB, rows)}},
       {"add_u8", {Q(rows), Q(Shape{400})}, {Q(rows)}},
       {"mul_f32", {Plain(kF, Shape{40000, 3}), Plain(kF, Shape{3})}, {Plain(kF, Shape{40000, 3})}},
       {"Equal", {Plain(kI8, rows), Plain(kI8, Shape{400})}, {Plain(DType::kBool, rows)}},
       {"Where",
        {Plain(DType::kBool, Shape{300, 1}), Plain(kF, rows), Plain(kF, Shape{400})},
        {Plain(kF, rows)}},
       {"cast", {Plain(kF, n)}, {Plain(DType::kInt16, n)}},
       {"cast", {Plain(kF, large)}, {Plain(kB, large)}},
       {"cast", {Plain(DType::kInt16, n)}, {Plain(kF, n)}},
       {"quantize", {Plain(kF, large)}, {Q(large)}},
       {"quantize", {Plain(kF, Shape{3, 30011})}, {PerAxis(kU, Shape{3, 30011}, 1)}},
       {"quantize", {Plain(kF, Shape{30, 3001})}, {PerAxis(kU, Shape{30, 3001}, 0)}},
       {"quantize", {PerAxis(kI8, Shape{3, 30011}, 1)}, {Q(Shape{3, 30011}, kI8)}},
       {"quantize", {Q(n, DType::kInt32)}, {Q(n)}},
       {"dequantize", {PerAxis(kI8, Shape{3, 30011}, 1)}, {Plain(kF, Shape{3, 30011})}},
       {"dequantize", {PerAxis(kU, Shape{30, 3001}, 0)}, {Plain(kF, Shape{30, 3001})}}});
  const Shape shape{3, 30011};
  Tensor scales = RandomTensor(Plain(kF, Shape{30011}), 9);
  for (int64_t i = 0; i < 30011; ++i)
    scales.mutable_data<float>()[i] = 0.01f + 0.001f * static_cast<float>(i % 7);
  const Tensor zeros = RandomTensor(Plain(kU, Shape{30011}), 9);
  const Attrs axis = With({{"axis", int64_t{1}}});
  ExpectPieces(
      {{"quantize_runtime", {Plain(kF, shape)}, {Plain(kU, shape)}, axis, {scales, zeros}},
       {"dequantize_runtime", {Plain(kU, shape)}, {Plain(kF, shape)}, axis, {scales, zeros}},
       {"dynamic_quantize",
        {Plain(kF, large)},
        {Plain(kU, large), Plain(kF, Shape{}), Plain(kU, Shape{})}}});
}

TEST(Pieces, Moving) {
  std::vector<int64_t> picks;
  for (int64_t i = 0; i < 1500; ++i) picks.push_back(i * 37 % 80 - (i % 2) * 80);
  using Sizes = std::vector<int64_t>;
  const auto axis = [](int64_t value) { return With({{"axis", value}}); };
  const auto perm = [](Sizes value) { return With({{"perm", std::move(value)}}); };
  ExpectPieces(
      {{"gather",
        {Plain(kF, Shape{3, 80, 40})},
        {Plain(kF, Shape{3, 1500, 40})},
        axis(1),
        {Ints(picks)}},
       {"gather",
        {Plain(kU, Shape{20000, 7})},
        {Plain(kU, Shape{20000, 3})},
        axis(1),
        {Ints({6, 0, -2})}},
       {"gather_dequantize",
        {PerAxis(kI8, Shape{80, 37}, 0)},
        {Plain(kF, Shape{1500, 37})},
        {},
        {Ints(picks)}},
       {"concat",
        {Plain(kF, Shape{2000, 3}), Plain(kF, Shape{2000, 50})},
        {Plain(kF, Shape{2000, 53})},
        axis(1)},
       {"concat", {Q(Shape{9000, 2}), Q(Shape{9000, 3}, kU, 0.07f)}, {Q(Shape{9000, 5})}, axis(1)},
       {"concat",
        {Q(Shape{1, 99991}), Q(Shape{1, 50021}, kU, 0.07f)},
        {Q(Shape{1, 150012})},
        axis(1)},
       {"slice",
        {Plain(kF, Shape{3000, 40})},
        {Plain(kF, Shape{3000, 13})},
        {},
        {Ints({1}), Ints({40}), Ints({1}), Ints({3})}},
       {"tile", {Plain(DType::kInt16, Shape{400, 9})}, {Plain(DType::kInt16, Shape{2000, 27})}},
       {"split",
        {Plain(kF, Shape{3000, 64})},
        {Plain(kF, Shape{3000, 63}), Plain(kF, Shape{3000, 1})},
        axis(1)},
       {"transpose",
        {Plain(kF, Shape{40, 30, 50})},
        {Plain(kF, Shape{40, 50, 30})},
        perm({0, 2, 1})},
       {"transpose", {Plain(kU, Shape{70, 900})}, {Plain(kU, Shape{900, 70})}, perm({1, 0})},
       {"transpose",
        {Plain(kF, Shape{4, 50, 60, 7})},
        {Plain(kF, Shape{60, 4, 50, 7})},
        perm({2, 0, 1, 3})},
       {"dequantize_transpose",
        {Q(Shape{40, 30, 50})},
        {Plain(kF, Shape{40, 50, 30})},
        perm({0, 2, 1})},
       {"dequantize_transpose",
        {Q(Shape{50, 60, 70})},
        {Plain(kF, Shape{60, 50, 70})},
        perm({1, 0, 2})},
       {"pad", {Plain(kF, Shape{900, 20})}, {Plain(kF, Shape{902, 23})}, {}, {Ints({1, 2, 1, 1})}},
       {"depth_to_space",
        {Plain(kU, Shape{2, 40, 40, 64})},
        {Plain(kU, Shape{2, 80, 80, 16})},
        With({{"blocksize", int64_t{2}}, {"channels_last", int64_t{1}}})},
       {"copy_reshape", {Plain(kF, Shape{300, 700})}, {Plain(kF, Shape{210000})}},
       {"resize_nearest",
        {Plain(kF, Shape{2, 3, 60, 100})},
        {Plain(kF, Shape{2, 3, 120, 200})},
        {}},
       {"resize_linear",
        {Plain(kF, Shape{2, 3, 60, 100})},
        {Plain(kF, Shape{2, 3, 90, 150})},
        With({{"mode", "linear"}})},
       {"resize_linear",
        {Q(Shape{2, 60, 70, 3})},
        {Q(Shape{2, 90, 99, 3})},
        With({{"mode", "linear"}, {"channels_last", int64_t{1}}})}});
}

TEST(Pieces, RowsAndWindows) {
  using Sizes = std::vector<int64_t>;
  const auto axis = [](int64_t value) { return With({{"axis", value}}); };
  const Attrs last = With({{"channels_last", int64_t{1}}});
  const Shape rows{4000, 9}, planes{3, 40, 700};
  const TensorType nine = Plain(kF, Shape{9}), twenty = Plain(kF, Shape{20});
  Tensor positive = RandomTensor(twenty, 1);
  for (int64_t i = 0; i < 20; ++i) positive.mutable_data<float>()[i] = 1 + static_cast<float>(i);
  const std::vector<Tensor> four = {RandomTensor(twenty, 1), RandomTensor(twenty, 2),
                                    RandomTensor(twenty, 3), positive};
  Attrs window = last;
  window.Set("kernel_shape", Sizes{3, 3});
  window.Set("pads", Sizes{1, 1, 1, 1});
  ExpectPieces(
      {{"softmax_f32", {Plain(kF, rows)}, {Plain(kF, rows)}},
       {"softmax_f32", {Plain(kF, planes)}, {Plain(kF, planes)}, axis(1)},
       {"log_softmax_f32", {Plain(kF, rows)}, {Plain(kF, rows)}},
       {"softmax_bf16", {Plain(kB, rows)}, {Plain(kB, rows)}},
       {"softmax_u8", {Q(rows)}, {Q(rows, kU, 1 / 256.0f)}},
       {"softmax_u8", {Q(planes)}, {Q(planes, kU, 1 / 256.0f)}, axis(1)},
       {"layer_norm_f32",
        {Plain(kF, rows), nine, nine},
        {Plain(kF, rows), Plain(kF, Shape{4000, 1}), Plain(kF, Shape{4000, 1})}},
       {"layer_norm_bf16", {Plain(kB, rows), nine, nine}, {Plain(kB, rows)}},
       {"rms_norm_f32", {Plain(kF, rows), nine}, {Plain(kF, rows)}},
       {"rms_norm_bf16", {Plain(kB, rows), nine}, {Plain(kB, rows)}},
       {"batch_norm_f32",
        {Plain(kF, Shape{2, 30, 50, 20})},
        {Plain(kF, Shape{2, 30, 50, 20})},
        last,
        four},
       {"batch_norm_f32", {Plain(kF, Shape{9, 20, 700})}, {Plain(kF, Shape{9, 20, 700})}, {}, four},
       {"instance_norm_f32",
        {Plain(kF, Shape{9, 20, 700}), twenty, twenty},
        {Plain(kF, Shape{9, 20, 700})}},
       {"ReduceSum_f32", {Plain(kF, Shape{4000, 9})}, {Plain(kF, Shape{4000, 1})}, {}, {Ints({1})}},
       {"ReduceMax_f32",
        {Plain(kF, Shape{3, 40, 2000})},
        {Plain(kF, Shape{3, 1, 2000})},
        {},
        {Ints({1})}},
       {"reduce_mean_u8", {Q(Shape{3, 40, 2000})}, {Q(Shape{3, 1, 2000})}, {}, {Ints({1})}},
       {"argmax_f32", {Plain(kF, Shape{4000, 9})}, {Plain(DType::kInt64, Shape{4000, 1})}, axis(1)},
       {"argmin_f32", {Plain(kF, planes)}, {Plain(DType::kInt64, Shape{3, 1, 700})}, axis(1)},
       {"maxpool_f32",
        {Plain(kF, Shape{2, 30, 40, 20})},
        {Plain(kF, Shape{2, 30, 40, 20})},
        window},
       {"maxpool_u8", {Q(Shape{2, 30, 40, 300})}, {Q(Shape{2, 30, 40, 300})}, window},
       {"avgpool_u8", {Q(Shape{2, 30, 40, 300})}, {Q(Shape{2, 30, 40, 300})}, window},
       {"avgpool_f32",
        {Plain(kF, Shape{2, 30, 40, 20})},
        {Plain(kF, Shape{2, 30, 40, 20})},
        window},
       {"avgpool_bf16",
        {Plain(kB, Shape{2, 30, 40, 20})},
        {Plain(kB, Shape{2, 30, 40, 20})},
        window},
       {"global_avgpool_f32",
        {Plain(kF, Shape{9, 30, 40, 300})},
        {Plain(kF, Shape{9, 1, 1, 300})},
        last}});
}

}  // namespace
}  // namespace evoq
