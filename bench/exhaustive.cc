// The search of --scheme auto beside the measurement of every assignment. Run by
// bench/certificate.py.
//   evoq_exhaustive MODEL.onnx MAX_DROP MIN_SQNR SCHEME,SCHEME,... THREADS [DATA LABELS PREPROCESS
//   LIMIT]
// Without DATA 32 random samples. Every assignment of the schemes to the layers is compiled and
// measured beside the float model; from the fastest on, the first ones that keep the limit are
// measured in turn with what the search found. Prints one JSON object.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <nlohmann/json.hpp>

#include "certify/choose.h"
#include "certify/speed.h"
#include "models/models.h"
#include "reference/reference.h"

namespace evoq {
namespace {

constexpr size_t kGroup = 8, kFinalists = 4;
constexpr double kMostAssignments = 20000;

double NowSeconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

struct Candidate {
  std::vector<int> assignment;
  double ratio = 0;  // to the float model's time
  std::unique_ptr<Engine> engine;
};

std::vector<std::string> SplitCommas(std::string text) {
  std::vector<std::string> parts;
  for (size_t at; (at = text.find(',')) != std::string::npos; text.erase(0, at + 1))
    parts.push_back(text.substr(0, at));
  parts.push_back(text);
  return parts;
}

class Exhaustive {
 public:
  Exhaustive(const ChooseJob& job, std::vector<std::string> schemes)
      : job_(job), schemes_(std::move(schemes)), layers_(Layers(job.graph)) {}

  double count() const {
    return std::pow(static_cast<double>(schemes_.size()), static_cast<double>(layers_.size()));
  }

  Result<std::unique_ptr<Engine>> Build(const std::vector<int>& assignment) const {
    MixedPlan plan;
    for (size_t i = 0; i < layers_.size(); ++i)
      plan[job_.graph.node(layers_[i]).name] = {schemes_[static_cast<size_t>(assignment[i])], {}};
    return Build(plan);
  }
  Result<std::unique_ptr<Engine>> Build(const MixedPlan& plan) const {
    Graph graph = job_.graph;
    EVOQ_TRY(QuantizeMixed(graph, job_.ranges, job_.options, plan));
    return EngineFromGraph(std::move(graph), {job_.threads, {}});
  }

  // Every assignment, fastest first.
  Result<std::vector<Candidate>> MeasureAll() const {
    std::vector<Candidate> all;
    EVOQ_ASSIGN(const auto reference, Build(MixedPlan()));
    std::vector<int> next(layers_.size(), 0);
    for (bool more = true; more;) {
      std::vector<std::unique_ptr<Engine>> engines;
      EVOQ_ASSIGN(const std::shared_ptr<Executor> float32, reference->Default());
      std::vector<Runnable*> executors = {float32.get()};  // the engines keep them
      const size_t first = all.size();
      while (more && engines.size() < kGroup) {
        EVOQ_ASSIGN(auto engine, Build(next));
        EVOQ_ASSIGN(const std::shared_ptr<Executor> executor, engine->Default());
        executors.push_back(executor.get());
        engines.push_back(std::move(engine));
        all.push_back({next, 0, nullptr});
        size_t i = 0;
        while (i < next.size() && ++next[i] == static_cast<int>(schemes_.size())) next[i++] = 0;
        more = i < next.size();
      }
      EVOQ_ASSIGN(const std::vector<double> ms, CalmRuns(executors, {.seconds = 0.01}));
      for (size_t i = 0; i < engines.size(); ++i) all[first + i].ratio = ms[i + 1] / ms[0];
    }
    std::sort(all.begin(), all.end(),
              [](const Candidate& a, const Candidate& b) { return a.ratio < b.ratio; });
    return all;
  }

