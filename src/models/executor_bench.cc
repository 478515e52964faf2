// What the executor costs outside kernels: chains of steps that do next to nothing.
#include <benchmark/benchmark.h>

#include <cstdlib>

#include "models/models.h"

namespace evoq {
namespace {

constexpr int kSteps = 1000;

// `kSteps` nodes in a row on `elements` floats, Mul and Add by constant vectors in turn. Built
// after the optimizer, which would merge them.
Graph Chain(int64_t elements) {
  Graph g;
  g.name = "chain";
  ValueId x = g.AddInput("x", TensorType(DType::kFloat32, Shape{1, elements}));
  const ValueId c = g.AddConstant(
      "c", Tensor::FromValues<float>(Shape{elements}, std::vector<float>(elements, 0.5f)));
  for (int i = 0; i < kSteps; ++i)
    x = g.Apply(i % 2 ? "Add" : "Mul", "step_" + std::to_string(i), {x, c}, {},
                TensorType(DType::kFloat32, Shape{1, elements}));
  g.MarkOutput(x);
  return g;
}

// ns per step: all of it, kernels included; the kernels' share is that of `elements` = 16 against 0
// extra work.
void ChainOf1000(benchmark::State& state) {
  const int threads = static_cast<int>(state.range(0));
  EngineOptions options;
  options.threads = threads;
  auto engine = EngineFromGraph(Chain(state.range(1)), options);
  if (!engine) return state.SkipWithError(engine.error().message().c_str());
  const std::shared_ptr<Executor> executor = (*engine)->Default().value();
  if (executor->program().steps.size() != kSteps)
    return state.SkipWithError("the chain was merged");
  std::vector<Tensor> in = {Tensor::Allocate(executor->input_types()[0])},
                      out = {Tensor::Allocate(executor->output_types()[0])};
  for (auto _ : state) {
    if (!executor->Run(in, out)) return state.SkipWithError("the run failed");
  }
  state.counters["ns_per_step"] =
      benchmark::Counter(1e-9 * kSteps * static_cast<double>(state.iterations()),
                         benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
}
BENCHMARK(ChainOf1000)
    ->ArgNames({"threads", "elements"})
    ->Args({1, 16})
    ->Args({2, 16})
    ->Args({1, 1024})
    ->Args({2, 1024})
    ->UseRealTime();

// From the path of an .etm (the environment variable EVOQ_MODEL) to an executor that can run.
void Load(benchmark::State& state) {
  const char* path = std::getenv("EVOQ_MODEL");
  if (path == nullptr) return state.SkipWithError("EVOQ_MODEL names no .etm");
  EngineOptions options;
  options.threads = static_cast<int>(state.range(0));
  for (auto _ : state) {
    auto engine = LoadEngine(path, options);
    if (!engine || !(*engine)->Default()) return state.SkipWithError("the model does not load");
  }
}
BENCHMARK(Load)->ArgName("threads")->Arg(1)->Arg(2)->Unit(benchmark::kMillisecond)->UseRealTime();

}  // namespace
}  // namespace evoq
