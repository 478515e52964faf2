#include "certify/accuracy.h"

#include <algorithm>
#include <cmath>

namespace evoq {
namespace {

constexpr const char* kNames[] = {"top1", "agreement", "sqnr"};

struct Energy {
  double signal = 0, noise = 0;
};

Energy EnergyOf(const Tensor& reference, const Tensor& model) {
  Energy e;
  const float *x = reference.data<float>(), *y = model.data<float>();
  for (int64_t i = 0; i < reference.elements(); ++i) {
    const double a = x[i], d = a - y[i];
    e.signal += a * a;
    e.noise += d * d;
  }
  return e;
}

Result<std::vector<Energy>> Energies(const Answers& reference, const Answers& model) {
  std::vector<Energy> energies;
  for (size_t i = 0; i < reference.outputs.size() && i < model.outputs.size(); ++i) {
    if (reference.outputs[i].elements() != model.outputs[i].elements())
      return InvalidInput("sample {}: {} outputs, the float model has {}", i, model.outputs[i].elements(), reference.outputs[i].elements());
    energies.push_back(EnergyOf(reference.outputs[i], model.outputs[i]));
  }
  return energies;
}

}  // namespace

const char* MetricName(Metric metric) { return kNames[static_cast<int>(metric)]; }

std::optional<Metric> FindMetric(std::string_view name) {
  for (Metric metric : {Metric::kTop1, Metric::kAgreement, Metric::kSqnr}) {
    if (name == MetricName(metric)) return metric;
  }
  return std::nullopt;
}

Result<Answers> Answer(Engine& engine, const Samples& samples, const std::function<void(double)>& progress) {
  Answers answers;
  for (size_t i = 0; i < samples.inputs.size(); ++i) {
    EVOQ_ASSIGN(const std::vector<Tensor> outputs, engine.Run(samples.inputs[i]));
    if (outputs.empty() || outputs[0].elements() == 0) return InvalidInput("the model's first output is empty");
    EVOQ_ASSIGN(Tensor output, ToFloat32(outputs[0]));
    const float* begin = output.data<float>();
    answers.classes.push_back(std::max_element(begin, begin + output.elements()) - begin);
    answers.outputs.push_back(std::move(output));
    if (progress) progress(static_cast<double>(i + 1) / static_cast<double>(samples.inputs.size()));
  }
  return answers;
}

bool AreClassScores(const Answers& answers) {
  if (answers.outputs.empty()) return false;
  const std::vector<int64_t> sizes = answers.outputs[0].sizes();
  return std::count_if(sizes.begin(), sizes.end(), [](int64_t n) { return n != 1; }) == 1;
}

Metric ChooseMetric(const Samples& samples, const Answers& answers) {
  if (samples.labelled() > 0) return Metric::kTop1;
  return AreClassScores(answers) ? Metric::kAgreement : Metric::kSqnr;
}

bool Accuracy::Keeps(const AccuracyLimit& limit, bool certain) const {
  if (metric == Metric::kSqnr) return (certain ? sqnr_db.high : sqnr_db.value) >= limit.min_sqnr_db;
  constexpr double kRounding = 1e-9;  // 1 of 200 samples is 0.5 points
  return (certain ? drop.low : drop.value) <= limit.max_drop + kRounding;
}

Result<Accuracy> CompareAnswers(Metric metric, const Answers& reference, const Answers& model, const Samples& samples) {
  Accuracy accuracy;
  accuracy.metric = metric;
  int64_t right = 0, reference_right = 0, lost = 0, won = 0, agreed = 0;
  for (size_t i = 0; i < model.classes.size(); ++i) {
    agreed += model.classes[i] == reference.classes[i];
    if (!samples.labels[i]) continue;
    const int64_t label = *samples.labels[i];
    if (label < 0 || (!model.outputs.empty() && label >= model.outputs[i].elements()))
      return InvalidInput("sample {}: label {} of a model with {} classes", i, label, model.outputs[i].elements());
    const bool a = reference.classes[i] == label, b = model.classes[i] == label;
    reference_right += a;
    right += b;
    lost += a && !b;
    won += b && !a;
  }
  accuracy.samples = metric == Metric::kTop1 ? samples.labelled() : samples.size();
  if (accuracy.samples == 0) return InvalidInput("no sample {}", metric == Metric::kTop1 ? "has a label" : "was given");
  if (metric == Metric::kTop1) {
    accuracy.reference = ShareInterval(reference_right, accuracy.samples);
    accuracy.model = ShareInterval(right, accuracy.samples);
    const Interval drop = PairedDrop(lost, won, accuracy.samples);
    accuracy.drop = {100 * drop.value, 100 * drop.low, 100 * drop.high};
  } else {
    accuracy.reference = {1, 1, 1};
    accuracy.model = ShareInterval(agreed, accuracy.samples);
    accuracy.drop = {100 * (1 - accuracy.model.value), 100 * (1 - accuracy.model.high), 100 * (1 - accuracy.model.low)};
  }
  EVOQ_ASSIGN(const std::vector<Energy> energies, Energies(reference, model));
  std::vector<double> signal, noise;
  for (const Energy& e : energies) signal.push_back(e.signal), noise.push_back(e.noise);
  if (!energies.empty()) accuracy.sqnr_db = SignalToNoise(signal, noise);
  return accuracy;
}

double RelativeNoise(const Answers& reference, const Answers& model) {
  Energy sum;
  for (size_t i = 0; i < model.outputs.size(); ++i) {
    const Energy e = EnergyOf(reference.outputs[i], model.outputs[i]);
    sum.signal += e.signal;
    sum.noise += e.noise;
  }
  return sum.signal > 0 ? sum.noise / sum.signal : 0;
}

}  // namespace evoq
