// Google Benchmark cases from kernel rows: one bound kernel, run over and over on the same tensors.
#pragma once

#include <benchmark/benchmark.h>

#include "kernels/test_util.h"

namespace evoq {

// `ops`: operations of one run (2 per multiply-accumulate); 0 reports bytes only. EVOQ_THREADS chooses the threads.
inline void RunBenchmark(benchmark::State& state, const KernelDef& kernel, const TestCall& test, double ops = 0) {
  const char* wanted = std::getenv("EVOQ_THREADS");
  const int threads = wanted != nullptr ? std::max(1, std::atoi(wanted)) : 1;
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
  if (ops > 0) state.counters["GOP/s"] = benchmark::Counter(ops * runs * 1e-9, benchmark::Counter::kIsRate);
}

}  // namespace evoq
