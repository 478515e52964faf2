// Holds `compare` to what it promises: a model beside itself is the same, and one whose last
// product takes 3% of the whole run longer is slower, by that step. The slower model has more
// classes: as many more as make up the 3%.
//   evoq_compare_bars [--model NAME] [--threads N] [--duration-s D] [--same-runs N] [--slower-runs
//   N]
// Exit code 1 when fewer than 19 of 20 are called the same or fewer than 9 of 10 slower.
#include <CLI/CLI.hpp>
#include <cmath>

#include "bench/fault_models.h"
#include "cli/common.h"
#include "models/models.h"
#include "profile/compare.h"
#include "reference/reference.h"

namespace evoq {
namespace {

constexpr double kSlowdown = 0.03;

struct Settings {
  std::string model = "mobilenetv2";
  int threads = 1, same_runs = 20, slower_runs = 10;
  double duration_s = 2;
};

NodeId LastProduct(const Graph& graph) {
  NodeId last;
  for (NodeId id : graph.order()) {
    if (graph.node(id).op == "MatMul") last = id;
  }
  return last;
}

// The model with `classes` of them: the weights of the first ones again.
Result<Graph> WithClasses(const Graph& model, int64_t classes) {
  Graph graph = model;
  const Node node = graph.node(LastProduct(graph));
  const auto widened = [&](const Tensor& from) {
    std::vector<int64_t> sizes = from.sizes();
    const int64_t had = sizes.back(), rows = from.elements() / had;
    sizes.back() = classes;
    Tensor to = Tensor::Allocate(TensorType(DType::kFloat32, Shape(sizes)));
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t c = 0; c < classes; ++c)
        to.mutable_data<float>()[r * classes + c] = from.data<float>()[r * had + c % had];
    }
    return to;
  };
  for (int i : {1, 2}) {
    const Tensor* constant = graph.ConstantInput(node, i);
    if (constant == nullptr && i == 1)
      return Unsupported("{}: its weights are computed", node.name);
    if (constant != nullptr) graph.SetConstant(node.input(i), widened(*constant));
  }
  TensorType type = graph.value(node.outputs[0]).type;
  std::vector<int64_t> sizes = type.shape.sizes();
  sizes.back() = classes;
  type.shape = Shape(sizes);
  graph.SetType(node.outputs[0], type);
  EVOQ_TRY(InferTypes(graph));
  return graph;
}

Result<std::unique_ptr<Engine>> EngineOf(const FaultModel& m, Graph graph, int threads) {
  EVOQ_ASSIGN(Graph quantized, Quantized(std::move(graph), m.ranges));
  return EngineFromGraph(std::move(quantized), {threads, {}, true});
}

struct Slower {
  std::unique_ptr<Engine> engine;
  int64_t classes = 0;
  double slowdown = 0;  // measured for longer than `compare` does
};

// By the secant method on the number of classes.
Result<Slower> MakeSlower(const FaultModel& m, const Executor& sound, int threads) {
  constexpr int kTries = 5;
  MeasureOptions options;
  options.duration_s = 1.5;
  const NodeId product = LastProduct(m.graph);
  if (!product.valid()) return Unsupported("{} has no MatMul", m.graph.name);
  const auto had = static_cast<double>(
      m.graph.value(m.graph.node(product).outputs[0]).type.shape.sizes().back());
  double more = had;
  Slower slower;
  for (int i = 0; i < kTries && std::fabs(slower.slowdown - kSlowdown) > 0.002; ++i) {
    if (i > 0)
      more =
          std::max(more * std::clamp(kSlowdown / std::max(slower.slowdown, 1e-3), 0.2, 5.0), 16.0);
    slower.classes = static_cast<int64_t>(had + more);
    EVOQ_ASSIGN(Graph graph, WithClasses(m.graph, slower.classes));
    EVOQ_ASSIGN(slower.engine, EngineOf(m, std::move(graph), threads));
    EVOQ_ASSIGN(const std::shared_ptr<Executor> executor, slower.engine->Default());
    const Runnable* const both[] = {&sound, executor.get()};
    EVOQ_ASSIGN(const auto profiles, MeasureStepsInterleaved(both, Limits(), options));
    slower.slowdown = (profiles[1].total_ms + profiles[1].tax_ms() / 2) /
                          (profiles[0].total_ms + profiles[0].tax_ms() / 2) -
                      1;
    Log("{} classes: {:+.2f}%", slower.classes, 100 * slower.slowdown);
  }
  return slower;
}

