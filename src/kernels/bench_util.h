// Google Benchmark cases from kernel rows: one bound kernel, run over and over on the same tensors.
#pragma once

#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <cstring>

#include "base/aligned.h"
#include "kernels/test_util.h"

namespace evoq {

// Seconds in which the pool's threads copy bytes / 2 bytes, over and over on the same buffers:
// moving `bytes` bytes within the level of memory that they fit into. Best of 20.
inline double CopySeconds(ThreadPool& pool, double bytes) {
  const auto half = std::max<int64_t>(64, static_cast<int64_t>(bytes / 2));
  const int64_t repeats = std::max<int64_t>(1, (int64_t{1} << 21) / half);
  AlignedBuffer from(static_cast<size_t>(half)), to(static_cast<size_t>(half));
  std::memset(from.data(), 1, static_cast<size_t>(half));
  const int64_t part = (half + pool.threads() - 1) / pool.threads();
  double best = 1e9;
  for (int round = 0; round < 20; ++round) {
    const auto start = std::chrono::steady_clock::now();
    for (int64_t r = 0; r < repeats; ++r) {
      pool.ParallelFor(half, part, [&](int64_t begin, int64_t end) {
        std::memcpy(to.data() + begin, from.data() + begin, static_cast<size_t>(end - begin));
      });
      benchmark::ClobberMemory();
    }
    const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - start;
    best = std::min(best, passed.count() / static_cast<double>(repeats));
  }
  return best;
}

// 1, or what EVOQ_THREADS says.
inline int BenchThreads() {
  const char* wanted = std::getenv("EVOQ_THREADS");
  return wanted != nullptr ? std::max(1, std::atoi(wanted)) : 1;
}

// Counters: GB/s of inputs and outputs, and `of_copy`, the share of what memcpy reaches on as many
// bytes (the roofline of kernels that memory bounds). `ops`: operations of one run (2 per
// multiply-accumulate), or 0. EVOQ_THREADS chooses the threads.
inline void RunBenchmark(benchmark::State& state, const KernelDef& kernel, const TestCall& test,
                         double ops = 0) {
  const int threads = BenchThreads();
  BoundTest b = Bind(kernel, test, SelectIsa().value(), threads);
  ThreadPool pool(threads);
  std::vector<const void*> in;
  std::vector<Tensor> results;
  std::vector<void*> out;
  double bytes = 0;
  for (const Tensor& t : b.inputs) {
    in.push_back(t.defined() ? t.raw() : nullptr);
    bytes += static_cast<double>(t.bytes());
  }
  for (const TensorType& type : test.outputs) {
    results.push_back(Tensor::Allocate(type));
    out.push_back(results.back().mutable_raw());
    bytes += static_cast<double>(results.back().bytes());
  }
  for (auto _ : state) {
    b.bound.run(b.bound.state.get(), in.data(), out.data(), RunContext{pool, b.scratch});
    benchmark::ClobberMemory();
  }
  const double runs = static_cast<double>(state.iterations());
  state.counters["GB/s"] = benchmark::Counter(bytes * runs * 1e-9, benchmark::Counter::kIsRate);
  state.counters["of_copy"] =
      benchmark::Counter(CopySeconds(pool, bytes) * runs, benchmark::Counter::kIsRate);
  if (ops > 0)
    state.counters["GOP/s"] = benchmark::Counter(ops * runs * 1e-9, benchmark::Counter::kIsRate);
}

}  // namespace evoq
