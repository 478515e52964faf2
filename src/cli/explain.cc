#include "cli/explain.h"

#include "cli/attainable.h"
#include "cli/common.h"
#include "cli/measure_regions.h"
#include "onnx/model_bytes.h"
#include "program/etm.h"

namespace evoq {
namespace {

int64_t MetadataNumber(const Graph& graph, const char* key) {
  const auto it = graph.metadata.find(key);
  return it == graph.metadata.end() ? 0 : std::strtoll(it->second.c_str(), nullptr, 10);
}

Result<MeasuredModel> Load(const ExplainJob& job, const std::string& path) {
  EVOQ_ASSIGN(ModelToMeasure loaded,
              LoadToMeasure(path, job.threads, {job.shapes, job.inputs, job.batch, true}));
  MeasuredModel m;
  m.path = path;
  EVOQ_ASSIGN(m.executor, RunnableOf(loaded, job.inputs));
  m.engine = std::move(loaded.engine);
  return m;
}

// What the model's steps are measured against, at the baseline's sizes; nothing where it would run
// the same steps.
Result<std::optional<MeasuredModel>> LoadBest(const ExplainJob& job, const Runnable& baseline,
                                              const Program& model) {
  MeasuredModel best;
  best.path = job.baseline;
  EVOQ_ASSIGN(const InputShapes shapes, ParseShapes(job.shapes));
  std::vector<Tensor> inputs = MakeBuffers(baseline).inputs;
  EVOQ_ASSIGN(best.engine,
              LoadAttainable(job.baseline, NarrowsToBf16(model) ? "bf16" : "int8",
                             StepsWithoutIntegerForm(model), inputs, {job.threads, shapes, true}));
  EVOQ_ASSIGN(best.executor, best.engine->RunnableFor(std::move(inputs)));
  if (RunsSameSteps(model, best.executor->program())) return std::optional<MeasuredModel>();
  return std::optional<MeasuredModel>(std::move(best));
}

LedgerRun RunOf(const MeasuredModel& m) { return {&m.profile, &m.executor->program()}; }

Status MeasureAll(const ExplainJob& job, std::span<MeasuredModel* const> models,
                  const Limits& limits) {
  Progress progress("measuring");
  std::vector<const Runnable*> executors;
  for (const MeasuredModel* m : models) executors.push_back(m->executor.get());
  MeasureOptions options;
  options.duration_s = job.duration_s;
  options.min_runs = 4;
  options.host = job.host;
  options.progress = [&](double f) { progress.Update(f); };
  EVOQ_ASSIGN(auto profiles, MeasureStepsInterleaved(executors, limits, options));
  for (size_t i = 0; i < models.size(); ++i) models[i]->profile = std::move(profiles[i]);
  return {};
}

}  // namespace

Result<Explanation> Explain(const ExplainJob& job) {
  Explanation out;
  EVOQ_ASSIGN(out.model, Load(job, job.model));
  out.in_partitions = out.model.engine->in_regions();
  std::vector<MeasuredModel*> models;
  if (!job.baseline.empty()) {
    EVOQ_ASSIGN(out.baseline, Load(job, job.baseline));
    models.push_back(&*out.baseline);
    auto loaded = LoadBest(job, *out.baseline->executor, out.model.executor->program());
    if (loaded) {
      out.attainable = std::move(*loaded);
    } else {
      out.attainable_why = loaded.error().message();
    }
    if (out.attainable) models.push_back(&*out.attainable);
  }
  for (const std::string& path : job.beside) {
    EVOQ_ASSIGN(MeasuredModel other, Load(job, path));
    out.beside.push_back(std::move(other));
  }
  for (MeasuredModel& m : out.beside) models.push_back(&m);
  models.push_back(&out.model);  // the last one: `host` is its own
  std::vector<Runnable*> runnables;
  std::vector<std::string> names;
  for (const MeasuredModel* m : models) {
    runnables.push_back(m->executor.get());
    names.push_back(m->path);
  }
  EVOQ_TRY(MeasureAlike(runnables, names));
  EVOQ_ASSIGN(const Isa isa, SelectIsa());
  out.limits = MeasureLimits(isa, out.model.executor->threads());
  EVOQ_TRY(MeasureAll(job, models, out.limits));
  int64_t float_bytes = MetadataNumber(out.model.engine->model().graph, "evoq.float_weight_bytes");
  if (out.baseline) {
    out.time = BuildTimeLedger(RunOf(*out.baseline), RunOf(out.model),
                               out.attainable ? RunOf(*out.attainable) : LedgerRun(), out.limits);
    if (float_bytes == 0) float_bytes = FloatWeightBytes(out.baseline->engine->model().graph);
  }
  if (IsEtmFile(job.model)) {
    EVOQ_ASSIGN(const std::vector<EtmSection> sections, EtmSections(job.model));
    EVOQ_ASSIGN(const int64_t file_bytes, ModelFileBytes(job.model));
    out.bytes = BuildByteLedger(sections, file_bytes, float_bytes, out.model.engine->model());
  }
  return out;
}

}  // namespace evoq
