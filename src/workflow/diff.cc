#include "workflow/diff.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/file.h"
#include "data/npz.h"
#include "workflow/models.h"

namespace evoq {
namespace {

Status CheckJob(const DiffJob& job) {
  EVOQ_TRY(CheckThreads(job.threads));
  if (job.bad_db && !std::isfinite(*job.bad_db))
    return Fail(ErrorCode::kUsage, "--bad {}: expected dB", *job.bad_db);
  if (job.max_error && !(*job.max_error >= 0))
    return Fail(ErrorCode::kUsage, "--max-error {}: expected 0 or more", *job.max_error);
  return job.keep.empty() ? Status() : CheckOutputPath(job.keep);
}

// The first value whose step is bad by itself.
int FirstBad(const std::vector<DiffedValue>& values, double bad_db) {
  for (size_t i = 0; i < values.size(); ++i) {
    if (values[i].own.sqnr_db() < bad_db) return static_cast<int>(i);
  }
  return -1;
}

Status Keep(const std::string& path, ModelDiff& diff, const Graph& a, const Diffed& out,
            std::span<const Tensor> inputs) {
  std::vector<std::pair<std::string, Tensor>> arrays;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i].type().is_tensor() && inputs[i].dtype() != DType::kString)
      arrays.emplace_back(a.value(a.inputs()[i]).name, inputs[i]);
  }
  for (size_t i = 0; i < out.values.size(); ++i) {
    if (!out.values[i].output && static_cast<int>(i) != out.first_bad) continue;
    EVOQ_ASSIGN(const auto both, diff.Both(i, inputs));
    arrays.emplace_back("a:" + out.values[i].name, both.first);
    arrays.emplace_back("b:" + out.values[i].name, both.second);
  }
  return WriteNpz(arrays, path);
}

}  // namespace

Result<Diffed> Diff(const DiffJob& job, const Follow& follow) {
  EVOQ_TRY(CheckJob(job));
  EVOQ_TRY(follow.At("loading", 0));
  EVOQ_ASSIGN(ComparedModel a,
              LoadCompared(job.a, job.reference ? ComparedAs::kReference : ComparedAs::kGiven,
                           job.threads));
  EVOQ_ASSIGN(ComparedModel b, LoadCompared(job.b, ComparedAs::kRun, job.threads));
  EVOQ_ASSIGN(const ProbeSamples probe, LoadProbe(job.probe, a.graph, job.a, job.b));
  const Graph a_graph = a.graph;
  const auto& inputs = probe.samples.inputs;
  EVOQ_TRY(follow.At("matching values", 0));
  auto between = ModelDiff::Between(std::move(a), std::move(b), inputs);
  if (job.probe.random > 0) between = WithContext(std::move(between), kProbeMadeUp);
  EVOQ_ASSIGN(ModelDiff diff, std::move(between));
  Diffed out{.a = job.a, .b = job.b};
  out.worst_sample_db = std::numeric_limits<double>::infinity();
  size_t worst = 0;
  for (size_t i = 0; i < inputs.size(); ++i) {
    EVOQ_ASSIGN(const SampleDiff sample, WithContext(diff.Add(inputs[i]), probe.names[i]));
    if (i == 0 || sample.sqnr_db < out.worst_sample_db) {
      out.worst_sample_db = sample.sqnr_db;
      worst = i;
    }
    EVOQ_TRY(
        follow.At("comparing", static_cast<double>(i + 1) / static_cast<double>(inputs.size())));
  }
  out.samples = static_cast<int64_t>(inputs.size());
  out.warnings = probe.warnings;
  out.worst_sample = probe.names[worst];
  out.values = diff.values();
  out.only_a = diff.only_a();
  out.only_b = diff.only_b();
  out.sized_by_data = diff.sized_by_data();
  out.bad_db = job.bad_db.value_or(BadBelow(diff.narrows()));
  out.first_bad = FirstBad(out.values, out.bad_db);
  out.sqnr_db = std::numeric_limits<double>::infinity();
  for (const DiffedValue& value : out.values) {
    if (!value.output) continue;
    out.sqnr_db = std::min(out.sqnr_db, value.whole.sqnr_db());
    out.max_error = std::max(out.max_error, value.whole.max_abs());
  }
  if (!job.keep.empty()) {
    EVOQ_TRY(Keep(job.keep, diff, a_graph, out, inputs[worst]));
    out.kept = job.keep;
  }
  return out;
}

Status CheckKept(const Diffed& diffed, std::optional<double> min_sqnr_db,
                 std::optional<double> max_error) {
  const bool judged = std::ranges::any_of(diffed.values, &DiffedValue::output);
  if ((min_sqnr_db || max_error) && !judged && !diffed.sized_by_data.empty())
    return Fail(ErrorCode::kConditionFailed,
                "no output can be held to a condition: the sizes of all depend on the data");
  if (min_sqnr_db && diffed.sqnr_db < *min_sqnr_db)
    return Fail(ErrorCode::kConditionFailed,
                "signal to noise of the worst output is {:.2f} dB, expected {:g} or more",
                diffed.sqnr_db, *min_sqnr_db);
  if (max_error && !(diffed.max_error <= *max_error))
    return Fail(ErrorCode::kConditionFailed,
                "the largest error of an output is {:g}, expected {:g} or less", diffed.max_error,
                *max_error);
  return {};
}

}  // namespace evoq
