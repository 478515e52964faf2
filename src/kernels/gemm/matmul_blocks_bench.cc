// Products of rows that are rounded to int8 by blocks with int4 and int8 weights, whose weights
// come from memory at each run, as in a network larger than the caches. Counters, of the fastest
// run alone (what counts on a busy machine): `ms`; `of_peak`, the share of what a register tile of
// int8 on the L1 cache reaches; `of_read`, the weights' and scales' bytes as a share of what the
// same threads read of memory. Scales are float16.
#include <chrono>

#include "base/math.h"
#include "kernels/bench_util.h"
#include "kernels/gemm/blocks/block_data.h"
#include "kernels/gemm/blocks/weights.h"
#include "kernels/gemm/int8_peak_bench.h"

namespace evoq {
namespace {

using Clock = std::chrono::steady_clock;

double SecondsSince(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// Bytes a second that the threads read of memory that no cache holds, best of 20.
double ReadRate(ThreadPool& pool) {
  constexpr int64_t kBytes = 256 << 20, kPart = 1 << 16;
  static const std::vector<uint64_t> data(kBytes / 8, 1);
  double best = 0;
  for (int round = 0; round < 20; ++round) {
    const auto start = Clock::now();
    pool.ParallelFor(kBytes / kPart, CeilDiv(kBytes / kPart, pool.threads()),
                     [&](int64_t begin, int64_t end) {
                       uint64_t sum = 0;
                       for (int64_t i = begin * kPart / 8; i < end * kPart / 8; ++i) sum += data[i];
                       benchmark::DoNotOptimize(sum);
                     });
    best = std::max(best, static_cast<double>(kBytes) / SecondsSince(start));
  }
  return best;
}

void Run(benchmark::State& state, DType dtype, int64_t m, int64_t k, int64_t n,
         int64_t weight_block, int64_t data_block) {
  const int threads = BenchThreads();
  ThreadPool pool(threads);
  const auto scales = static_cast<size_t>(weight_block == 0 ? n : CeilDiv(k, weight_block) * n);
  TestCall call;
  call.op = "MatMul";
  call.attrs.Set(kDataBlock, data_block);
  call.inputs = {RandomTensor(TensorType(DType::kFloat32, Shape{m, k}), 1),
                 RandomTensor(TensorType(dtype, Shape{k, n},
                                         QuantParams{std::vector<float>(scales, 0.0078125f),
                                                     std::vector<int32_t>(scales, 0),
                                                     weight_block == 0 ? 1 : 0, weight_block}),
                              2)};
  call.is_constant = {false, true};
  call.outputs = {TensorType(DType::kFloat32, Shape{m, n})};
  const double bytes = static_cast<double>(k * n) * DTypeBits(dtype) / 8 + 2.0 * scales;
  std::vector<BoundTest> copies;
  const int64_t count = static_cast<int64_t>((128 << 20) / bytes) + 1;
  for (int64_t i = 0; i < count; ++i)
    copies.push_back(Bind(*FindKernel("matmul_blocks"), call, SelectIsa().value(), threads));
  std::vector<float> y(static_cast<size_t>(m * n));
  double best = 1e9;
  size_t at = 0;
  for (auto _ : state) {
    const BoundTest& b = copies[at++ % copies.size()];
    const void* in[] = {b.inputs[0].raw(), b.inputs[1].raw(), nullptr, nullptr};
    void* out[] = {y.data()};
    const auto start = Clock::now();
    b.bound.run(b.bound.state.get(), in, out, RunContext{pool, b.scratch});
    best = std::min(best, SecondsSince(start));
  }
  state.counters["ms"] = 1e3 * best;
  state.counters["of_peak"] = 2e-9 * static_cast<double>(m * k * n) / best / Int8PeakGops(threads);
  state.counters["of_read"] = bytes / best / ReadRate(pool);
}

const int kRegistered = [] {
  for (DType dtype : {DType::kInt4, DType::kInt8}) {
    for (const auto& [weight_block, data_block] :
         {std::array<int64_t, 2>{32, 32}, {32, 128}, {128, 128}, {0, 32}}) {
      for (const auto& [m, k, n] : {std::array<int64_t, 3>{1, 4096, 4096},
                                    {1, 4096, 11008},
                                    {2, 4096, 4096},
                                    {4, 4096, 4096},
                                    {8, 4096, 4096},
                                    {16, 4096, 4096},
                                    {32, 4096, 4096},
                                    {128, 4096, 4096},
                                    {512, 2048, 2048}}) {
        benchmark::RegisterBenchmark(
            fmt::format("matmul_blocks/{}/b{}/d{}/{}x{}x{}", DTypeName(dtype), weight_block,
                        data_block, m, k, n)
                .c_str(),
            [=](benchmark::State& state) { Run(state, dtype, m, k, n, weight_block, data_block); })
            ->UseRealTime();
      }
    }
  }
  return 0;
}();

}  // namespace
}  // namespace evoq
