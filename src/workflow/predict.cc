#include "workflow/predict.h"

#include "base/printable.h"
#include "base/text.h"
#include "compile/compile.h"
#include "profile/limits_file.h"
#include "program/etm.h"
#include "reference/reference.h"
#include "report/table.h"
#include "workflow/to_measure.h"

namespace evoq {
namespace {

// Of the file that --limits names, of an earlier run, or measured now and kept.
Result<MachineLimits> FindOrMeasure(const PredictJob& job, std::vector<std::string>& warnings) {
  if (!job.limits.empty()) {
    EVOQ_ASSIGN(MachineLimits limits, LoadLimits(job.limits));
    if (job.threads > 0 && job.threads != limits.threads)
      return Fail(ErrorCode::kUsage, "--threads {}: {} was measured with {}", job.threads,
                  job.limits, limits.threads);
    return limits;
  }
  EVOQ_ASSIGN(const Isa isa, SelectIsa());
  const int wanted = job.threads > 0 ? job.threads : PhysicalCores();
  const std::string path = LimitsCachePath();
  if (const Result<std::optional<MachineLimits>> kept = FindLimits(path, isa, wanted); !kept) {
    warnings.push_back("the limits cache is ignored: " + kept.error().message());
  } else if (*kept) {
    return **kept;
  }
  const MachineLimits limits = MeasureMachine(isa, wanted);
  if (const Status kept = KeepLimits(path, limits); !kept)
    warnings.push_back(kept.error().message());
  return limits;
}

// The inputs that a model whose steps depend on data is run on, and why it needs them; "" for a
// single Program.
Result<std::string> FindSample(const PredictJob& job, const Graph& graph, PredictOptions& options) {
  EVOQ_ASSIGN(const InputContents given, ReadInputs(graph, job.inputs));
  EVOQ_ASSIGN(const InputShapes all, ShapesToMeasure(graph, options.run_shapes, given));
  EVOQ_ASSIGN(const Graph bound, Bound(graph, all, kReference));
  const std::string why = WhyNoProgram(bound).value_or("");
  if (why.empty()) return why;
  options.shapes = options.run_shapes = all;
  EVOQ_ASSIGN(options.sample, InputsToMeasure(graph, all, given));
  return why;
}

// Schemes that need no data: calibrated ones are not what language models become.
std::vector<std::string> SchemesOfLanguageModels() {
  std::vector<std::string> names;
  for (const QuantScheme* scheme : AllSchemes()) {
    if (!scheme->needs_calibration) names.emplace_back(scheme->name);
  }
  return names;
}

// The phases to forecast; none of a model without caches, and where inputs are named.
Result<std::vector<ChosenPhase>> PhasesOf(const PredictJob& job, const Graph& graph) {
  std::vector<ChosenPhase> phases;
  const WhatToMeasure what{job.shapes, job.inputs, job.batch, true, job.phase};
  if (what.says_inputs() || !FindCacheInputs(graph)) {
    EVOQ_TRY(CheckPhase(graph, what));
    return phases;
  }
  for (const PhaseDef* def : AllPhases()) {
    if (!job.phase.name.empty() && job.phase.name != def->name) continue;
    EVOQ_ASSIGN(std::optional<ChosenPhase> phase,
                ChoosePhase(graph, {def->name, job.phase.options}));
    phases.push_back(std::move(*phase));
  }
  if (phases.empty()) EVOQ_TRY(ChoosePhase(graph, job.phase));  // a name that nobody knows
  return phases;
}

Status PredictPhases(const PredictJob& job, const Graph& graph, PredictOptions& options,
                     const std::vector<ChosenPhase>& phases, Predicted& out) {
  std::vector<PredictRun> runs;
  for (const ChosenPhase& phase : phases) {
    PredictRun run{phase.inputs.shapes, {}, true};
    EVOQ_ASSIGN(run.sample, InputsToMeasure(graph, run.shapes, phase.inputs.contents));
    runs.push_back(std::move(run));
  }
  options.shapes = phases.back().inputs.shapes;
  if (options.schemes.empty()) options.schemes = SchemesOfLanguageModels();
  EVOQ_ASSIGN(std::vector<Forecast> forecasts,
              WithContext(PredictRuns(graph, job.model, options, runs), job.model));
  for (size_t i = 0; i < phases.size(); ++i)
    out.phases.push_back({phases[i].def, phases[i].phase, std::move(forecasts[i])});
  out.forecast = out.phases.back().forecast;
  return {};
}

nlohmann::json ToJson(const PhaseForecast& p) {
  nlohmann::json schemes = nlohmann::json::array();
  for (const SchemeForecast& s : p.forecast.schemes) {
    if (!s.unavailable.empty()) continue;
    schemes.push_back({{"scheme", s.scheme},
                       {"ms", s.ms},
                       {"low_ms", s.low_ms},
                       {"high_ms", s.high_ms},
                       {"tokens_per_s", p.TokensPerS(s.ms)},
                       {"speedup", s.speedup},
                       {"payoff", PayoffName(s.payoff)}});
    if (s.measured_ms >= 0) {
      schemes.back()["measured_ms"] = s.measured_ms;
      schemes.back()["measured_tokens_per_s"] = p.TokensPerS(s.measured_ms);
    }
  }
  return {{"phase", p.def->name},
          {"sequences", p.phase.sequences},
          {"context", p.phase.context},
          {"tokens", p.phase.tokens},
          {"schemes", std::move(schemes)}};
}

// Tokens per second by scheme, a column for each phase.
std::string TokensText(const std::vector<PhaseForecast>& phases) {
  std::vector<std::string> columns = {"scheme", ">file"};
  for (const PhaseForecast& p : phases)
    columns.push_back(p.phase.tokens == 1
                          ? fmt::format("{} behind {}", p.def->name, p.phase.context)
                          : fmt::format("{} of {}", p.def->name, p.phase.tokens));
  TextTable table(columns);
  for (size_t i = 0; i < phases[0].forecast.schemes.size(); ++i) {
    const SchemeForecast& first = phases[0].forecast.schemes[i];
    if (!first.unavailable.empty()) continue;
    std::vector<std::string> cells = {first.scheme, HumanBytes(first.file_bytes)};
    for (const PhaseForecast& p : phases) {
      const SchemeForecast& s = p.forecast.schemes[i];
      cells.push_back(fmt::format(
          "{:.1f} ({:.1f} to {:.1f}){}", p.TokensPerS(s.ms), p.TokensPerS(s.high_ms),
          p.TokensPerS(s.low_ms),
          s.measured_ms > 0 ? fmt::format(", measured {:.1f}", p.TokensPerS(s.measured_ms)) : ""));
    }
    table.Row(std::move(cells));
  }
  return "tokens per second, 9 of 10 within\n" + table.ToString();
}

}  // namespace

Result<Predicted> Predict(const PredictJob& job, const Follow& follow) {
  if (IsEtmFile(job.model))
    return Fail(ErrorCode::kUsage, "{} is compiled already; predict reads the .onnx", job.model);
  if (job.batch < 0) return Fail(ErrorCode::kUsage, "--batch {}: expected at least 0", job.batch);
  EVOQ_TRY(CheckThreads(job.threads));
  EVOQ_TRY(CheckSizes(job.shapes));
  EVOQ_TRY(follow.At("loading", 0));
  EVOQ_ASSIGN(const Graph graph, LoadOptimizedGraph(job.model));
  Predicted out;
  PredictOptions options;
  options.shapes = job.shapes;
  EVOQ_ASSIGN(options.run_shapes, WithBatch(graph, options.shapes, job.batch));
  EVOQ_TRY(follow.At("measuring the machine's limits", 0));
  EVOQ_ASSIGN(options.limits, FindOrMeasure(job, out.warnings));
  if (job.check && !IsaSupported(options.limits.isa))
    return Fail(ErrorCode::kUsage, "--check measures on this machine, which lacks {} of {}",
                IsaName(options.limits.isa), job.limits);
  Graph bound = graph;
  if (!options.shapes.empty()) EVOQ_TRY(BindShapes(bound, options.shapes));
  options.float_weight_bytes = FloatWeightBytes(bound);
  options.schemes = job.schemes;
  if (!job.ranges.empty()) {
    EVOQ_ASSIGN(options.ranges, LoadRanges(job.ranges));
  }
  options.check = job.check;
  options.progress = follow.Stage("predicting");
  EVOQ_ASSIGN(const std::vector<ChosenPhase> phases, PhasesOf(job, graph));
  if (!phases.empty()) {
    EVOQ_TRY(PredictPhases(job, graph, options, phases, out));
    return out;
  }
  EVOQ_ASSIGN(const std::string why, FindSample(job, graph, options));
  EVOQ_ASSIGN(out.forecast, WithContext(Predict(graph, job.model, options), job.model));
  out.forecast.in_partitions = why;
  return out;
}

Told Tell(const Predicted& predicted) {
  Told told{ToJson(predicted.forecast), PrintableLines(ToText(predicted.forecast)), {}};
  if (!predicted.phases.empty()) {
    told.json["phases"] = nlohmann::json::array();
    for (const PhaseForecast& p : predicted.phases) told.json["phases"].push_back(ToJson(p));
    told.text.clear();
    for (const PhaseForecast& p : predicted.phases)
      told.text += fmt::format("{}: ", p.def->name) + PrintableLines(ToText(p.forecast));
    told.text += PrintableLines(TokensText(predicted.phases));
  }
  for (const std::string& warning : predicted.warnings) told.log.push_back("warning: " + warning);
  return told;
}

}  // namespace evoq
