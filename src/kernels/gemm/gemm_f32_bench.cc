#include "kernels/gemm/linear_f32_bench.h"

namespace evoq {
namespace {

struct Sizes {
  int64_t batch, m, k, n;
  bool b_constant;
};

constexpr Sizes kSizes[] = {
    {1, 128, 768, 3072, true},   {1, 128, 3072, 768, true},   {1, 128, 768, 768, true},
    {1, 1024, 1024, 1024, true}, {1, 1, 4096, 4096, true},    {1, 4, 4096, 4096, true},
    {1, 8, 4096, 4096, true},    {1, 1, 25088, 4096, true},   {1, 4, 25088, 4096, true},
    {1, 8, 25088, 4096, true},   {1, 12, 25088, 4096, true},  {1, 128, 4096, 4096, true},
    {1, 3136, 576, 64, true},    {12, 128, 64, 128, false},   {12, 128, 128, 64, false},
    {12, 1, 64, 128, false},     {1, 2048, 2048, 2048, true}, {1, 4096, 4096, 4096, true},
};

void MatMul(benchmark::State& state, const Sizes& s, int threads) {
  const TensorType y(DType::kFloat32, Shape{s.batch, s.m, s.n});
  const std::vector<TensorType> inputs = {
      TensorType(DType::kFloat32, Shape{s.batch, s.m, s.k}),
      TensorType(DType::kFloat32, s.b_constant ? Shape{s.k, s.n} : Shape{s.batch, s.k, s.n})};
  BenchLinearF32(state, *FindKernel("matmul_f32"), Attrs(), inputs, {false, s.b_constant}, y,
                 1.0 * s.batch * s.m * s.k * s.n, threads);
}

const int kRegistered = [] {
  for (int threads : {1, 2}) {
    for (const Sizes& s : kSizes) {
      benchmark::RegisterBenchmark(
          fmt::format("matmul_f32/{}x{}x{}x{}{}/threads:{}", s.batch, s.m, s.k, s.n,
                      s.b_constant ? "" : "_computed_b", threads)
              .c_str(),
          [&s, threads](benchmark::State& state) { MatMul(state, s, threads); })
          ->UseRealTime();
    }
  }
  return 0;
}();

}  // namespace
}  // namespace evoq
