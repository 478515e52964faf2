// Decoding with weights of each format, against the same weights as float32: GB/s counts the
// weights once. Scales are per column, or per block of 32 where a format has fewer than 8 bits.
#include "kernels/bench_util.h"
#include "kernels/gemm/weights/formats.h"

namespace evoq {
namespace {

void MatMul(benchmark::State& state, const char* kernel, const WeightFormat& format, int64_t m,
            int64_t k, int64_t n) {
  TestCall call;
  call.op = "MatMul";
  const int64_t block = format.bits < 8 ? 32 : 0;
  const auto count = static_cast<size_t>(block == 0 ? n : (k + block - 1) / block * n);
  const QuantParams quant{std::vector<float>(count, 0.01f), std::vector<int32_t>(count, 0),
                          block == 0 ? 1 : 0, block};
  call.inputs = {RandomTensor(TensorType(DType::kFloat32, Shape{m, k}), 1),
                 RandomTensor(TensorType(format.dtypes[0], Shape{k, n}, quant), 2)};
  call.is_constant = {false, true};
  call.outputs = {TensorType(DType::kFloat32, Shape{m, n})};
  RunBenchmark(state, *FindKernel(kernel), call, 2.0 * static_cast<double>(m * k * n));
}

const int kRegistered = [] {
  for (WeightFormatRows rows : AllWeightFormats()) {
    const WeightFormat& format = *rows.back().table;
    for (const auto& [m, k, n] : {std::array<int64_t, 3>{1, 4096, 4096},
                                  {4, 4096, 4096},
                                  {8, 4096, 4096},
                                  {16, 4096, 4096},
                                  {17, 4096, 4096},
                                  {32, 4096, 4096},
                                  {64, 4096, 4096},
                                  {256, 4096, 4096},
                                  {32, 11008, 1024},
                                  {32, 768, 3072},
                                  {32, 256, 256},
                                  {1, 4096, 11008},
                                  {1, 768, 3072},
                                  {1, 2048, 1000}}) {
      for (const char* kernel : {"matmul_w8", "matmul_f32"}) {
        if (m > 16 && std::string_view(kernel) == "matmul_w8") continue;
        benchmark::RegisterBenchmark(
            fmt::format("{}/{}_weights/{}x{}x{}", kernel, format.name, m, k, n).c_str(),
            [=, &format](benchmark::State& state) { MatMul(state, kernel, format, m, k, n); })
            ->UseRealTime();
      }
    }
  }
  return 0;
}();

}  // namespace
}  // namespace evoq
