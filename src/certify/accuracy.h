// How much less accurate one model is than another on the same samples.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/on_progress.h"
#include "certify/energy.h"
#include "certify/samples.h"
#include "engine/engine.h"
#include "profile/interval.h"

namespace evoq {

enum class Metric {
  kTop1,        // points of top-1 lost, on samples with labels
  kAgreement,   // 100 minus the percentage of samples that get the float model's class
  kSqnr,        // signal to noise of every output against the float model's, in dB
  kPerplexity,  // percent by which a text's perplexity grew
};
const char* MetricName(Metric metric);  // "top1", "agreement", ...
std::optional<Metric> FindMetric(std::string_view name);

// What is promised of the accuracy.
struct AccuracyLimit {
  double max_drop = 0.5;    // points, of kTop1 and kAgreement
  double min_sqnr_db = 20;  // of every output: of kSqnr
  bool also_sqnr = false;   // min_sqnr_db is promised beside max_drop
  double max_growth = 1;    // percent, of kPerplexity
};

// What a model gives for each sample.
struct Answers {
  std::vector<std::string> names;  // of the outputs
  // By output: its size depends on the data (certify/sized_by_data.h), which no position tells of:
  // it has no signal to noise. Empty: of none.
  std::vector<bool> sized_by_data;
  std::vector<std::vector<Tensor>>
      outputs;  // by sample, by output; empty where only classes, or energies, are known
  std::vector<std::vector<Energy>> energies;  // by sample, by output: against a reference's outputs
  std::vector<int64_t> classes;               // ClassesOf the first output, one behind the other
  std::vector<int64_t> elements;              // that each is one of; a reference needs none
  // Of samples that say what comes next, and nothing else of those: natural logarithms of its
  // probabilities, by sample, by token; and the mean of each sample, negative.
  std::vector<std::vector<float>> log_probabilities;
  std::vector<double> nll;
};

struct AnswerOptions {
  const Answers* reference =
      nullptr;  // not null: only energies against its outputs are kept, not outputs
  OnProgress progress;
  std::function<bool()> stop;  // no further sample is begun once it is true; may be null
};
// Answers to all samples; to fewer, from the first on, where it was stopped. Errors: those of a
// run; kInvalidInput for a model without outputs, or with others than the reference's.
Result<Answers> Answer(Engine& engine, const Samples& samples, const AnswerOptions& options = {});

// The model has one output, of one dimension of at least 2 elements and otherwise dimensions of 1.
// `rows`: of a sample, each with such scores.
bool AreClassScores(const Answers& answers, int64_t rows = 1);
bool AreClassScores(std::span<const Tensor> outputs, int64_t rows = 1);  // of one sample
// kPerplexity of a text, kTop1 with labels, else kAgreement of class scores, else kSqnr.
Metric ChooseMetric(const Samples& samples, const Answers& answers);

struct OutputAccuracy {
  std::string name;
  Interval sqnr_db;
};

struct Accuracy {
  Metric metric = Metric::kAgreement;
  int64_t samples = 0;  // counted, or their rows: for kTop1 those with labels
  // The share of samples that each answers right (kTop1) or alike (kAgreement: `reference` is 1).
  Interval reference, model;
  // Perplexities, of kPerplexity.
  Interval drop;     // in points; percent of growth, of kPerplexity; not of kSqnr
  Interval sqnr_db;  // of the worst output; where outputs, or energies, are known
  std::vector<OutputAccuracy> outputs;  // each one, where known

  // Whether the value keeps the limit; `certain`: or its interval does not exclude that, for
  // samples other than the limit's.
  bool Keeps(const AccuracyLimit& limit, bool certain = false) const;
  // The one with the least signal to noise; null where none is known.
  const OutputAccuracy* worst() const;
};
// Errors: kInvalidInput for a label that is no class, no sample that counts, or, of kSqnr, outputs
// whose sizes all depend on the data.
Result<Accuracy> CompareAnswers(Metric metric, const Answers& reference, const Answers& model,
                                const Samples& samples);

// Energy of the difference over the energy of the reference, of all samples, summed over outputs;
// of a text the mean square of what logarithms of probabilities differ by: what the search adds up
// by layer.
double RelativeNoise(const Answers& reference, const Answers& model);

}  // namespace evoq
