// What a parallel step costs besides its work.
#include <benchmark/benchmark.h>

#include "base/thread_pool.h"

namespace evoq {
namespace {

constexpr int64_t kSpinsPerUs = 4000;  // about

// Fork and join of a loop with one piece per thread and nothing to do, the workers awake; ns of one
// loop.
void ForkJoin(benchmark::State& state) {
  const int threads = static_cast<int>(state.range(0));
  ThreadPool pool(threads);
  for (auto _ : state) {
    pool.ParallelFor(threads, 1, [](int64_t begin, int64_t) { benchmark::DoNotOptimize(begin); });
  }
}
BENCHMARK(ForkJoin)->ArgName("threads")->Arg(1)->Arg(2)->UseRealTime();

// A loop of `pieces` equal pieces whose work takes `ns` on one thread in all; cost_ns: what the
// loop took beyond ns / threads.
void Pieces(benchmark::State& state) {
  const int threads = static_cast<int>(state.range(0));
  const int64_t pieces = state.range(1), ns = state.range(2),
                spins = ns * kSpinsPerUs / 1000 / pieces;
  ThreadPool pool(threads);
  const auto work = [&](int64_t begin, int64_t end) {
    for (int64_t i = begin * spins; i < end * spins; ++i) benchmark::DoNotOptimize(i);
  };
  for (auto _ : state) pool.ParallelFor(pieces, 1, work);
}
void Sizes(benchmark::internal::Benchmark* b) {
  for (int64_t ns : {2000, 5000, 20000, 200000}) {
    b->Args({1, 1, ns});
    for (int64_t pieces : {2, 4, 8, 16}) b->Args({2, pieces, ns});
  }
}
BENCHMARK(Pieces)->ArgNames({"threads", "pieces", "ns"})->Apply(Sizes)->UseRealTime();

}  // namespace
}  // namespace evoq
