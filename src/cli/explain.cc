#include "cli/explain.h"

#include <filesystem>

#include "cli/attainable.h"
#include "cli/common.h"
#include "program/etm.h"

namespace evoq {
namespace {

int64_t MetadataNumber(const Graph& graph, const char* key) {
  const auto it = graph.metadata.find(key);
  return it == graph.metadata.end() ? 0 : std::strtoll(it->second.c_str(), nullptr, 10);
}

Result<MeasuredModel> Load(const ExplainJob& job, const std::string& path) {
  MeasuredModel m;
  EVOQ_ASSIGN(InputShapes shapes, ParseShapes(job.shapes));
  EVOQ_ASSIGN(m.engine, LoadEngine(path, job.threads, shapes));
  EVOQ_ASSIGN(shapes, WithBatch(m.engine->model().graph, std::move(shapes), job.batch));
  EVOQ_ASSIGN(m.executor, m.engine->At(shapes));
  return m;
}

// What the model's steps are measured against; nothing where it would run the same steps.
Result<std::optional<MeasuredModel>> LoadBest(const ExplainJob& job, const Program& model) {
  MeasuredModel best;
  EVOQ_ASSIGN(InputShapes shapes, ParseShapes(job.shapes));
  EVOQ_ASSIGN(best.engine, LoadAttainable(job.baseline, NarrowsToBf16(model) ? "bf16" : "int8", StepsWithoutIntegerForm(model), {job.threads, shapes, true}));
  EVOQ_ASSIGN(shapes, WithBatch(best.engine->model().graph, std::move(shapes), job.batch));
  EVOQ_ASSIGN(best.executor, best.engine->At(shapes));
  if (RunsSameSteps(model, best.executor->program())) return std::optional<MeasuredModel>();
  return std::optional<MeasuredModel>(std::move(best));
}

LedgerRun RunOf(const MeasuredModel& m) { return {&m.profile, &m.executor->program()}; }

// The mean of several profiles of one program; times still add up.
StepProfile MeanOf(const std::vector<StepProfile>& profiles) {
  const double share = 1.0 / static_cast<double>(profiles.size());
  StepProfile mean = profiles[0];
  mean.total_ms = mean.steps_ms = mean.host_ms = 0;
  mean.runs = 0;
  for (StepTime& t : mean.steps) t.ms = t.median_ms = t.mean_ms = t.gops = t.roofline_share = 0;
  for (const StepProfile& p : profiles) {
    mean.runs += p.runs;
    mean.total_ms += share * p.total_ms;
    mean.steps_ms += share * p.steps_ms;
    mean.host_ms += share * p.host_ms;
    for (size_t s = 0; s < p.steps.size(); ++s) {
      StepTime& t = mean.steps[s];
      const StepTime& one = p.steps[s];
      t.ms += share * one.ms;
      t.median_ms += share * one.median_ms;
      t.mean_ms += share * one.mean_ms;
      t.gops += share * one.gops;
      t.roofline_share += share * one.roofline_share;
    }
  }
  for (StepTime& t : mean.steps) t.share = mean.steps_ms > 0 ? t.ms / mean.steps_ms : 0;
  return mean;
}

// Measures all models in turn, in rounds with fresh executors: where memory lies is luck that would pass for a gain or a loss.
Status MeasureAll(const ExplainJob& job, std::span<MeasuredModel* const> models, const Limits& limits) {
  constexpr int kRounds = 4;
  Progress progress("measuring");
  std::vector<std::vector<StepProfile>> rounds(models.size());
  for (int round = 0; round < kRounds; ++round) {
    std::vector<std::unique_ptr<Executor>> fresh;
    std::vector<Executor*> executors;
    std::vector<RunBuffers> buffers;
    for (const MeasuredModel* m : models) {
      EVOQ_ASSIGN(auto executor, m->executor->Another());
      buffers.push_back(MakeBuffers(*executor));
      executors.push_back(executor.get());
      fresh.push_back(std::move(executor));
    }
    MeasureOptions options;
    options.duration_s = job.duration_s / kRounds;
    options.warmup_ms = round == 0 ? 200 : 20;
    options.min_runs = 4;
    options.host = job.host;
    options.progress = [&](double f) { progress.Update((round + f) / kRounds); };
    EVOQ_ASSIGN(auto profiles, MeasureStepsInterleaved(executors, buffers, limits, options));
    for (size_t i = 0; i < models.size(); ++i) rounds[i].push_back(std::move(profiles[i]));
  }
  for (size_t i = 0; i < models.size(); ++i) models[i]->profile = MeanOf(rounds[i]);
  return {};
}

}  // namespace

Result<Explanation> Explain(const ExplainJob& job) {
  Explanation out;
  EVOQ_ASSIGN(out.model, Load(job, job.model));
  std::optional<MeasuredModel> best;
  std::vector<MeasuredModel*> models;
  if (!job.baseline.empty()) {
    EVOQ_ASSIGN(out.baseline, Load(job, job.baseline));
    models.push_back(&*out.baseline);
    auto loaded = LoadBest(job, out.model.executor->program());
    if (loaded) {
      best = std::move(*loaded);
    } else {
      out.attainable_why = loaded.error().message();
    }
    if (best) models.push_back(&*best);
  }
  models.push_back(&out.model);  // the last one: `host` is its own
  EVOQ_ASSIGN(const Isa isa, SelectIsa());
  out.limits = MeasureLimits(isa, out.model.executor->threads());
  EVOQ_TRY(MeasureAll(job, models, out.limits));
  int64_t float_bytes = MetadataNumber(out.model.engine->model().graph, "evoq.float_weight_bytes");
  if (out.baseline) {
    out.time = BuildTimeLedger(RunOf(*out.baseline), RunOf(out.model), best ? RunOf(*best) : LedgerRun(), out.limits);
    if (float_bytes == 0) float_bytes = FloatWeightBytes(out.baseline->engine->model().graph);
  }
  if (IsEtmFile(job.model)) {
    EVOQ_ASSIGN(const std::vector<EtmSection> sections, EtmSections(job.model));
    out.bytes = BuildByteLedger(sections, static_cast<int64_t>(std::filesystem::file_size(job.model)), float_bytes, out.model.engine->model());
  }
  return out;
}

}  // namespace evoq
