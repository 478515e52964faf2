#include "engine/tune.h"

#include <algorithm>
#include <chrono>
#include <memory>

#include "base/median.h"
#include "compile/choose.h"
#include "compile/compile.h"
#include "compile/plan.h"
#include "engine/tuning_cache.h"
#include "kernels/kernel.h"
#include "runtime/buffers.h"
#include "runtime/executor.h"

namespace evoq {
namespace {

constexpr double kGain = 0.97;  // a variant must be faster than the default by this factor
constexpr int kMinRounds = 5, kMaxRounds = 40, kVerifyRounds = 11;

double NowSeconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Steps that are alike, and what they may be.
struct Kind {
  std::string key, kernel;
  std::vector<size_t> steps;
  std::vector<StepTuning> candidates;  // the default first
  std::vector<std::vector<double>>
      samples;  // per candidate: ns of all its steps together, per round
};

// Everything that the speed of a step may depend on, and nothing that it does not (names, scales).
std::string KeyOf(const Graph& graph, const Step& step, const std::string& machine, int threads) {
  const Node& node = graph.node(step.node);
  std::string key = fmt::format("{}; {} threads; {}", machine, threads, step.decision.kernel);
  const auto add = [&](ValueId id) {
    if (!id.valid()) {
      key += " _";
      return;
    }
    const TensorType& type = graph.value(id).type;
    key += fmt::format(" {}{}", DTypeName(type.dtype), type.shape.ToString());
    if (type.quantized()) key += fmt::format("q{}/{}", type.quant->axis, ScaleCount(type));
    if (graph.value(id).is_constant()) key += "c";
  };
  for (ValueId id : node.inputs) add(id);
  key += " ->";
  for (ValueId id : node.outputs) add(id);
  Attrs attrs;
  for (const auto& [name, value] : node.attrs) {
    if (!name.starts_with("evoq.")) attrs.Set(name, value);
  }
  return key + " " + attrs.ToString();
}

std::vector<StepTuning> Candidates(const Graph& graph, const Step& step, Isa isa, int threads) {
  std::vector<StepTuning> candidates = {StepTuning{}};
  const KernelDef* const kernel = step.kernel;
  if (kernel == nullptr) return candidates;
  if (kernel->variants != nullptr) {
    const NodeCall args(graph, graph.node(step.node));
    for (std::string& name : kernel->variants(args.call, {isa, threads, {}}))
      candidates.push_back({std::move(name), 0, {}});
  }
  if (threads > 1) candidates.push_back({"", 1, {}});
  return candidates;
}

std::string Describe(const Kind& kind, const StepTuning& tuning) {
  return fmt::format("{} {}{}", kind.kernel, tuning.variant.empty() ? "default" : tuning.variant,
                     tuning.threads == 1 ? ", 1 thread" : "");
}

// One executor per candidate number: all kinds try theirs at once.
Result<std::vector<std::unique_ptr<Executor>>> Bind(const Program& program,
                                                    std::span<const Kind> kinds,
                                                    const ExecutorOptions& options) {
  size_t count = 1;
  for (const Kind& kind : kinds) count = std::max(count, kind.candidates.size());
  std::vector<std::unique_ptr<Executor>> executors;
  for (size_t i = 0; i < count; ++i) {
    auto variant = std::make_shared<Program>(program);
    for (const Kind& kind : kinds) {
      if (i >= kind.candidates.size()) continue;
      for (size_t s : kind.steps) variant->steps[s].tuning = kind.candidates[i];
    }
    EVOQ_ASSIGN(auto executor, Executor::Create(std::move(variant), options));
    executors.push_back(std::move(executor));
  }
  return executors;
}

Status Measure(std::span<const std::unique_ptr<Executor>> executors, std::vector<Kind>& kinds,
               const TuneOptions& options) {
  RunBuffers buffers = MakeBuffers(*executors[0]);
  std::vector<int64_t> ns(executors[0]->program().steps.size());
  for (Kind& kind : kinds) kind.samples.resize(kind.candidates.size());
  const double start = NowSeconds();
  for (int round = 0; round < kMaxRounds; ++round) {
    const double seconds = NowSeconds() - start;
    if (round >= kMinRounds && seconds >= options.seconds) break;
    if (options.progress)
      EVOQ_TRY(options.progress(std::min(1.0, seconds / std::max(options.seconds, 1e-9))));
    for (size_t i = 0; i < executors.size(); ++i) {
      EVOQ_TRY(executors[i]->RunTimed(buffers.inputs, buffers.outputs, ns));
      for (Kind& kind : kinds) {
        if (i >= kind.candidates.size()) continue;
        int64_t sum = 0;
        for (size_t s : kind.steps) sum += ns[s];
        kind.samples[i].push_back(static_cast<double>(sum));
      }
    }
  }
  return {};
}

StepTuning Choose(const Kind& kind) {
  std::vector<double> ns;
  for (std::vector<double> samples : kind.samples) ns.push_back(Median(samples));
  const size_t fastest = static_cast<size_t>(std::min_element(ns.begin(), ns.end()) - ns.begin());
  const size_t chosen = ns[fastest] < kGain * ns[0] ? fastest : 0;
  StepTuning tuning = kind.candidates[chosen];
  const double steps = 1e3 * static_cast<double>(kind.steps.size());
  for (size_t i = 0; i < ns.size(); ++i) {
    if (i == chosen) continue;
    tuning.slower.push_back(
        {Describe(kind, kind.candidates[i]),
         {kSlowerWhenMeasured, fmt::format("{:.2f} us, {} takes {:.2f} us", ns[i] / steps,
                                           Describe(kind, tuning), ns[chosen] / steps)}});
  }
  return tuning;
}

// Whole runs with and without the choices, in turn.
Status Verify(const Program& program, const std::map<size_t, StepTuning>& chosen,
              const ExecutorOptions& options, TuneReport& report) {
  auto tuned = std::make_shared<Program>(program);
  for (const auto& [s, tuning] : chosen) tuned->steps[s].tuning = tuning;
  const std::shared_ptr<const Program> programs[] = {std::make_shared<Program>(program), tuned};
  std::vector<double> ms[2];
  std::unique_ptr<Executor> executors[2];
  for (int i = 0; i < 2; ++i) {
    EVOQ_ASSIGN(executors[i], Executor::Create(programs[i], options));
  }
  RunBuffers buffers = MakeBuffers(*executors[0]);
  for (int round = 0; round < kVerifyRounds; ++round) {
    for (int i = 0; i < 2; ++i) {
      EVOQ_TRY(executors[i]->Run(buffers.inputs, buffers.outputs));
      const double start = NowSeconds();
      EVOQ_TRY(executors[i]->Run(buffers.inputs, buffers.outputs));
      ms[i].push_back((NowSeconds() - start) * 1e3);
    }
  }
  report.default_ms = Median(ms[0]);
  report.tuned_ms = Median(ms[1]);
  return {};
}

// What remains of a choice when the tuned run as a whole is not faster.
StepTuning Withdraw(const Kind& kind, const StepTuning& tuning, const TuneReport& report) {
  if (tuning.variant.empty() && tuning.threads == 0) return tuning;
  return {
      "",
      0,
      {{Describe(kind, tuning),
        {kSlowerWhenMeasured,
         fmt::format(
             "the whole run takes {:.4f} ms with what was fastest for each step, {:.4f} ms without",
             report.tuned_ms, report.default_ms)}}}};
}

}  // namespace

Result<TuneReport> TuneModel(Model& model, const TuneOptions& given) {
  const double start = NowSeconds();
  TuneOptions options = given;
  if (options.threads <= 0) options.threads = PhysicalCores();
  TuneReport report;
  EVOQ_ASSIGN(const Program program, Compile(model, *options.evaluator, options.shapes));
  TuningCache cache;
  if (Result<TuningCache> opened = TuningCache::Open(options.cache_path)) {
    cache = std::move(*opened);
  } else {
    report.warnings.push_back("the tuning cache is ignored: " + opened.error().message());
  }
  const std::string machine = MachineName(options.isa);
  std::map<size_t, StepTuning> chosen;  // by step
  std::vector<Kind> kinds;
  for (size_t s = 0; s < program.steps.size(); ++s) {
    const Step& step = program.steps[s];
    std::vector<StepTuning> candidates =
        Candidates(*program.graph, step, options.isa, options.threads);
    if (candidates.size() < 2) continue;
    ++report.steps;
    const std::string key = KeyOf(*program.graph, step, machine, options.threads);
    if (const StepTuning* known = cache.Find(key)) {
      chosen[s] = *known;
      continue;
    }
    auto kind =
        std::find_if(kinds.begin(), kinds.end(), [&](const Kind& k) { return k.key == key; });
    if (kind == kinds.end())
      kind = kinds.insert(kind, {key, step.decision.kernel, {}, std::move(candidates), {}});
    kind->steps.push_back(s);
  }
  report.measured = static_cast<int>(kinds.size());
  if (!kinds.empty()) {
    // They run in turn: one set of threads, which finds no time to fall asleep.
    const ExecutorOptions run{options.threads, options.isa, 1,
                              std::make_shared<ThreadPool>(options.threads)};
    EVOQ_ASSIGN(const auto executors, Bind(program, kinds, run));
    EVOQ_TRY(Measure(executors, kinds, options));
    for (const Kind& kind : kinds) {
      const StepTuning tuning = Choose(kind);
      for (size_t s : kind.steps) chosen[s] = tuning;
    }
    EVOQ_TRY(Verify(program, chosen, run, report));
    for (const Kind& kind : kinds) {
      const StepTuning tuning = report.tuned_ms < report.default_ms
                                    ? chosen[kind.steps[0]]
                                    : Withdraw(kind, chosen[kind.steps[0]], report);
      for (size_t s : kind.steps) chosen[s] = tuning;
      cache.Put(kind.key, tuning);
    }
    if (const Status saved = cache.Save(options.cache_path); !saved)
      report.warnings.push_back("the tuning cache is not saved: " + saved.error().message());
  }
  Tuning tuning{machine, options.threads, {}};
  for (const auto& [s, step] : chosen) {
    tuning.steps[program.graph->node(program.steps[s].node).name] = step;
    report.changed += !step.variant.empty() || step.threads != 0;
  }
  std::vector<Tuning>& tunings = PlanFor(model, program).tunings;
  std::erase_if(tunings, [&](const Tuning& t) {
    return t.machine == tuning.machine && t.threads == tuning.threads;
  });
  tunings.push_back(std::move(tuning));
  report.seconds = NowSeconds() - start;
  return report;
}

}  // namespace evoq
