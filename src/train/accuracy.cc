#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/thread_pool.h"
#include "models/models.h"
#include "passes/pass.h"
#include "train/learner.h"
#include "train/plan.h"
#include "train/trainer.h"

namespace evoq {
namespace {

constexpr int64_t kSamplesOfARun = 64;

// -log softmax(scores)[label], in float64; of probabilities, -log of the label's.
double LossOf(const float* scores, int64_t n, int64_t label, bool probabilities) {
  if (probabilities) return -std::log(static_cast<double>(scores[label]));
  const double largest = *std::max_element(scores, scores + n);
  double sum = 0;
  for (int64_t j = 0; j < n; ++j) sum += std::exp(scores[j] - largest);
  return std::log(sum) - (scores[label] - largest);
}

// What the outputs of samples [begin, end) add, a model having run samples from `from` on.
class Score {
 public:
  Score(const LabelledSamples& samples, bool probabilities)
      : samples_(samples), probabilities_(probabilities) {}

  Status Add(const Tensor& outputs, int64_t from, int64_t begin, int64_t end) {
    const int64_t rows = samples_.rows, ran = outputs.elements() > 0 ? end - from : 0;
    const int64_t each = ran > 0 ? outputs.elements() / (ran * rows) : 0;
    if (samples_.real() && each != samples_.target_elements)
      return InvalidInput("a target of {} numbers, the model's output has {} for each sample",
                          samples_.target_elements, each);
    for (int64_t i = begin * rows; i < end * rows; ++i) {
      const float* const row = outputs.data<float>() + (i - from * rows) * each;
      if (samples_.real()) {
        AddError(row, samples_.target(i), each);
      } else {
        EVOQ_TRY(AddLabel(row, samples_.labels[static_cast<size_t>(i)], each));
      }
    }
    return {};
  }

  Measured Mean() const {
    const auto all = static_cast<double>(std::max<int64_t>(samples_.count() * samples_.rows, 1));
    if (samples_.real())
      return {.error = squares_ / (all * static_cast<double>(samples_.target_elements))};
    Measured out{.accuracy = static_cast<double>(correct_) / all};
    if (samples_.rows > 1) out.loss = loss_ / all;
    return out;
  }

 private:
  void AddError(const float* row, const float* target, int64_t n) {
    for (int64_t j = 0; j < n; ++j) {
      const double off = static_cast<double>(row[j]) - target[j];
      squares_ += off * off;
    }
  }

  Status AddLabel(const float* row, int64_t label, int64_t classes) {
    if (label >= classes) return InvalidInput("label {}, the model has {} classes", label, classes);
    correct_ += std::max_element(row, row + classes) - row == label;
    loss_ += LossOf(row, classes, label, probabilities_);
    return {};
  }

  const LabelledSamples& samples_;
  bool probabilities_;
  int64_t correct_ = 0;
  double loss_ = 0, squares_ = 0;
};

}  // namespace

Result<Measured> MeasureAccuracy(const Graph& graph, const LabelledSamples& samples, int threads) {
  Graph optimized = graph;
  EVOQ_TRY(RunPasses(optimized, Stage::kOptimize));
  EVOQ_ASSIGN(const auto engine, EngineFromGraph(std::move(optimized), {.threads = threads}));
  const NodeId last = graph.value(graph.outputs()[0]).producer;
  Score score(samples, last.valid() && graph.node(last).op == "Softmax");
  const int64_t fixed = FixedBatch(graph), rows = samples.rows;
  const int64_t batch = fixed > 0 ? fixed : std::max<int64_t>(1, kSamplesOfARun / rows);
  for (int64_t begin = 0; begin < samples.count(); begin += batch) {
    // A model of a fixed batch sees the last samples twice; they count once.
    const int64_t end = std::min(begin + batch, samples.count());
    const int64_t from = fixed > 0 ? std::max<int64_t>(end - batch, 0) : begin;
    if (end - from < fixed)
      return InvalidInput("{} samples to measure, the model takes {} at a time", samples.count(),
                          fixed);
    EVOQ_ASSIGN(const std::vector<Tensor> outputs, engine->Run(InputsOf(samples, from, end)));
    EVOQ_ASSIGN(const Tensor scores, ToFloat32(outputs.at(0)));
    EVOQ_TRY(score.Add(scores, from, begin, end));
  }
  return score.Mean();
}

namespace {

// A learner for samples that are measured, in shards that threads share.
Result<std::unique_ptr<Learner>> Simulated(QuantizedModel& quantized,
                                           const LabelledSamples& samples, int threads) {
  constexpr int64_t kSamplesOfAShard = 16;
  const int64_t shards = std::clamp<int64_t>(samples.count(), 1, threads);
  TrainingPlanOptions options{
      .samples = std::clamp<int64_t>(samples.count() / shards, 1, kSamplesOfAShard),
      .rows = samples.rows};
  if (samples.tokens != DType::kUndefined && !samples.sizes[0].empty())
    options.length = samples.sizes[0][0];
  EVOQ_ASSIGN(TrainingPlan plan, quantized.Plan(options));
  EVOQ_ASSIGN(const Isa isa, SelectIsa());
  return Learner::Create(quantized.simulation(), std::move(plan), shards, threads, isa);
}

}  // namespace

Result<Agreement> CompareWithSimulation(QuantizedModel& quantized, const LabelledSamples& samples,
                                        int threads) {
  EVOQ_ASSIGN(Graph integers, quantized.Integers());
  EVOQ_TRY(RunPasses(integers, Stage::kOptimize));
  EVOQ_ASSIGN(const auto engine, EngineFromGraph(std::move(integers), {.threads = threads}));
  EVOQ_ASSIGN(const auto learner, Simulated(quantized, samples, threads));
  const int64_t batch = learner->batch(), classes = learner->plan().classes;
  Agreement out;
  // The last batch is one of the last samples; those that were counted are not counted again.
  for (int64_t begin = 0; begin < samples.count(); begin += batch) {
    const int64_t end = std::min(begin + batch, samples.count()), from = end - batch;
    if (from < 0)
      return InvalidInput("{} samples to compare, expected at least {}", samples.count(), batch);
    const std::vector<float> simulated =
        learner->Scores([&](int64_t s, std::span<float* const> inputs, std::span<SampleTarget>) {
          for (size_t k = 0; k < inputs.size(); ++k)
            std::copy_n(samples.sample(k, from + s), samples.elements(k), inputs[k]);
        });
    EVOQ_ASSIGN(const std::vector<Tensor> outputs, engine->Run(InputsOf(samples, from, end)));
    EVOQ_ASSIGN(const Tensor scores, ToFloat32(outputs.at(0)));
    for (int64_t i = begin * samples.rows; i < end * samples.rows; ++i) {
      const int64_t at = (i - from * samples.rows) * classes;
      const float *const a = simulated.data() + at, *const b = scores.data<float>() + at;
      const int64_t best = std::max_element(a, a + classes) - a;
      ++out.samples;
      if (!samples.real()) {
        out.classes += best == std::max_element(b, b + classes) - b;
        out.correct += best == samples.labels[static_cast<size_t>(i)];
      }
      out.scores += std::memcmp(a, b, static_cast<size_t>(classes) * sizeof(float)) == 0;
    }
  }
  return out;
}

}  // namespace evoq
