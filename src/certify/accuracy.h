// How much less accurate one model is than another on the same samples.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "certify/samples.h"
#include "engine/engine.h"
#include "profile/interval.h"

namespace evoq {

enum class Metric {
  kTop1,       // points of top-1 lost, on samples with labels
  kAgreement,  // 100 minus the percentage of samples that get the float model's class
  kSqnr,       // signal to noise of the outputs against the float model's, in dB
};
const char* MetricName(Metric metric);  // "top1", "agreement", "sqnr"
std::optional<Metric> FindMetric(std::string_view name);

// What is promised of the accuracy.
struct AccuracyLimit {
  double max_drop = 0.5;   // points, of kTop1 and kAgreement
  double min_sqnr_db = 20;  // of kSqnr
};

// The first output of a model for each sample, as float32, and the position of its largest element.
struct Answers {
  std::vector<Tensor> outputs;  // empty where only the classes are known
  std::vector<int64_t> classes;
};
// Errors: those of a run; kInvalidInput when the first output is empty.
Result<Answers> Answer(Engine& engine, const Samples& samples, const std::function<void(double fraction)>& progress = nullptr);

// The first output has one dimension of at least 2 elements and otherwise dimensions of 1.
bool AreClassScores(const Answers& answers);
// kTop1 with labels, else kAgreement of class scores, else kSqnr.
Metric ChooseMetric(const Samples& samples, const Answers& answers);

struct Accuracy {
  Metric metric = Metric::kAgreement;
  int64_t samples = 0;  // counted: for kTop1 those with labels
  // The share of samples that each answers right (kTop1) or alike (kAgreement: `reference` is 1).
  Interval reference, model;
  Interval drop;     // in points; not of kSqnr
  Interval sqnr_db;  // where both have outputs

  // Whether the value keeps the limit; `certain`: or its interval does not exclude that, for samples other than the limit's.
  bool Keeps(const AccuracyLimit& limit, bool certain = false) const;
};
// Errors: kInvalidInput for outputs of different sizes or a label that is no class.
Result<Accuracy> CompareAnswers(Metric metric, const Answers& reference, const Answers& model, const Samples& samples);

// Energy of the difference over the energy of the reference, summed over samples: what the search adds up by layer.
double RelativeNoise(const Answers& reference, const Answers& model);

}  // namespace evoq
