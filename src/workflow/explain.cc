#include "workflow/explain.h"

#include <map>

#include "base/file.h"
#include "base/printable.h"
#include "llm/rounding_note.h"
#include "models/models.h"
#include "program/etm.h"
#include "prune/prune.h"
#include "report/html.h"
#include "report/table.h"
#include "workflow/attainable.h"
#include "workflow/report_model.h"
#include "workflow/slow_steps.h"
#include "workflow/to_measure.h"

namespace evoq {
namespace {

int64_t MetadataNumber(const Graph& graph, const char* key) {
  const auto it = graph.metadata.find(key);
  return it == graph.metadata.end() ? 0 : std::strtoll(it->second.c_str(), nullptr, 10);
}

// `phase`: that of a language model, where it is measured in one.
Result<MeasuredModel> Load(const ExplainJob& job, const std::string& path,
                           std::optional<ChosenPhase>* phase = nullptr) {
  EVOQ_ASSIGN(
      ModelToMeasure loaded,
      LoadToMeasure(path, job.threads, {job.shapes, job.inputs, job.batch, true, job.phase}));
  if (phase != nullptr) *phase = loaded.phase;
  MeasuredModel m;
  m.path = path;
  EVOQ_ASSIGN(m.executor, RunnableOf(loaded));
  m.engine = std::move(loaded.engine);
  return m;
}

// What the model's steps are measured against, at the baseline's sizes; nothing where it would run
// the same steps.
Result<std::optional<MeasuredModel>> LoadBest(const ExplainJob& job, const Runnable& baseline,
                                              const Program& model) {
  MeasuredModel best;
  best.path = job.baseline;
  std::vector<Tensor> inputs = MakeBuffers(baseline).inputs;
  EVOQ_ASSIGN(best.engine, LoadAttainable(job.baseline, NarrowsToBf16(model) ? "bf16" : "int8",
                                          StepsWithoutIntegerForm(model), inputs,
                                          {job.threads, job.shapes, true}));
  EVOQ_ASSIGN(best.executor, best.engine->RunnableFor(std::move(inputs)));
  if (RunsSameSteps(model, best.executor->program())) return std::optional<MeasuredModel>();
  return std::optional<MeasuredModel>(std::move(best));
}

// The model with its zeros, where it is stored without them.
Result<std::optional<MeasuredModel>> LoadFull(const ExplainJob& job, const MeasuredModel& model) {
  MeasuredModel full;
  full.path = job.model;
  EVOQ_ASSIGN(full.engine, LoadWithoutBlocks(model.engine->model(), {.threads = job.threads}));
  if (full.engine == nullptr) return std::optional<MeasuredModel>();
  EVOQ_ASSIGN(full.executor, full.engine->RunnableFor(MakeBuffers(*model.executor).inputs));
  return std::optional<MeasuredModel>(std::move(full));
}

LedgerRun RunOf(const MeasuredModel& m) { return {&m.profile, &m.executor->program()}; }

Status MeasureAll(const ExplainJob& job, std::span<MeasuredModel* const> models,
                  const Limits& limits, const Follow& follow) {
  std::vector<const Runnable*> executors;
  for (const MeasuredModel* m : models) executors.push_back(m->executor.get());
  MeasureOptions options;
  options.duration_s = job.duration_s;
  options.min_runs = 4;
  options.host = job.host;
  options.progress = follow.Stage("measuring");
  EVOQ_ASSIGN(auto profiles, MeasureStepsInterleaved(executors, limits, options));
  for (size_t i = 0; i < models.size(); ++i) models[i]->profile = std::move(profiles[i]);
  return {};
}

// Of the same rounds as everything else that is told.
std::optional<Comparison> ComparisonOf(const Explanation& e) {
  if (!e.baseline) return std::nullopt;
  const Comparison c = CompareProfiles(e.baseline->profile, e.model.profile);
  return c.rounds > 0 ? std::optional(c) : std::nullopt;
}

Status WriteReport(const ExplainJob& job, const Explanation& e) {
  Report report;
  report.limits = e.limits;
  report.time = e.time;
  report.bytes = e.bytes;
  EVOQ_ASSIGN(report.model, ForReport(job.model, job.eval, *e.model.executor, e.model.profile));
  if (e.baseline) {
    EVOQ_ASSIGN(report.baseline, ForReport(job.baseline, job.baseline_eval, *e.baseline->executor,
                                           e.baseline->profile));
  }
  report.comparison = ComparisonOf(e);
  return WriteFileAtomic(job.report, ToHtml(report));
}

// Why each step that is neither int8 nor bf16 is not: of each reason the first steps.
std::string FloatStepsText(const Program& program) {
  constexpr int kShown = 10;
  TextTable table({"step", "op", "kernel", "code", "why"});
  std::map<std::pair<std::string, std::string>, int> counts;  // by code and sentence
  int count = 0;
  for (const Step& step : program.steps) {
    const Reason& why = step.decision.float_reason;
    if (why.empty()) continue;
    ++count;
    if (++counts[{why.code, why.sentence}] > kShown) continue;
    const Node& node = program.graph->node(step.node);
    table.Row({node.name, node.op, step.decision.kernel, why.code, why.sentence});
  }
  for (const auto& [why, steps] : counts) {
    if (steps > kShown)
      table.Row({fmt::format("... {} more", steps - kShown), "", "", why.first, why.second});
  }
  const char* const narrow =
      PrecisionName(NarrowsToBf16(program) ? Precision::kBf16 : Precision::kInt8);
  if (count == 0) return fmt::format("every step that could be {} is\n", narrow);
  return fmt::format("steps that could be {} and are not:\n{}", narrow,
                     PrintableLines(table.ToString()));
}

}  // namespace

Result<Explanation> Explain(const ExplainJob& job, const Follow& follow) {
  if (!job.report.empty()) EVOQ_TRY(CheckOutputPath(job.report));
  Explanation out;
  out.made_up = job.inputs.empty();
  EVOQ_TRY(follow.At("loading", 0));
  std::optional<ChosenPhase> phase;
  EVOQ_ASSIGN(out.model, Load(job, job.model, &phase));
  out.in_partitions = out.model.engine->in_regions();
  std::vector<MeasuredModel*> models;
  if (!job.baseline.empty()) {
    EVOQ_ASSIGN(out.baseline, Load(job, job.baseline));
    models.push_back(&*out.baseline);
    // Calibrated int8, which other models are held against, is not what language models become.
    if (!phase) {
      EVOQ_TRY(follow.At("quantizing the baseline", 0));
      auto loaded = LoadBest(job, *out.baseline->executor, out.model.executor->program());
      if (loaded) {
        out.attainable = std::move(*loaded);
      } else {
        out.attainable_why = loaded.error().message();
      }
    }
    if (out.attainable) models.push_back(&*out.attainable);
  }
  for (const std::string& path : job.beside) {
    EVOQ_ASSIGN(MeasuredModel other, Load(job, path));
    out.beside.push_back(std::move(other));
  }
  for (MeasuredModel& m : out.beside) models.push_back(&m);
  if (!phase) {
    EVOQ_ASSIGN(out.full, LoadFull(job, out.model));
    if (out.full) models.push_back(&*out.full);
  }
  models.push_back(&out.model);  // the last one: `host` is its own
  std::vector<Runnable*> runnables;
  std::vector<std::string> names;
  for (const MeasuredModel* m : models) {
    runnables.push_back(m->executor.get());
    names.push_back(m->path);
  }
  EVOQ_TRY(MeasureAlike(runnables, names));
  EVOQ_TRY(follow.At("measuring the machine's limits", 0));
  EVOQ_ASSIGN(const Isa isa, SelectIsa());
  out.limits = MeasureLimits(isa, out.model.executor->threads());
  EVOQ_TRY(MeasureAll(job, models, out.limits, follow));
  if (out.full) out.zeros = ZerosOf(*out.model.executor, out.model.profile, out.full->profile);
  const Graph& graph = out.model.engine->model().graph;
  if (phase) {
    out.language = PartsOf(*phase, out.model.executor->program(), out.model.profile, out.limits);
    EVOQ_ASSIGN(out.language->host, MeasureHost(graph, VocabularyOf(graph)));
    if (out.baseline)
      SetBaseline(
          PartsOf(*phase, out.baseline->executor->program(), out.baseline->profile, out.limits),
          *out.language);
  }
  int64_t float_bytes = MetadataNumber(graph, "evoq.float_weight_bytes");
  // A language model's limits are those of its parts, not a quarter of each float step.
  if (out.baseline && !phase) {
    out.time = BuildTimeLedger(RunOf(*out.baseline), RunOf(out.model),
                               out.attainable ? RunOf(*out.attainable) : LedgerRun(), out.limits);
  }
  if (out.baseline && float_bytes == 0)
    float_bytes = FloatWeightBytes(out.baseline->engine->model().graph);
  if (IsEtmFile(job.model)) {
    EVOQ_ASSIGN(const std::vector<EtmSection> sections, EtmSections(job.model));
    EVOQ_ASSIGN(const int64_t file_bytes, ModelBytes(job.model));
    out.bytes = BuildByteLedger(sections, file_bytes, float_bytes, out.model.engine->model());
    out.bytes->unpruned_weights = MetadataNumber(graph, kUnprunedBytes);
    if (out.language) out.language->bytes = BytesByPart(sections, graph);
  }
  if (!job.report.empty()) EVOQ_TRY(WriteReport(job, out));
  out.report = job.report;
  return out;
}

Told Tell(const Explanation& e) {
  const Program& program = e.model.executor->program();
  Told told;
  if (const std::string note = IsaNote(); !note.empty()) told.log.push_back("note: " + note);
  if (const auto rounded = RoundedSentence(e.model.engine->model().graph); rounded)
    told.log.push_back("note: " + *rounded);
  told.text = PrintableLines(ToText(e.model.profile, e.limits));
  if (!e.in_partitions.empty())
    told.text += FormatPrintable(
        "steps of a run on {}: {}\n",
        e.made_up ? "made-up inputs (--input gives real ones)" : "these inputs", e.in_partitions);
  if (e.language) {
    const Told parts = Tell(*e.language);
    told.json["language"] = parts.json;
    told.text += "\n" + parts.text;
  }
  told.text += "\n" + FloatStepsText(program);
  const Told slow = SlowSteps(program, e.model.profile, e.model.executor->threads());
  if (!slow.text.empty()) told.text += "\n" + slow.text;
  told.json["slow_steps"] = slow.json;
  if (e.zeros) {
    const Told zeros = Tell(*e.zeros);
    told.text += "\n" + PrintableLines(zeros.text);
    told.json["zeros"] = zeros.json;
  }
  told.json["profile"] = ToJson(e.model.profile);
  told.json["decisions"] = DecisionsJson(program);
  if (e.time) {
    if (!e.attainable_why.empty())
      told.log.push_back(
          "note: what faulty steps could take is estimated, because evoq cannot quantize the "
          "baseline itself: " +
          Printable(e.attainable_why));
    told.text += "\n" + PrintableLines(ToText(*e.time));
    told.json["time"] = ToJson(*e.time);
  }
  if (const auto compared = ComparisonOf(e)) told.json["compare"] = ToJson(*compared);
  if (e.bytes) {
    told.text += "\n" + PrintableLines(ToText(*e.bytes));
    told.json["bytes"] = ToJson(*e.bytes);
  }
  if (!e.report.empty()) told.text += FormatPrintable("\nwrote {}\n", e.report);
  return told;
}

}  // namespace evoq
