#include "kernels/bench_util.h"

namespace evoq {
extern const KernelDef kResizeNearest, kResizeLinear;
namespace {

// [1, size, size, c] to `times` as much along both axes.
void Resize(benchmark::State& state, const KernelDef& kernel, const char* mode, DType dtype) {
  const int64_t c = state.range(0), size = state.range(1), times = state.range(2);
  TestCall t;
  t.op = "Resize";
  t.attrs.Set("channels_last", 1);
  t.attrs.Set("mode", mode);
  t.attrs.Set("nearest_mode", "floor");
  t.attrs.Set("coordinate_transformation_mode", "half_pixel");
  const auto type = [&](int64_t s) {
    const Shape shape{1, s, s, c};
    return dtype == DType::kFloat32 ? TensorType(dtype, shape)
                                    : TensorType(dtype, shape, QuantParams::PerTensor(0.1f, 3));
  };
  const std::vector<int64_t> sizes = {1, c, size * times, size * times};
  t.inputs = {RandomTensor(type(size), 1), Tensor(), Tensor(),
              Tensor::FromValues<int64_t>(Shape{4}, sizes)};
  t.is_constant = {false, false, false, true};
  t.outputs = {type(size * times)};
  RunBenchmark(state, kernel, t);
}

void Shapes(benchmark::internal::Benchmark* b) {
  b->Args({64, 28, 2})
      ->Args({256, 13, 2})
      ->Args({21, 65, 8})
      ->ArgNames({"c", "size", "times"})
      ->Unit(benchmark::kMicrosecond)
      ->UseRealTime();
}
BENCHMARK_CAPTURE(Resize, nearest_u8, kResizeNearest, "nearest", DType::kUint8)->Apply(Shapes);
BENCHMARK_CAPTURE(Resize, nearest_f32, kResizeNearest, "nearest", DType::kFloat32)->Apply(Shapes);
BENCHMARK_CAPTURE(Resize, linear_u8, kResizeLinear, "linear", DType::kUint8)->Apply(Shapes);
BENCHMARK_CAPTURE(Resize, linear_f32, kResizeLinear, "linear", DType::kFloat32)->Apply(Shapes);

}  // namespace
}  // namespace evoq