 private:
  const ChooseJob& job_;
  const std::vector<std::string> schemes_;
  const std::vector<NodeId> layers_;
};

struct Options {
  std::string model;
  double max_drop = 0, min_sqnr = 0;
  std::vector<std::string> schemes;
  int threads = 1, limit = 0;
  std::string data, labels, preprocess;
};

Result<Samples> ReadSamples(const Options& o, const Graph& graph) {
  if (o.data.empty()) return RandomInputs(graph, {}, 32);
  DatasetOptions options;
  if (!o.preprocess.empty()) {
    EVOQ_ASSIGN(options.preprocess, LoadPreprocess(o.preprocess));
  }
  options.labels = o.labels;
  options.input_sizes = graph.value(graph.inputs()[0]).type.shape.sizes();
  options.input_dtype = graph.value(graph.inputs()[0]).type.dtype;
  EVOQ_ASSIGN(const auto data, OpenDataset(o.data, options));
  return LoadSamples(*data, o.limit);
}

// The fastest ones that keep the limit.
Result<std::vector<Candidate>> Finalists(const Exhaustive& exhaustive, const ChooseJob& job,
                                         const Samples& samples, const Answers& reference,
                                         Metric metric) {
  EVOQ_ASSIGN(std::vector<Candidate> all, exhaustive.MeasureAll());
  std::vector<Candidate> best;
  for (Candidate& c : all) {
    if (best.size() == kFinalists) break;
    EVOQ_ASSIGN(c.engine, exhaustive.Build(c.assignment));
    EVOQ_ASSIGN(const Answers answers, Answer(*c.engine, samples, {&reference, nullptr, nullptr}));
    EVOQ_ASSIGN(const Accuracy accuracy, CompareAnswers(metric, reference, answers, samples));
    if (accuracy.Keeps(job.limit)) best.push_back(std::move(c));
  }
  return best;
}

Result<nlohmann::json> Run(const Options& o) {
  ChooseJob job;
  EVOQ_ASSIGN(job.graph, LoadOptimizedGraph(o.model));
  EVOQ_TRY(BindShapes(job.graph, {}));
  job.threads = o.threads;
  job.limit = {o.max_drop, o.min_sqnr};
  EVOQ_ASSIGN(const Samples samples, ReadSamples(o, job.graph));
  const PrepareFn prepare = [&](const Graph& graph) -> Result<RunFn> {
    EVOQ_ASSIGN(std::unique_ptr<Engine> engine, EngineFromGraph(graph, {o.threads, {}}));
    return RunFn([shared = std::shared_ptr<Engine>(std::move(engine))](
                     std::span<const Tensor> inputs) { return shared->Run(inputs); });
  };
  const SamplesFn each = [&](const std::function<Status(std::span<const Tensor>)>& use) -> Status {
    for (const auto& inputs : samples.inputs) EVOQ_TRY(use(inputs));
    return {};
  };
  EVOQ_ASSIGN(job.ranges, Calibrate(job.graph, prepare, each, {}));
  const Exhaustive exhaustive(job, o.schemes);
  if (exhaustive.count() > kMostAssignments)
    return Fail(ErrorCode::kTooLarge, "{:.0f} assignments, at most {:.0f}", exhaustive.count(),
                kMostAssignments);
  EVOQ_ASSIGN(const auto float32, exhaustive.Build(MixedPlan()));
  EVOQ_ASSIGN(const Answers reference, Answer(*float32, samples));
  const Metric metric = ChooseMetric(samples, reference);
  EVOQ_ASSIGN(const ChosenPlan chosen, ChoosePrecisions(job, samples, reference, metric));
  EVOQ_ASSIGN(const auto found, exhaustive.Build(chosen.plan));
  const double start = NowSeconds();
  EVOQ_ASSIGN(const std::vector<Candidate> finalists,
              Finalists(exhaustive, job, samples, reference, metric));
  const double seconds = NowSeconds() - start;
  std::vector<Runnable*> executors;  // the engines keep them
  std::vector<Engine*> engines = {found.get(), float32.get()};
  for (const Candidate& c : finalists) engines.push_back(c.engine.get());
  for (Engine* engine : engines) {
    EVOQ_ASSIGN(const std::shared_ptr<Executor> executor, engine->Default());
    executors.push_back(executor.get());
  }
  EVOQ_ASSIGN(const std::vector<double> ms, CalmRuns(executors, {.seconds = 3}));
  const double best = *std::min_element(ms.begin() + 1, ms.end());
  return nlohmann::json{{"model", o.model},
                        {"threads", o.threads},
                        {"assignments", exhaustive.count()},
                        {"found_ms", ms[0]},
                        {"float_ms", ms[1]},
                        {"best_ms", best},
                        {"found_over_best", ms[0] / best},
                        {"search_s", chosen.seconds},
                        {"exhaustive_s", seconds}};
}

}  // namespace
}  // namespace evoq

int main(int argc, char** argv) {
  if (argc != 6 && argc != 10) {
    fmt::print(stderr,
               "evoq_exhaustive MODEL.onnx MAX_DROP MIN_SQNR SCHEME,SCHEME,... THREADS [DATA "
               "LABELS PREPROCESS LIMIT]\n");
    return 2;
  }
  evoq::Options o{argv[1], std::atof(argv[2]), std::atof(argv[3]), evoq::SplitCommas(argv[4]),
                  std::atoi(argv[5])};
  if (argc == 10)
    o.data = argv[6], o.labels = argv[7], o.preprocess = argv[8], o.limit = std::atoi(argv[9]);
  const auto result = evoq::Run(o);
  if (!result) {
    fmt::print(stderr, "evoq_exhaustive: {}\n", result.error().message());
    return 1;
  }
  fmt::print("{}\n", result->dump());
  return 0;
}
