#include "predict/predict.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "models/models.h"
#include "ops/op.h"
#include "passes/widen.h"
#include "predict/loops.h"
#include "profile/machine.h"
#include "profile/measure.h"
#include "program/etm_size.h"
#include "quant/assume.h"
#include "quant/quant.h"
#include "quant/scheme_names.h"
#include "reference/reference.h"

namespace evoq {
namespace {

constexpr double kSameShare = 0.05;  // of float32's time: no payoff either way
constexpr double kWakeNs =
    20'000;                     // of threads that sleep: between 13 and 40 microseconds were seen
constexpr double kRunNs = 300;  // of a run outside its steps
constexpr double kDeviations = 1.65;  // nine of ten

// The model that quantize would write.
Result<std::unique_ptr<Engine>> Carry(Graph graph, const QuantScheme& scheme,
                                      int64_t float_weight_bytes, const PredictOptions& options) {
  Ranges ranges = options.ranges;
  if (!scheme.widens) EVOQ_TRY(WidenConstants(graph));
  if (scheme.needs_calibration && ranges.empty()) {
    Graph bound = graph;
    EVOQ_TRY(BindShapes(bound, options.shapes));
    ranges = AssumedRanges(bound);
  }
  EVOQ_TRY(scheme.run(graph, ranges, {}));
  graph.metadata["evoq.scheme"] = scheme.name;  // as quantize notes it
  graph.metadata["evoq.float_weight_bytes"] = std::to_string(float_weight_bytes);
  return EngineFromGraph(std::move(graph),
                         {options.limits.threads, options.shapes, /*stored_tuning=*/false});
}

// Measures again while the machine is busy with something else; the least disturbed time counts.
Status Measure(Runnable& executor, const MachineLimits& limits, SchemeForecast& scheme) {
  constexpr int kAttempts = 4;
  constexpr double kUndisturbed = 0.95;
  RunBuffers buffers = MakeBuffers(executor);
  MeasureOptions options;
  options.warmup_ms = 30;
  options.duration_s = 0.15;
  options.min_runs = 5;
  StepProfile profile;
  double pace = PresentFp32Gflops(limits.isa, limits.threads);
  for (int i = 0; i < kAttempts && scheme.machine_share < kUndisturbed; ++i) {
    EVOQ_ASSIGN(StepProfile now, MeasureSteps(executor, buffers, limits, options));
    const double after = PresentFp32Gflops(limits.isa, limits.threads),
                 share = std::min(pace, after) / limits.fp32_gflops;
    pace = after;
    if (share <= scheme.machine_share) continue;
    scheme.machine_share = share;
    profile = std::move(now);
  }
  scheme.measured_ms = profile.total_ms;
  for (size_t i = 0; i < profile.steps.size(); ++i)
    scheme.step_list[i].measured_ms = WithoutClockMs(profile, i);
  return {};
}

// What a run has in memory: constants that a kernel holds as floats count as those.
int64_t RunBytes(const Runnable& executor) {
  const Program& program = executor.program();
  int64_t bytes = program.weight_bytes + program.live_bytes;
  for (size_t i = 0; i < program.steps.size(); ++i) {
    const CostInput input(*program.graph, program.steps[i], executor.plans()[i], 0);
    for (const Tensor* constant : input.args.constants)
      bytes -= constant == nullptr ? 0 : static_cast<int64_t>(constant->bytes());
    bytes += input.weight_bytes();
  }
  return bytes;
}

// Of steps that threads share and that come after more work of one thread than the others spin for:
// these sleep then. In the steady state: what comes before the first step is the end of the run
// before.
std::vector<bool> Wakes(const std::vector<StepCost>& costs, const std::vector<Cut>& cuts) {
  std::vector<bool> wakes(costs.size());
  double idle_ns = 0;
  for (size_t turn = 0; turn < 2 * costs.size(); ++turn) {
    const size_t i = turn % costs.size();
    wakes[i] = cuts[i].loops > 0 && idle_ns > static_cast<double>(ThreadPool::kSpinNs);
    idle_ns = cuts[i].loops > 0 ? 0 : idle_ns + costs[i].ns;
  }
  return wakes;
}

// Values that a run extends where they lie.
std::set<int> ExtendedInPlace(const Runnable& executor) {
  std::set<int> values;
  const std::vector<ValueId>& outputs = executor.program().graph->outputs();
  for (size_t o = 0; executor.repeats_in_place() && o < outputs.size(); ++o) {
    if (executor.shared_input(o) >= 0) values.insert(outputs[o].index);
  }
  return values;
}

// Whether a step by its definition may take a share of a run of `run_ns` that counts: a value takes
// it up to some hundred nanoseconds. What only asks for a shape reads no values.
bool MayCount(const CostInput& input, double run_ns) {
  constexpr double kMostNs = 100, kShare = 0.05;
  if (FindOp(input.node) == nullptr || GivesSizes(input.node) || !input.node.bodies.empty())
    return false;
  return kMostNs * static_cast<double>(input.in_elements() + input.out_elements()) >
         kShare * run_ns;
}

// A step with the multiply-adds of one of its `runs`, which it counts together.
Step OfOneRun(Step step, int64_t runs) {
  step.macs /= std::max<int64_t>(runs, 1);
  return step;
}

// Every step's cost and their sum.
void Estimate(const Runnable& executor, const MachineLimits& limits, SchemeForecast& scheme) {
  const Program& program = executor.program();
  const Rates rates(limits);
  // Where threads take whole samples, each step has one thread and several are under way.
  const int64_t repeats = executor.repeats(),
                lanes = std::min<int64_t>(repeats, executor.threads());
  ThreadPool pool(repeats > 1 ? 1 : executor.threads());
  const double runs = static_cast<double>(repeats) / static_cast<double>(lanes);
  const std::span<const int64_t> step_runs = executor.step_runs();
  std::map<const CostFamily*, double> off;  // ns that a family may be off
  double ns = kRunNs;
  const int64_t run_bytes = RunBytes(executor);
  std::vector<Cut> cuts;
  std::vector<StepCost> costs;
  const std::set<int> extended = ExtendedInPlace(executor);
  for (size_t i = 0; i < program.steps.size(); ++i) {
    const Step step = OfOneRun(program.steps[i], step_runs.empty() ? 1 : step_runs[i]);
    CostInput input(*program.graph, step, executor.plans()[i], run_bytes);
    input.extends = extended.contains(input.node.outputs[0].index);
    cuts.push_back(CutOf(input, limits.isa, pool));
    costs.push_back(CostOf(input, rates, cuts[i], pool.threads()));
  }
  const std::vector<bool> wakes = Wakes(costs, cuts);
  double known_ns = kRunNs;
  for (const StepCost& cost : costs) known_ns += cost.family->by_definition ? 0 : cost.ns;
  for (size_t i = 0; i < program.steps.size(); ++i) {
    const Step& step = program.steps[i];
    const Node& node = program.graph->node(step.node);
    const StepCost& cost = costs[i];
    const double times = step_runs.empty() ? runs : static_cast<double>(step_runs[i]);
    const double step_ns = (cost.ns + (wakes[i] ? kWakeNs : 0)) * times;
    StepForecast s;
    s.name = node.name;
    s.op = node.op;
    s.kernel = step.decision.kernel;
    s.plan = executor.plans()[i];
    s.precision = step.decision.precision;
    if (node.outputs[0].valid())
      s.shape = program.graph->value(node.outputs[0]).type.shape.ToString();
    s.family = cost.family;
    s.ms = step_ns / 1e6;
    s.cut = cuts[i];
    s.terms = cost.terms;
    s.weighed = cost.weighed;
    s.known = !cost.family->by_definition ||
              !MayCount({*program.graph, step, s.plan, run_bytes}, known_ns);
    if (s.known) {
      ns += step_ns;
      off[cost.family] += step_ns * cost.spread;
    } else {
      scheme.unknown.push_back(s.name);
    }
    scheme.steps.Add(step.decision.precision);
    scheme.step_list.push_back(std::move(s));
  }
  const double common = CommonSpread(rates.efficiencies.front().on, limits);
  double variance = common * common;
  for (const auto& [family, family_off] : off) variance += family_off / ns * (family_off / ns);
  const double factor = std::exp(kDeviations * std::sqrt(variance));
  scheme.ms = ns / 1e6;
  scheme.low_ms = scheme.ms / factor;
  scheme.high_ms = scheme.ms * factor;
}

Result<std::shared_ptr<Runnable>> RunnableOf(Engine& engine, const PredictRun& run) {
  if (engine.in_regions().empty()) {
    EVOQ_ASSIGN(std::shared_ptr<Executor> executor, engine.At(run.shapes));
    if (run.repeats_in_place) executor->UseSample(run.sample, true);
    return std::shared_ptr<Runnable>(std::move(executor));
  }
  if (run.sample.empty())
    return Fail(ErrorCode::kUsage, "its steps depend on data ({}): name inputs to run it on",
                engine.in_regions());
  return WithContext(engine.RunnableFor(run.sample),
                     "on the given or made-up inputs (--input NAME=F.npy gives real ones)");
}

Result<SchemeForecast> PredictRunOf(Engine& engine, const QuantScheme& scheme,
                                    const PredictRun& run, const Forecast& forecast,
                                    const PredictOptions& options) {
  SchemeForecast told;
  told.scheme = scheme.name;
  EVOQ_ASSIGN(const std::shared_ptr<Runnable> executor, RunnableOf(engine, run));
  told.file_bytes = EtmBytes(engine.model());
  told.weight_bytes = executor->program().weight_bytes;
  told.arena_bytes = executor->arena_bytes();
  Estimate(*executor, options.limits, told);
  const SchemeForecast* float32 = forecast.schemes.empty() ? nullptr : &forecast.schemes[0];
  if (float32 != nullptr) {
    told.speedup = float32->ms / told.ms;
    const bool known = told.unknown.empty() && float32->unknown.empty();
    told.payoff = known ? PayoffOf(told.speedup) : Payoff::kNotKnown;
    FindHindrances(*float32, executor->program(), options.limits, told);
  }
  if (options.check) EVOQ_TRY(Measure(*executor, options.limits, told));
  return told;
}

// Of every run, in the order of `forecasts`.
Result<std::vector<SchemeForecast>> PredictScheme(const Graph& graph, const QuantScheme& scheme,
                                                  std::span<const PredictRun> runs,
                                                  std::span<const Forecast> forecasts,
                                                  const PredictOptions& options) {
  EVOQ_ASSIGN(const std::unique_ptr<Engine> engine,
              Carry(graph, scheme, options.float_weight_bytes, options));
  std::vector<SchemeForecast> schemes;
  for (size_t r = 0; r < runs.size(); ++r) {
    EVOQ_ASSIGN(SchemeForecast told, PredictRunOf(*engine, scheme, runs[r], forecasts[r], options));
    schemes.push_back(std::move(told));
  }
  return schemes;
}

// float32, which the others are compared with, then those asked for in the list's order.
Result<std::vector<const QuantScheme*>> SchemesOf(const std::vector<std::string>& names) {
  std::vector<const QuantScheme*> schemes = {FindScheme("float32")};
  EVOQ_CHECK(schemes[0] != nullptr);
  for (const std::string& name : names) {
    if (FindScheme(name) == nullptr)
      return Fail(ErrorCode::kUsage, "--scheme {}: not one of `evoq list schemes`{}", name,
                  SchemeHint(name));
  }
  for (const QuantScheme* scheme : AllSchemes()) {
    const bool wanted =
        names.empty() || std::find(names.begin(), names.end(), scheme->name) != names.end();
    if (wanted && scheme != schemes[0]) schemes.push_back(scheme);
  }
  return schemes;
}

}  // namespace

const char* PayoffName(Payoff payoff) {
  switch (payoff) {
    case Payoff::kFaster: return "faster";
    case Payoff::kSame: return "same";
    case Payoff::kSlower: return "slower";
    case Payoff::kNotKnown: break;
  }
  return "not-known";
}

Payoff PayoffOf(double speedup) {
  if (speedup > 1 + kSameShare) return Payoff::kFaster;
  return speedup < 1 / (1 + kSameShare) ? Payoff::kSlower : Payoff::kSame;
}

Result<Forecast> Predict(const Graph& optimized, const std::string& name,
                         const PredictOptions& options) {
  const PredictRun run{options.run_shapes.empty() ? options.shapes : options.run_shapes,
                       options.sample};
  EVOQ_ASSIGN(std::vector<Forecast> forecasts,
              PredictRuns(optimized, name, options, std::span(&run, 1)));
  return std::move(forecasts[0]);
}

Result<std::vector<Forecast>> PredictRuns(const Graph& optimized, const std::string& name,
                                          const PredictOptions& options,
                                          std::span<const PredictRun> runs) {
  EVOQ_ASSIGN(const std::vector<const QuantScheme*> asked, SchemesOf(options.schemes));
  EVOQ_CHECK(!runs.empty());
  std::vector<Forecast> forecasts(runs.size());
  for (Forecast& forecast : forecasts) {
    forecast.model = name;
    forecast.limits = options.limits;
    forecast.constants = EfficienciesFor(options.limits).front().on;
    forecast.float_weight_bytes = options.float_weight_bytes;
  }
  for (size_t m = 0; m < asked.size(); ++m) {
    auto schemes = PredictScheme(optimized, *asked[m], runs, forecasts, options);
    if (!schemes && m == 0) return tl::unexpected(std::move(schemes.error()));  // the model itself
    for (size_t r = 0; r < runs.size(); ++r) {
      forecasts[r].schemes.push_back(
          schemes
              ? std::move((*schemes)[r])
              : SchemeForecast{.scheme = asked[m]->name, .unavailable = schemes.error().message()});
    }
    if (options.progress)
      EVOQ_TRY(options.progress(static_cast<double>(m + 1) / static_cast<double>(asked.size())));
  }
  return forecasts;
}

}  // namespace evoq
