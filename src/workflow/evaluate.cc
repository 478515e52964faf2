#include "workflow/evaluate.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>

#include "base/file.h"
#include "base/printable.h"
#include "certify/certificate.h"
#include "certify/sized_by_data.h"
#include "models/models.h"
#include "profile/interval.h"
#include "reference/reference.h"
#include "workflow/adaptive.h"
#include "workflow/models.h"

namespace evoq {
namespace {

// The number of elements of the model's outputs, by output; -1 where it is free. An .etm does not
// hold the types of what is computed.
std::vector<int64_t> OutputElements(Graph graph) {
  const bool typed = InferTypes(graph).has_value();
  std::vector<int64_t> elements;
  if (!typed) return std::vector<int64_t>(graph.outputs().size(), -1);
  for (ValueId id : graph.outputs())
    elements.push_back(graph.value(id).type.shape.elements().value_or(-1));
  return elements;
}

// Two models whose outputs cannot be compared at all.
Status CheckComparable(const EvalJob& job, const Graph& model, const Graph& reference) {
  const std::vector<int64_t> a = OutputElements(model), b = OutputElements(reference);
  if (a.size() != b.size())
    return InvalidInput("{} has {} outputs, {} has {}", job.model, a.size(), job.reference,
                        b.size());
  for (size_t o = 0; o < a.size(); ++o) {
    if (a[o] != b[o] && a[o] >= 0 && b[o] >= 0)
      return InvalidInput("output {} of {} has {} elements, of {} {}",
                          model.value(model.outputs()[o]).name, job.model, a[o], job.reference,
                          b[o]);
  }
  return {};
}

// Position of `label` among the scores, 0 for the largest; ties count in favour of the lower index.
// A score that is no number comes last as a label's, and first as another's.
int64_t RankOf(std::span<const float> s, size_t label) {
  int64_t rank = 0;
  for (size_t i = 0; i < s.size(); ++i)
    rank += i != label && !(s[i] < s[label]) && (s[i] != s[label] || i < label);
  return rank;
}

constexpr double kBestDb = 200;

// At most kBestDb, at least its negative.
double DecibelsOf(const Energy& energy) {
  if (!(energy.noise > 0)) return kBestDb;
  return std::clamp(10 * std::log10(energy.signal / energy.noise), -kBestDb, kBestDb);
}

struct Runner {
  std::unique_ptr<Engine> engine;
  double ms = 0;