Result<int> Run(const Settings& s) {
  EVOQ_ASSIGN(const FaultModel m, MakeFaultModel(s.model, s.threads));
  EVOQ_ASSIGN(const auto engine, EngineOf(m, m.graph, s.threads));
  EVOQ_ASSIGN(const std::shared_ptr<Executor> sound, engine->Default());
  CompareOptions compare;
  compare.duration_s = s.duration_s;
  compare.warmup_ms = 50;
  int same = 0, found = 0, named = 0;
  for (int run = 0; run < s.same_runs; ++run) {
    EVOQ_ASSIGN(const CompareRuns runs, CompareExecutors(*sound, *sound, compare));
    same += runs.result.verdict == Verdict::kSame;
    Log("A A: {} {:.3f} ({:.3f} to {:.3f})", VerdictName(runs.result.verdict), runs.result.speedup,
        runs.result.low, runs.result.high);
  }
  Out("{}: A A is the same in {} of {}\n", s.model, same, s.same_runs);
  if (s.slower_runs == 0) return same * 20 >= 19 * s.same_runs ? 0 : 1;
  EVOQ_ASSIGN(const Slower slower, MakeSlower(m, *sound, s.threads));
  EVOQ_ASSIGN(const std::shared_ptr<Executor> slow, slower.engine->Default());
  const std::string& step = m.graph.node(LastProduct(m.graph)).name;
  for (int run = 0; run < s.slower_runs; ++run) {
    EVOQ_ASSIGN(const CompareRuns runs, CompareExecutors(*sound, *slow, compare));
    found += runs.result.verdict == Verdict::kSlower;
    const Runnable* const both[] = {sound.get(), slow.get()};
    MeasureOptions options;
    options.duration_s = s.duration_s / 2;
    EVOQ_ASSIGN(const auto profiles, MeasureStepsInterleaved(both, Limits(), options));
    const std::vector<StepChange> changes = ChangedSteps(profiles[0], profiles[1]);
    named += !changes.empty() && changes[0].name == step;
    Log("A B: {} {:.3f} ({:.3f} to {:.3f}), most in {}", VerdictName(runs.result.verdict),
        runs.result.speedup, runs.result.low, runs.result.high,
        changes.empty() ? "no step" : changes[0].name);
  }
  Out("{}: a step slower by {:.1f}% of the run ({}, {} classes) is found in {} of {}, named in "
      "{}\n",
      s.model, 100 * slower.slowdown, step, slower.classes, found, s.slower_runs, named);
  return same * 20 >= 19 * s.same_runs && found * 10 >= 9 * s.slower_runs ? 0 : 1;
}

}  // namespace
}  // namespace evoq

int main(int argc, char** argv) {
  using namespace evoq;
  Settings settings;
  CLI::App app("Counts how often compare is right.");
  app.add_option("--model", settings.model, "resnet8, or a model of the zoo that ends in a product")
      ->capture_default_str();
  app.add_option("--threads", settings.threads)->capture_default_str();
  app.add_option("--duration-s", settings.duration_s,
                 "Time of each comparison, for both models together")
      ->capture_default_str();
  app.add_option("--same-runs", settings.same_runs)->capture_default_str();
  app.add_option("--slower-runs", settings.slower_runs)->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  const auto code = Run(settings);
  if (!code) Log("{}", code.error().message());
  return code ? *code : 4;
}
