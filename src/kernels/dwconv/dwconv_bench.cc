#include "kernels/bench_util.h"

namespace evoq {
extern const KernelDef kDwConvInt8, kDwConvFloat;
namespace {

// k x k depthwise over channels x size x size, "same" padding.
void DwConv(benchmark::State& state, const KernelDef& kernel, bool int8) {
  const int64_t k = state.range(0), c = state.range(1), size = state.range(2),
                stride = state.range(3), out = (size - 1) / stride + 1, dilation = state.range(4);
  TestCall t;
  t.op = "Conv";
  t.attrs.Set("channels_last", 1);
  t.attrs.Set("group", AttrValue(c));
  t.attrs.Set("strides", std::vector<int64_t>{stride, stride});
  t.attrs.Set("dilations", std::vector<int64_t>{dilation, dilation});
  t.attrs.Set("pads", std::vector<int64_t>(4, k / 2 * dilation));
  t.attrs.Set("activation", "Relu");
  const Shape x{1, size, size, c}, w{c, 1, k, k}, y{1, out, out, c};
  if (int8) {
    t.inputs = {RandomTensor(TensorType(DType::kUint8, x, QuantParams::PerTensor(0.02f, 3)), 1),
                RandomTensor(TensorType(DType::kInt8, w, QuantParams::PerTensor(0.02f, 0)), 2),
                RandomTensor(TensorType(DType::kInt32, Shape{c}), 3)};
    t.outputs = {TensorType(DType::kUint8, y, QuantParams::PerTensor(0.3f, 0))};
  } else {
    t.inputs = {RandomTensor(TensorType(DType::kFloat32, x), 1),
                RandomTensor(TensorType(DType::kFloat32, w), 2),
                RandomTensor(TensorType(DType::kFloat32, Shape{c}), 3)};
    t.outputs = {TensorType(DType::kFloat32, y)};
  }
  t.is_constant = {false, true, true};
  RunBenchmark(state, kernel, t, 2.0 * static_cast<double>(k * k * c * out * out));
}

void Shapes(benchmark::internal::Benchmark* b) {
  for (const auto& [k, c, size, stride] : std::vector<std::array<int64_t, 4>>{{3, 32, 112, 1},
                                                                              {3, 96, 112, 2},
                                                                              {3, 144, 56, 1},
                                                                              {3, 192, 28, 1},
                                                                              {3, 384, 14, 1},
                                                                              {3, 960, 7, 1},
                                                                              {3, 6, 224, 1},
                                                                              {5, 240, 28, 1},
                                                                              {5, 672, 14, 1},
                                                                              {7, 96, 56, 1}}) {
    b->Args({k, c, size, stride, 1});
  }
  b->Args({3, 960, 33, 1, 4});
  b->ArgNames({"k", "c", "size", "stride", "dilation"})
      ->Unit(benchmark::kMicrosecond)
      ->UseRealTime();
}
BENCHMARK_CAPTURE(DwConv, int8, kDwConvInt8, true)->Apply(Shapes);
BENCHMARK_CAPTURE(DwConv, f32, kDwConvFloat, false)->Apply(Shapes);

}  // namespace
}  // namespace evoq
