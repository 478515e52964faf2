#include "certify/accuracy.h"

#include <algorithm>
#include <cmath>

#include "certify/sized_by_data.h"

namespace evoq {
namespace {

constexpr const char* kNames[] = {"top1", "agreement", "sqnr", "perplexity"};

// By sample, by output; empty where outputs are not known.
std::vector<std::vector<Energy>> EnergiesOf(const Answers& reference, const Answers& model) {
  if (!model.energies.empty()) return model.energies;
  std::vector<std::vector<Energy>> energies(
      std::min(reference.outputs.size(), model.outputs.size()));
  for (size_t i = 0; i < energies.size(); ++i) {
    for (size_t o = 0; o < reference.outputs[i].size(); ++o)
      energies[i].push_back(EnergyOf(reference.outputs[i][o], model.outputs[i][o]));
  }
  return energies;
}

// The signal to noise of each output that has one.
std::vector<OutputAccuracy> ByOutput(const std::vector<std::vector<Energy>>& energies,
                                     const Answers& reference) {
  const std::vector<std::string>& names = reference.names;
  std::vector<OutputAccuracy> outputs;
  for (size_t o = 0; !energies.empty() && o < energies[0].size(); ++o) {
    if (o < reference.sized_by_data.size() && reference.sized_by_data[o]) continue;
    std::vector<double> signal, noise;
    for (const auto& sample : energies)
      signal.push_back(sample[o].signal), noise.push_back(sample[o].noise);
    outputs.push_back({names[o], SignalToNoise(signal, noise)});
  }
  return outputs;
}

// log softmax(logits)[next], in float64.
double LogProbability(std::span<const float> logits, int64_t next) {
  const float most = *std::ranges::max_element(logits);
  double sum = 0;
  for (const float logit : logits) sum += std::exp(static_cast<double>(logit) - most);
  return static_cast<double>(logits[static_cast<size_t>(next)]) - most - std::log(sum);
}

// Of the first output, logits [1, tokens, pieces], what comes next.
Status AnswerText(const Tensor& output, std::span<const int64_t> next, Answers& answers) {
  EVOQ_ASSIGN(const Tensor logits, ToFloat32(output));
  const std::vector<int64_t> sizes = logits.sizes();
  const auto tokens = static_cast<int64_t>(next.size());
  if (sizes.size() != 3 || sizes[0] != 1 || sizes[1] != tokens || sizes[2] < 1)
    return InvalidInput("output 0 is {}, expected logits [1, {}, pieces]", logits.type().ToString(),
                        tokens);
  const auto pieces = static_cast<size_t>(sizes[2]);
  std::vector<float>& log_probabilities = answers.log_probabilities.emplace_back();
  double sum = 0;
  for (size_t i = 0; i < next.size(); ++i) {
    if (next[i] < 0 || next[i] >= sizes[2])
      return InvalidInput("token {} of a model with {} of them", next[i], sizes[2]);
    const double one = LogProbability(logits.values<float>().subspan(i * pieces, pieces), next[i]);
    log_probabilities.push_back(static_cast<float>(one));
    sum -= one;
  }
  answers.nll.push_back(sum / static_cast<double>(tokens));
  return {};
}

// `model` and `reference` on the same windows.
Accuracy ComparePerplexity(const Answers& reference, const Answers& model) {
  Accuracy accuracy;
  accuracy.metric = Metric::kPerplexity;
  accuracy.samples = static_cast<int64_t>(model.nll.size());
  const auto count = static_cast<double>(model.nll.size());
  double before = 0, after = 0;
  std::vector<double> more;
  for (size_t i = 0; i < model.nll.size(); ++i) {
    before += reference.nll[i] / count;
    after += model.nll[i] / count;
    more.push_back(model.nll[i] - reference.nll[i]);
  }
  const double half = HalfMeanInterval(more), mean = after - before;
  const auto percent = [](double nll) { return 100 * (std::exp(nll) - 1); };
  const auto known = [](double nll) {
    return Interval{std::exp(nll), std::exp(nll), std::exp(nll)};
  };
  accuracy.reference = known(before);
  accuracy.model = known(after);
  accuracy.drop = {percent(mean), percent(mean - half), percent(mean + half)};
  return accuracy;
}

}  // namespace

const char* MetricName(Metric metric) { return kNames[static_cast<int>(metric)]; }

std::optional<Metric> FindMetric(std::string_view name) {
  for (Metric metric : {Metric::kTop1, Metric::kAgreement, Metric::kSqnr, Metric::kPerplexity}) {
    if (name == MetricName(metric)) return metric;
  }
  return std::nullopt;
}

Result<Answers> Answer(Engine& engine, const Samples& samples, const AnswerOptions& options) {
  Answers answers;
  const Graph& graph = engine.model().graph;
  for (ValueId id : graph.outputs()) answers.names.push_back(graph.value(id).name);
  if (answers.names.empty()) return InvalidInput("the model has no outputs");
  const Answers* const reference = options.reference;
  if (reference != nullptr && reference->names.size() != answers.names.size())
    return InvalidInput("{} outputs, the float model has {}", answers.names.size(),
                        reference->names.size());
  if (reference == nullptr && samples.next.empty() && !samples.inputs.empty()) {
    const std::set<ValueId> unsized = SizedByData(graph, samples.inputs[0]);
    for (ValueId id : graph.outputs()) answers.sized_by_data.push_back(unsized.contains(id));
  }
  for (size_t i = 0; i < samples.inputs.size(); ++i) {
    if (options.stop && options.stop()) break;
    EVOQ_ASSIGN(std::vector<Tensor> outputs, engine.Run(samples.inputs[i]));
    const std::vector<int64_t> classes = ClassesOf(outputs[0], samples.rows);
    answers.classes.insert(answers.classes.end(), classes.begin(), classes.end());
    const int64_t elements = outputs[0].elements() / static_cast<int64_t>(classes.size());
    answers.elements.insert(answers.elements.end(), classes.size(), elements);
    if (!samples.next.empty()) {
      EVOQ_TRY(AnswerText(outputs[0], samples.next[i], answers));
    } else if (reference == nullptr) {
      answers.outputs.push_back(std::move(outputs));
    } else {
      std::vector<Energy>& energies = answers.energies.emplace_back();
      for (size_t o = 0; o < outputs.size(); ++o)
        energies.push_back(EnergyOf(reference->outputs[i][o], outputs[o]));
    }
    if (options.progress)
      EVOQ_TRY(options.progress(static_cast<double>(i + 1) /
                                static_cast<double>(samples.inputs.size())));
  }
  return answers;
}

bool AreClassScores(const Answers& answers, int64_t rows) {
  return !answers.outputs.empty() && AreClassScores(answers.outputs[0], rows);
}

bool AreClassScores(std::span<const Tensor> outputs, int64_t rows) {
  if (outputs.size() != 1 || !outputs[0].type().is_tensor()) return false;
  const int64_t parts = RowsOf(outputs[0], rows), scores = outputs[0].elements() / parts;
  std::vector<int64_t> sizes = outputs[0].sizes();
  if (parts > 1) sizes[0] = 1;
  return scores > 1 && *std::max_element(sizes.begin(), sizes.end()) == scores;
}

Metric ChooseMetric(const Samples& samples, const Answers& answers) {
  if (!samples.next.empty()) return Metric::kPerplexity;
  if (samples.labelled() > 0) return Metric::kTop1;
  return AreClassScores(answers, samples.rows) ? Metric::kAgreement : Metric::kSqnr;
}

bool Accuracy::Keeps(const AccuracyLimit& limit, bool certain) const {
  const bool sqnr = std::all_of(outputs.begin(), outputs.end(), [&](const OutputAccuracy& o) {
    return (certain ? o.sqnr_db.high : o.sqnr_db.value) >= limit.min_sqnr_db;
  });
  if (metric == Metric::kSqnr) return sqnr && !outputs.empty();
  constexpr double kRounding = 1e-9;  // 1 of 200 samples is 0.5 points
  if (metric == Metric::kPerplexity)
    return (certain ? drop.low : drop.value) <= limit.max_growth + kRounding;
  return (certain ? drop.low : drop.value) <= limit.max_drop + kRounding &&
         (!limit.also_sqnr || (sqnr && !outputs.empty()));
}

const OutputAccuracy* Accuracy::worst() const {
  const auto it = std::min_element(
      outputs.begin(), outputs.end(),
      [](const auto& a, const auto& b) { return a.sqnr_db.value < b.sqnr_db.value; });
  return it == outputs.end() ? nullptr : &*it;
}

Result<Accuracy> CompareAnswers(Metric metric, const Answers& reference, const Answers& model,
                                const Samples& samples) {
  if (metric == Metric::kPerplexity) {
    if (model.nll.empty() || model.nll.size() != reference.nll.size())
      return InvalidInput("{} windows of text, the float model has {}", model.nll.size(),
                          reference.nll.size());
    return ComparePerplexity(reference, model);
  }
  Accuracy accuracy;
  accuracy.metric = metric;
  if (reference.classes.size() < model.classes.size())
    return InvalidInput("{} answers, the float model has {}", model.classes.size(),
                        reference.classes.size());
  const bool labelled = samples.labelled() > 0;
  if (labelled && samples.labels.size() != model.classes.size())
    return InvalidInput("{} labels, but {} answers of the model's first output",
                        samples.labels.size(), model.classes.size());
  int64_t right = 0, reference_right = 0, lost = 0, won = 0, agreed = 0;
  for (size_t i = 0; i < model.classes.size(); ++i) {
    agreed += model.classes[i] == reference.classes[i];
    if (!labelled || !samples.labels[i]) continue;
    const int64_t label = *samples.labels[i];
    if (label < 0 || label >= model.elements[i])
      return InvalidInput("sample {}: label {} of a model with {} classes", i, label,
                          model.elements[i]);
    const bool a = reference.classes[i] == label, b = model.classes[i] == label;
    reference_right += a;
    right += b;
    lost += a && !b;
    won += b && !a;
  }
  accuracy.samples = metric == Metric::kTop1        ? samples.labelled()
                     : metric == Metric::kAgreement ? static_cast<int64_t>(model.classes.size())
                                                    : samples.size();
  if (accuracy.samples == 0)
    return InvalidInput("no sample {}", metric == Metric::kTop1 ? "has a label" : "was given");
  if (metric == Metric::kTop1) {
    accuracy.reference = ShareInterval(reference_right, accuracy.samples);
    accuracy.model = ShareInterval(right, accuracy.samples);
    const Interval drop = PairedDrop(lost, won, accuracy.samples);
    accuracy.drop = {100 * drop.value, 100 * drop.low, 100 * drop.high};
  } else {
    accuracy.reference = {1, 1, 1};
    accuracy.model = ShareInterval(agreed, accuracy.samples);
    accuracy.drop = {100 * (1 - accuracy.model.value), 100 * (1 - accuracy.model.high),
                     100 * (1 - accuracy.model.low)};
  }
  accuracy.outputs = ByOutput(EnergiesOf(reference, model), reference);
  if (metric == Metric::kSqnr && accuracy.outputs.empty() &&
      std::ranges::find(reference.sized_by_data, true) != reference.sized_by_data.end())
    return InvalidInput(
        "the sizes of all outputs depend on the data, and no position in them tells the accuracy: "
        "measure it on labels, or add an output before them");
  if (const OutputAccuracy* worst = accuracy.worst()) accuracy.sqnr_db = worst->sqnr_db;
  return accuracy;
}

double RelativeNoise(const Answers& reference, const Answers& model) {
  if (!model.log_probabilities.empty()) {
    double sum = 0, count = 0;
    for (size_t i = 0; i < model.log_probabilities.size(); ++i) {
      for (size_t t = 0; t < model.log_probabilities[i].size(); ++t) {
        const double off =
            double{model.log_probabilities[i][t]} - double{reference.log_probabilities[i][t]};
        sum += off * off;
        ++count;
      }
    }
    return count > 0 ? sum / count : 0;
  }
  const auto energies = EnergiesOf(reference, model);
  double noise = 0;
  for (size_t o = 0; !energies.empty() && o < energies[0].size(); ++o) {
    if (o < reference.sized_by_data.size() && reference.sized_by_data[o]) continue;
    Energy sum;
    for (const auto& sample : energies) sum += sample[o];
    if (sum.noise > 0) noise += sum.signal > 0 ? sum.noise / sum.signal : 1;
  }
  return noise;
}

}  // namespace evoq
