#include "cli/evaluate.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>

namespace evoq {
namespace {

// Position of `label` among the scores, 0 for the largest; ties count in favour of the lower index.
int64_t RankOf(const Tensor& scores, int64_t label) {
  const float* s = scores.data<float>();
  int64_t rank = 0;
  for (int64_t i = 0; i < scores.elements(); ++i) rank += s[i] > s[label] || (s[i] == s[label] && i < label);
  return rank;
}

int64_t ArgMax(const Tensor& scores) {
  const float* s = scores.data<float>();
  return std::max_element(s, s + scores.elements()) - s;
}

struct Runner {
  std::unique_ptr<Engine> engine;
  double ms = 0;

  Result<Tensor> Scores(const Tensor& input) {
    const auto start = std::chrono::steady_clock::now();
    EVOQ_ASSIGN(const std::vector<Tensor> outputs, engine->Run(std::span(&input, 1)));
    ms += std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
    if (outputs.empty() || outputs[0].elements() == 0) return InvalidInput("the model's first output is empty");
    return ToFloat32(outputs[0]);
  }
};

}  // namespace

Result<EvalResult> Evaluate(const EvalJob& job) {
  Runner model, reference;
  EVOQ_ASSIGN(model.engine, LoadEngine(job.model, job.threads));
  EVOQ_ASSIGN(const auto data, OpenData(job.data, model.engine->model().graph, job.model, job.preprocess, job.labels));
  EvalResult result;
  result.has_reference = !job.reference.empty();
  if (result.has_reference) {
    EVOQ_ASSIGN(reference.engine, LoadEngine(job.reference, job.threads));
  }
  const int64_t count = job.limit > 0 ? std::min(job.limit, data->size()) : data->size();
  double signal = 0, noise = 0;
  Progress progress("evaluating");
  for (int64_t i = 0; i < count; ++i) {
    EVOQ_ASSIGN(const Sample sample, data->At(i));
    EVOQ_ASSIGN(const Tensor scores, WithContext(model.Scores(sample.input), sample.name));
    result.predictions.emplace_back(sample.name, ArgMax(scores));
    if (sample.label) {
      if (*sample.label < 0 || *sample.label >= scores.elements())
        return InvalidInput("{}: label {} of a model with {} classes", sample.name, *sample.label, scores.elements());
      const int64_t rank = RankOf(scores, *sample.label);
      ++result.labelled;
      result.correct1 += rank < 1;
      result.correct5 += rank < 5;
    }
    if (result.has_reference) {
      EVOQ_ASSIGN(const Tensor expected, WithContext(reference.Scores(sample.input), sample.name));
      if (expected.elements() != scores.elements())
        return InvalidInput("{}: {} outputs, the reference has {}", sample.name, scores.elements(), expected.elements());
      result.agreed += ArgMax(scores) == ArgMax(expected);
      for (int64_t k = 0; k < scores.elements(); ++k) {
        const double e = expected.data<float>()[k], d = e - scores.data<float>()[k];
        signal += e * e;
        noise += d * d;
      }
    }
    ++result.samples;
    progress.Update(static_cast<double>(i + 1) / static_cast<double>(count));
  }
  result.ms_per_sample = result.samples ? model.ms / static_cast<double>(result.samples) : 0;
  if (result.has_reference)
    result.sqnr_db = noise > 0 ? 10 * std::log10(signal / noise) : std::numeric_limits<double>::infinity();
  return result;
}

}  // namespace evoq
