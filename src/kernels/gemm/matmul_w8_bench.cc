// Decoding with weights of 8 bits: GB/s counts the weights once.
#include "kernels/bench_util.h"

namespace evoq {
namespace {

void MatMul(benchmark::State& state, const char* kernel, int64_t m, int64_t k, int64_t n) {
  TestCall call;
  call.op = "MatMul";
  const TensorType weights(
      DType::kInt8, Shape{k, n},
      QuantParams{std::vector<float>(n, 0.01f), std::vector<int32_t>(n, 0), 1, 0});
  call.inputs = {RandomTensor(TensorType(DType::kFloat32, Shape{m, k}), 1),
                 RandomTensor(weights, 2)};
  call.is_constant = {false, true};
  call.outputs = {TensorType(DType::kFloat32, Shape{m, n})};
  RunBenchmark(state, *FindKernel(kernel), call, 2.0 * static_cast<double>(m * k * n));
}

const int kRegistered = [] {
  for (const char* kernel : {"matmul_w8", "matmul_f32"}) {
    for (const auto& [m, k, n] : {std::array<int64_t, 3>{1, 4096, 4096},
                                  {4, 4096, 4096},
                                  {8, 4096, 4096},
                                  {16, 4096, 4096},
                                  {1, 4096, 11008},
                                  {1, 768, 3072},
                                  {1, 2048, 1000}}) {
      benchmark::RegisterBenchmark(fmt::format("{}/int8_weights/{}x{}x{}", kernel, m, k, n).c_str(),
                                   [=](benchmark::State& state) { MatMul(state, kernel, m, k, n); })
          ->UseRealTime();
    }
  }
  return 0;
}();

}  // namespace
}  // namespace evoq
