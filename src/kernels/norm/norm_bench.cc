#include "kernels/bench_util.h"

namespace evoq {
extern const KernelDef kSoftmaxByte, kSoftmaxFloat, kLayerNormFloat, kReduceMeanByte, kArgMaxFloat;
namespace {

void Softmax(benchmark::State& state, const KernelDef& kernel, bool bytes) {
  TestCall t;
  t.op = "Softmax";
  const Shape shape{12, 128, 128};
  t.inputs = {
      RandomTensor(bytes ? TensorType(DType::kUint8, shape, QuantParams::PerTensor(0.05f, 128))
                         : TensorType(DType::kFloat32, shape),
                   1)};
  t.outputs = {bytes ? TensorType(DType::kUint8, shape, QuantParams::PerTensor(1.0f / 256, 0))
                     : t.inputs[0].type()};
  RunBenchmark(state, kernel, t);
}

void LayerNorm(benchmark::State& state) {
  const int64_t rows = state.range(0), n = state.range(1);
  TestCall t;
  t.op = "LayerNormalization";
  t.inputs = {RandomTensor(TensorType(DType::kFloat32, Shape{rows, n}), 1),
              RandomTensor(TensorType(DType::kFloat32, Shape{n}), 2),
              RandomTensor(TensorType(DType::kFloat32, Shape{n}), 3)};
  t.outputs = {t.inputs[0].type()};
  RunBenchmark(state, kLayerNormFloat, t);
}

void Mean(benchmark::State& state) {
  TestCall t;
  t.op = "ReduceMean";
  t.inputs = {
      RandomTensor(
          TensorType(DType::kUint8, Shape{1, 14, 14, 240}, QuantParams::PerTensor(0.1f, 3)), 1),
      Tensor::FromValues<int64_t>(Shape{2}, {1, 2})};
  t.is_constant = {false, true};
  t.outputs = {TensorType(DType::kUint8, Shape{1, 1, 1, 240}, QuantParams::PerTensor(0.05f, 3))};
  RunBenchmark(state, kReduceMeanByte, t);
}

// Lengths of rows.
void Norms(benchmark::State& state) {
  TestCall t;
  t.op = "ReduceL2";
  t.inputs = {RandomTensor(TensorType(DType::kFloat32, Shape{24576, state.range(0)}), 1),
              Tensor::FromValues<int64_t>(Shape{1}, {1})};
  t.is_constant = {false, true};
  t.outputs = {TensorType(DType::kFloat32, Shape{24576, 1})};
  RunBenchmark(state, *FindKernel("ReduceL2_f32"), t);
}

// Of [range 0, range 1] along an axis: classes of a pixel or of a sample, or planes of channels.
void AlongAxis(benchmark::State& state, const KernelDef& kernel, int64_t axis) {
  TestCall t;
  t.op = kernel.op;
  t.attrs.Set("axis", axis);
  t.inputs = {RandomTensor(TensorType(DType::kFloat32, Shape{state.range(0), state.range(1)}), 1)};
  const Shape reduced = axis == 0 ? Shape{1, state.range(1)} : Shape{state.range(0), 1};
  t.outputs = {t.op == "Softmax" ? t.inputs[0].type() : TensorType(DType::kInt64, reduced)};
  RunBenchmark(state, kernel, t);
}
void ArgMax(benchmark::State& state) { AlongAxis(state, kArgMaxFloat, 1); }
void ArgMaxOfPlanes(benchmark::State& state) { AlongAxis(state, kArgMaxFloat, 0); }
void SoftmaxOfPlanes(benchmark::State& state) { AlongAxis(state, kSoftmaxFloat, 0); }

// Along the middle axis of [outer, n, inner]: a few heads or classes stand last.
void SoftmaxOfColumns(benchmark::State& state) {
  TestCall t;
  t.op = "Softmax";
  t.attrs.Set("axis", 1);
  t.inputs = {RandomTensor(
      TensorType(DType::kFloat32, Shape{state.range(0), state.range(1), state.range(2)}), 1)};
  t.outputs = {t.inputs[0].type()};
  RunBenchmark(state, kSoftmaxFloat, t);
}

BENCHMARK_CAPTURE(Softmax, f32_12x128x128, kSoftmaxFloat, false)
    ->Unit(benchmark::kMicrosecond)
    ->UseRealTime();
BENCHMARK_CAPTURE(Softmax, u8_12x128x128, kSoftmaxByte, true)
    ->Unit(benchmark::kMicrosecond)
    ->UseRealTime();
BENCHMARK(LayerNorm)
    ->ArgNames({"rows", "n"})
    ->ArgsProduct({{256}, {20, 32, 60, 64, 96, 192, 384, 768, 1024}})
    ->Unit(benchmark::kMicrosecond)
    ->UseRealTime();
BENCHMARK(Norms)
    ->ArgName("n")
    ->ArgsProduct({{2, 6, 10, 15, 16, 24, 32, 64}})
    ->Unit(benchmark::kMicrosecond)
    ->UseRealTime();
BENCHMARK(ArgMax)
    ->ArgNames({"rows", "n"})
    ->ArgsProduct({{16641}, {2, 3, 5, 13, 16, 21, 32, 64, 128}})
    ->Args({263169, 21})
    ->Args({64, 1000})
    ->Unit(benchmark::kMicrosecond)
    ->UseRealTime();
BENCHMARK(ArgMaxOfPlanes)
    ->ArgNames({"n", "width"})
    ->ArgsProduct({{2, 21, 150}, {4096, 263169}})
    ->Unit(benchmark::kMicrosecond)
    ->UseRealTime();
BENCHMARK(SoftmaxOfColumns)
    ->ArgNames({"outer", "n", "inner"})
    ->Args({196, 196, 4})
    ->Args({196, 196, 7})
    ->Args({64, 64, 12})
    ->Args({100, 21, 80})
    ->Unit(benchmark::kMicrosecond)
    ->UseRealTime();
BENCHMARK(SoftmaxOfPlanes)
    ->ArgNames({"n", "width"})
    ->ArgsProduct({{2, 21, 150}, {4096, 65536}})
    ->Unit(benchmark::kMicrosecond)
    ->UseRealTime();
BENCHMARK(Mean)->Unit(benchmark::kMicrosecond)->UseRealTime();

}  // namespace
}  // namespace evoq