  Result<std::vector<Tensor>> Outputs(std::span<const Tensor> inputs) {
    const auto start = std::chrono::steady_clock::now();
    EVOQ_ASSIGN(std::vector<Tensor> outputs, engine->Run(inputs));
    ms +=
        std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
    if (outputs.empty()) return InvalidInput("the model has no outputs");
    return outputs;
  }
};

Status WritePredictions(const EvalResult& result, const std::string& path) {
  std::string text = "file\tclass\n";
  for (const auto& [name, index] : result.predictions) text += fmt::format("{}\t{}\n", name, index);
  return WriteFileAtomic(path, text);
}

Status CheckJob(const EvalJob& job) {
  EVOQ_TRY(CheckThreads(job.threads));
  if (!job.merge.empty() && !(job.data.empty() && job.part.empty() && job.save_part.empty()))
    return Fail(ErrorCode::kUsage,
                "--merge puts parts together: it excludes --data, --part and --save-part");
  if (job.data.empty() && job.merge.empty())
    return Fail(ErrorCode::kUsage, "expected --data, or --text and --tokenizer");
  if (!job.part.empty() && job.adaptive)
    return Fail(ErrorCode::kUsage,
                "--part: scale sets follow all samples in their order, it "
                "excludes --adaptive and --scale-set");
  for (const std::string* path : {&job.predictions, &job.save_part}) {
    if (!path->empty()) EVOQ_TRY(CheckOutputPath(*path));
  }
  return {};
}

// The answers to the rows of a sample, where the output has them, or to the sample.
Result<std::vector<EvaluatedRow>> RowsOf(const Sample& sample, const Tensor& output,
                                         const Tensor* expected) {
  const std::vector<int64_t> classes = ClassesOf(output, sample.row_count()),
                             right = expected ? ClassesOf(*expected, sample.row_count()) : classes;
  const bool several = classes.size() > 1;
  std::vector<Sample::Row> given = {{sample.name, sample.label}};
  if (several || (!sample.rows.empty() && sample.rows[0].label)) given = sample.rows;
  if (given.size() != classes.size() || right.size() != classes.size())
    return InvalidInput("{}: {} labels, but {} answers in {}", sample.name, given.size(),
                        classes.size(), output.type().ToString());
  if (several && sample.label)
    return InvalidInput("{}: one label, but {} answers in {}", sample.name, classes.size(),
                        output.type().ToString());
  std::vector<EvaluatedRow> rows;
  for (size_t i = 0; i < given.size(); ++i) {
    const auto& [name, label] = given[i];
    rows.push_back({.name = name, .class_index = classes[i]});
    if (expected != nullptr) rows[i].agrees = classes[i] == right[i];
    if (!label) continue;
    EVOQ_ASSIGN(const Tensor scores, WithContext(ToFloat32(output), name));
    const auto each = static_cast<size_t>(scores.elements()) / given.size();
    if (*label < 0 || *label >= static_cast<int64_t>(each))
      return InvalidInput("{}: label {} of a model with {} classes", name, *label, each);
    rows[i].rank =
        RankOf(scores.values<float>().subspan(i * each, each), static_cast<size_t>(*label));
  }
  return rows;
}

// What the model, and the reference where there is one, made of a sample.
Result<EvaluatedSample> SampleOf(const Sample& sample, const std::vector<Tensor>& outputs,
                                 const std::vector<Tensor>* expected,
                                 std::span<const Judged> judged) {
  EvaluatedSample seen;
  EVOQ_ASSIGN(seen.rows, RowsOf(sample, outputs[0], expected ? &(*expected)[0] : nullptr));
  if (expected == nullptr) return seen;
  for (size_t o = 0; o < outputs.size(); ++o) {
    const Tensor &a = (*expected)[o], &b = outputs[o];
    seen.energies.push_back(judged[o] == Judged::kSize
                                ? Energy{1, a.sizes() == b.sizes() ? 0.0 : 1.0}
                                : EnergyOf(a, b));
  }
  return seen;
}

// How each of the reference's outputs is judged, by what it is in a sample.
std::vector<Judged> JudgedOf(const Graph& reference, const Sample& sample,
                             const std::vector<Tensor>& outputs) {
  const std::set<ValueId> unsized = SizedByData(reference, sample.inputs);
  std::vector<Judged> judged;
  for (size_t o = 0; o < outputs.size(); ++o) {
    const TensorType& type = outputs[o].type();
    judged.push_back(type.is_tensor() && unsized.contains(reference.outputs()[o]) ? Judged::kSize
                     : IsFloat(type.dtype) || type.quantized()                    ? Judged::kReal
                                                               : Judged::kElements);
  }
  return judged;
}

// Runs the samples of the job's part.
Result<EvaluationPart> Run(const EvalJob& job, const Follow& follow,
                           std::optional<AdaptiveState>& adaptive) {
  EvaluationPart part;
  EVOQ_ASSIGN(part.part, ParsePartNumber(job.part));
  Runner model, reference;
  EVOQ_ASSIGN(model.engine,
              LoadEngine(job.model, {.threads = job.threads, .adaptive = job.adaptive}));
  const Graph& graph = model.engine->model().graph;
  EVOQ_ASSIGN(const DatasetOptions options, DataOptions(job.model, job.preprocess, job.labels));
  EVOQ_ASSIGN(const auto data, OpenInputs(job.data, InputsOf(graph), options));
  part.has_targets = !job.targets.empty();
  part.has_reference = !job.reference.empty();
  if (part.has_reference) {
    EVOQ_ASSIGN(reference.engine, LoadEngine(job.reference, {.threads = job.threads}));
    EVOQ_TRY(CheckComparable(job, graph, reference.engine->model().graph));
  }
  for (ValueId output : graph.outputs()) part.outputs.push_back(graph.value(output).name);
  part.size = job.limit > 0 ? std::min(job.limit, data->size()) : data->size();
  const int64_t first = part.part.first(part.size), last = part.part.last(part.size);
  std::optional<Targets> targets;
  for (int64_t i = first; i < last; ++i) {
    EVOQ_ASSIGN(const Sample sample, data->At(i));
    EVOQ_ASSIGN(const std::vector<Tensor> outputs,
                WithContext(model.Outputs(sample.inputs), sample.name));
    std::vector<Tensor> expected;
    if (part.has_reference) {
      EVOQ_ASSIGN(expected, WithContext(reference.Outputs(sample.inputs), sample.name));
    }
    if (part.has_reference && part.judged.empty()) {
      part.judged = JudgedOf(reference.engine->model().graph, sample, expected);
      part.class_scores = AreClassScores(std::span(expected).first(1), sample.row_count());
    }
    EVOQ_ASSIGN(EvaluatedSample seen,
                SampleOf(sample, outputs, part.has_reference ? &expected : nullptr, part.judged));
    if (part.has_targets && !targets) {
      EVOQ_ASSIGN(targets, Targets::Open(job.targets, graph, options, *data, sample.row_count()));
    }
    if (targets) {
      EVOQ_ASSIGN(seen.deviations, targets->Of(i, outputs));
    }
    part.samples.push_back(std::move(seen));
    EVOQ_TRY(follow.At("evaluating",
                       static_cast<double>(i + 1 - first) / static_cast<double>(last - first)));
  }
  part.ms = model.ms;
  part.warning = data->warning();
  if (job.adaptive) adaptive = *model.engine->adaptive();
  return part;
}

EvalResult ResultOf(const EvalJob& job, const EvaluationPart& part) {
  EvalResult result{.model = job.model, .reference = job.reference, .warning = part.warning};
  result.has_reference = part.has_reference;
  result.class_scores = part.class_scores;
  for (size_t o = 0; o < part.outputs.size() && part.has_targets; ++o) {
    result.deviations.emplace_back(part.outputs[o], Deviation());
    for (const EvaluatedSample& sample : part.samples)
      result.deviations.back().second += sample.deviations[o];
  }
  result.judged = part.judged;
  result.judged.resize(part.outputs.size(), Judged::kReal);
  std::vector<std::vector<double>> signal(part.outputs.size()), noise(part.outputs.size());
  for (const EvaluatedSample& sample : part.samples) {
    ++result.samples;
    for (const EvaluatedRow& row : sample.rows) {
      result.predictions.emplace_back(row.name, row.class_index);
      ++result.rows;
      result.agreed += part.has_reference && row.agrees;
      if (!row.rank) continue;
      ++result.labelled;
      result.correct1 += *row.rank < 1;
      result.correct5 += *row.rank < 5;
    }
    if (!part.has_reference) continue;
    double worst = kBestDb;
    for (size_t o = 0; o < sample.energies.size(); ++o) {
      if (result.judged[o] != Judged::kSize)
        worst = std::min(worst, DecibelsOf(sample.energies[o]));
      signal[o].push_back(sample.energies[o].signal);
      noise[o].push_back(sample.energies[o].noise);
    }
    result.sample_sqnr_db += worst;
  }
  result.ms_per_sample = result.samples ? part.ms / static_cast<double>(result.samples) : 0;
  if (!result.has_reference || result.samples == 0) return result;
  result.sample_sqnr_db /= static_cast<double>(result.samples);
  for (size_t o = 0; o < signal.size(); ++o)
    result.outputs.push_back({part.outputs[o], SignalToNoise(signal[o], noise[o])});
  result.sqnr_db = std::numeric_limits<double>::infinity();
  for (size_t o = 0; o < signal.size(); ++o) {
    if (result.judged[o] != Judged::kSize)
      result.sqnr_db = std::min(result.sqnr_db, result.outputs[o].sqnr_db.value);
  }
  return result;
}

}  // namespace

Result<EvalResult> Evaluate(const EvalJob& job, const Follow& follow) {
  EVOQ_TRY(CheckJob(job));
  std::optional<AdaptiveState> adaptive;
  EVOQ_ASSIGN(const EvaluationPart part,
              job.merge.empty() ? Run(job, follow, adaptive) : MergeEvaluations(job.merge));
  EvalResult result = ResultOf(job, part);
  result.adaptive = std::move(adaptive);
  if (!job.save_part.empty()) EVOQ_TRY(SaveEvaluation(part, job.save_part));
  if (!job.predictions.empty()) EVOQ_TRY(WritePredictions(result, job.predictions));
  return result;
}

namespace {

// JSON has no infinity: null.
nlohmann::json NumberOf(double x) {
  return std::isfinite(x) ? nlohmann::json(x) : nlohmann::json();
}

void TellDeviations(const EvalResult& r, Told& told) {
  for (const auto& [output, d] : r.deviations) {
    const std::optional<double> r2 = d.r2();
    told.json["targets"].push_back({{"output", output},
                                    {"elements", d.elements},
                                    {"mse", NumberOf(d.mse())},
                                    {"rmse", NumberOf(std::sqrt(d.mse()))},
                                    {"mae", NumberOf(d.mae())},
                                    {"r2", r2 ? NumberOf(*r2) : nlohmann::json()}});
    told.text += FormatPrintable(
        "  {}mean squared error {:.6g} (root {:.6g}), mean absolute error {:.6g}{}\n",
        r.deviations.size() > 1 ? output + ": " : "", d.mse(), std::sqrt(d.mse()), d.mae(),
        r2 ? fmt::format(", R2 {:.4f}", *r2) : "");
  }
}

bool AllBySize(const EvalResult& r) {
  return std::ranges::all_of(r.judged, [](Judged how) { return how == Judged::kSize; });
}

}  // namespace

Told Tell(const EvalResult& r) {
  using nlohmann::json;
  Told told;
  told.json = {{"model", r.model},
               {"samples", r.samples},
               {"rows", r.rows},
               {"ms_per_sample", r.ms_per_sample},
               {"top1", r.labelled ? json(r.top1()) : json()},
               {"top5", r.labelled ? json(r.top5()) : json()},
               {"agreement", r.tells_classes() ? json(r.agreement()) : json()}};
  told.text = FormatPrintable(
      "{}: {} samples{}, {:.3f} ms per sample\n", r.model, r.samples,
      r.rows == r.samples ? std::string() : fmt::format(" of {} rows", r.rows), r.ms_per_sample);
  if (!r.warning.empty()) told.log.push_back("warning: " + r.warning);
  if (r.labelled)
    told.text += FormatPrintable("  top-1 {:.4f}  top-5 {:.4f}  ({} of {} right)\n", r.top1(),
                                 r.top5(), r.correct1, r.labelled);
  TellDeviations(r, told);
  if (r.adaptive) {
    const Told adaptive = Tell(*r.adaptive);
    told.json["adaptive"] = adaptive.json;
    told.text += adaptive.text;
  }
  if (!r.labelled && !r.has_reference && r.deviations.empty())
    told.log.push_back(
        "note: without --labels, --targets or --reference only the time is measured");
  if (!r.has_reference) return told;
  if (std::isfinite(r.sqnr_db)) told.json["sqnr_db"] = r.sqnr_db;
  told.json["sample_sqnr_db"] = r.sample_sqnr_db;
  told.json["outputs"] = ToJson(r.outputs);
  const std::string classes =
      r.tells_classes() ? FormatPrintable("top-1 class{}{} equal to {} on {:.4f} ({} of {}), ",
                                          r.outputs.size() > 1 ? " of " : "",
                                          r.outputs.size() > 1 ? r.outputs[0].name : "",
                                          r.reference, r.agreement(), r.agreed, r.rows)
                        : FormatPrintable("beside {}: ", r.reference);
  told.text += "  " + classes;
  told.text += !std::isfinite(r.sqnr_db) && r.sqnr_db > 0 && AllBySize(r)
                   ? std::string("no output that is compared by position\n")
                   : fmt::format("{} {:.1f} dB\n",
                                 r.outputs.size() > 1 ? "signal to noise of the worst output"
                                                      : "outputs' signal to noise",
                                 r.sqnr_db);
  for (size_t o = 0; o < r.outputs.size(); ++o) {
    const double db = r.outputs[o].sqnr_db.value, share = 1 - std::pow(10, -db / 10);
    told.json["outputs"][o]["judged"] = JudgedName(r.judged[o]);
    if (r.judged[o] != Judged::kReal) told.json["outputs"][o]["equal"] = share;
    if (r.judged[o] == Judged::kSize) told.json["outputs"][o]["sqnr_db"] = nullptr;
    if (r.judged[o] == Judged::kElements) {
      told.text +=
          FormatPrintable("    {:>6.2f}% of elements equal  {}\n", 100 * share, r.outputs[o].name);
    } else if (r.judged[o] == Judged::kSize) {
      told.text += FormatPrintable(
          "    {:>6.2f}% of samples have its size, which depends on the data, so that no position "
          "is compared  {}\n",
          100 * share, r.outputs[o].name);
    } else if (r.outputs.size() > 1) {
      told.text += FormatPrintable("    {:>7.1f} dB  {}\n", db, r.outputs[o].name);
    }
  }
  return told;
}

}  // namespace evoq
