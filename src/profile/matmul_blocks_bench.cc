// Products of rows that are rounded to int8 by blocks with weights of 2 to 8 bits, against what
// `evoq limits` measures with as many threads. Of each shape there are so many matrices, one for
// each run in turn, that none is in a cache when its turn comes, as in a network larger than the
// caches; `cached`: one matrix, small enough to stay in the L3 cache. Counters, of the fastest run
// alone (what counts on a busy machine): `ms`; `of_peak`, the share of int8_gops; `of_read`, the
// bytes of weights and scales as a share of what is read in that time at `read_gbps`, which is
// dram_read_gbps or, cached, l3_read_gbps. Scales are float16.
#include <chrono>
#include <map>

#include "base/math.h"
#include "kernels/bench_util.h"
#include "kernels/gemm/blocks/block_data.h"
#include "profile/limits.h"

namespace evoq {
namespace {

// Measured once for each number of threads, each the best of four times.
const Limits& LimitsOf(int threads) {
  static std::map<int, Limits> limits;
  const auto [at, is_new] = limits.try_emplace(threads);
  Limits& best = at->second;
  for (int i = 0; is_new && i < 4; ++i) {
    const Limits now = MeasureLimits(SelectIsa().value(), threads);
    best.int8_gops = std::max(best.int8_gops, now.int8_gops);
    best.dram_read_gbps = std::max(best.dram_read_gbps, now.dram_read_gbps);
    best.l3_read_gbps = std::max(best.l3_read_gbps, now.l3_read_gbps);
  }
  return best;
}

// Up to twice of what `evoq limits` reads the L3 cache with: as RooflineNs takes steps.
constexpr int64_t kMostCached = 16 << 20;

// Of weights, scales and, of 2 bits, zero points.
int64_t BytesOf(DType dtype, int64_t k, int64_t n, int64_t weight_block) {
  const int64_t scales = weight_block == 0 ? n : CeilDiv(k, weight_block) * n;
  return k * n * DTypeBits(dtype) / 8 + (dtype == DType::kUint2 ? 3 : 2) * scales;
}

void Run(benchmark::State& state, DType dtype, int64_t m, int64_t k, int64_t n,
         int64_t weight_block, int64_t data_block, bool cached) {
  using Clock = std::chrono::steady_clock;
  const int threads = BenchThreads();
  ThreadPool pool(threads);
  const auto scales = static_cast<size_t>(weight_block == 0 ? n : CeilDiv(k, weight_block) * n);
  // 2 bits have zero points that differ from block to block, as quantization writes them.
  std::vector<int32_t> zeros(scales, 0);
  for (size_t i = 0; dtype == DType::kUint2 && i < scales; ++i) zeros[i] = 1 + i % 2;
  TestCall call;
  call.op = "MatMul";
  call.attrs.Set(kDataBlock, data_block);
  call.inputs = {RandomTensor(TensorType(DType::kFloat32, Shape{m, k}), 1),
                 RandomTensor(TensorType(dtype, Shape{k, n},
                                         QuantParams{std::vector<float>(scales, 0.0078125f), zeros,
                                                     weight_block == 0 ? 1 : 0, weight_block}),
                              2)};
  call.is_constant = {false, true};
  call.outputs = {TensorType(DType::kFloat32, Shape{m, n})};
  const int64_t bytes = BytesOf(dtype, k, n, weight_block);
  const int64_t count =
      cached ? 1 : CeilDiv(std::max<int64_t>(128 << 20, 4 * LargestCacheBytes()), bytes);
  std::vector<BoundTest> copies;
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
    best = std::min(best, std::chrono::duration<double>(Clock::now() - start).count());
  }
  state.counters["ms"] = 1e3 * best;
  const Limits& limits = LimitsOf(threads);
  const double gbps = cached ? limits.l3_read_gbps : limits.dram_read_gbps;
  state.counters["of_peak"] = 2e-9 * static_cast<double>(m * k * n) / best / limits.int8_gops;
  state.counters["of_read"] = 1e-9 * static_cast<double>(bytes) / best / gbps;
  state.counters["read_gbps"] = gbps;
}

const int kRegistered = [] {
  for (DType dtype : {DType::kInt4, DType::kUint2, DType::kFloat4E2M1, DType::kInt8}) {
    for (const auto& [weight_block, data_block] :
         {std::array<int64_t, 2>{32, 32}, {32, 128}, {128, 128}, {0, 32}}) {
      for (const auto& [m, k, n] : {std::array<int64_t, 3>{1, 4096, 4096},
                                    {1, 4096, 11008},
                                    {1, 896, 4864},
                                    {8, 896, 4864},
                                    {8, 4864, 896},
                                    {1, 896, 151936},
                                    {2, 4096, 4096},
                                    {4, 4096, 4096},
                                    {8, 4096, 4096},
                                    {16, 4096, 4096},
                                    {32, 4096, 4096},
                                    {128, 4096, 4096},
                                    {512, 2048, 2048},
                                    {512, 896, 4864},
                                    {512, 4864, 896}}) {
        for (const bool cached : {false, true}) {
          if (cached && BytesOf(dtype, k, n, weight_block) > kMostCached) continue;
          benchmark::RegisterBenchmark(
              fmt::format("matmul_blocks/{}/b{}/d{}/{}x{}x{}{}", DTypeName(dtype), weight_block,
                          data_block, m, k, n, cached ? "/cached" : "")
                  .c_str(),
              [=](benchmark::State& state) {
                Run(state, dtype, m, k, n, weight_block, data_block, cached);
              })
              ->UseRealTime();
        }
      }
    }
  }
  return 0;
}();

}  // namespace
}  // namespace evoq
