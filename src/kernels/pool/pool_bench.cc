#include "kernels/bench_util.h"

namespace evoq {
extern const KernelDef kMaxPoolByte, kMaxPoolFloat, kAveragePoolByte, kAveragePoolFloat,
    kGlobalAveragePoolByte;
namespace {

void Pool(benchmark::State& state, const KernelDef& kernel, DType dtype) {
  const int64_t k = state.range(0), c = state.range(1), size = state.range(2),
                stride = state.range(3);
  const bool global = std::string(kernel.op).starts_with("Global");
  const int64_t out = global ? 1 : (size - 1) / stride + 1;
  TestCall t;
  t.op = kernel.op;
  t.attrs.Set("channels_last", 1);
  t.attrs.Set("kernel_shape", std::vector<int64_t>{k, k});
  t.attrs.Set("strides", std::vector<int64_t>{stride, stride});
  t.attrs.Set("pads", std::vector<int64_t>(4, k / 2));
  const auto type = [&](int64_t s) {
    const Shape shape{1, s, s, c};
    return dtype == DType::kFloat32 ? TensorType(dtype, shape)
                                    : TensorType(dtype, shape, QuantParams::PerTensor(0.1f, 3));
  };
  t.inputs = {RandomTensor(type(size), 1)};
  t.outputs = {type(out)};
  RunBenchmark(state, kernel, t);
}

void Shapes(benchmark::internal::Benchmark* b) {
  b->Args({3, 64, 56, 1})
      ->Args({3, 64, 112, 2})
      ->Args({2, 16, 224, 2})
      ->Args({2, 6, 28, 2})
      ->Args({2, 24, 56, 2})
      ->Args({3, 12, 56, 1})
      ->ArgNames({"k", "c", "size", "stride"})
      ->Unit(benchmark::kMicrosecond)
      ->UseRealTime();
}
BENCHMARK_CAPTURE(Pool, max_u8, kMaxPoolByte, DType::kUint8)->Apply(Shapes);
BENCHMARK_CAPTURE(Pool, max_f32, kMaxPoolFloat, DType::kFloat32)->Apply(Shapes);
BENCHMARK_CAPTURE(Pool, average_u8, kAveragePoolByte, DType::kUint8)->Apply(Shapes);
BENCHMARK_CAPTURE(Pool, average_f32, kAveragePoolFloat, DType::kFloat32)->Apply(Shapes);
BENCHMARK_CAPTURE(Pool, global_average_u8, kGlobalAveragePoolByte, DType::kUint8)
    ->Args({7, 1280, 7, 1})
    ->Args({7, 2048, 7, 1})
    ->UseRealTime()
    ->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace evoq
