// How far a model's outputs are from another's, over samples: the figures that layers are ranked
// by.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "certify/accuracy.h"
#include "parity/value_error.h"

namespace evoq {

// Of all samples.
struct OutputError {
  // Of the worst output: 10 log10(signal / noise) by EnergyOf (certify/energy.h), infinite without
  // noise, and the cosine of the angle between both (parity/value_error.h).
  double sqnr_db = 0, cosine = 1;
  // Mean over distributions of sum p ln(p / q) in nats (Kullback and Leibler, "On Information and
  // Sufficiency", 1951), p of the model that is right: of class scores one for each sample, of
  // logits of a text one for each token. Nothing for other outputs.
  std::optional<double> kl;
  // Of Metric: the share of right answers (kTop1) or of equal ones (kAgreement), the perplexity;
  // nothing for kSqnr.
  std::optional<double> metric;
  // Noise over signal, summed over outputs: what the noise of several layers adds up in.
  double noise = 0;
};

class OutputErrors {
 public:
  // `scores`: the first output is class scores (AreClassScores), or logits [.., pieces] of a text.
  // `rows`: of a sample (certify/samples.h).
  OutputErrors(Metric metric, bool scores, int64_t rows = 1)
      : metric_(metric), scores_(scores), rows_(rows) {}

  // One sample: what is right, what the model gives, labels of it or its rows where it has them,
  // and of a text the tokens that follow. Errors: kInvalidInput where the label is no class, or for
  // other numbers of outputs or logits.
  Status Add(std::span<const Tensor> right, std::span<const Tensor> got,
             std::span<const std::optional<int64_t>> labels, std::span<const int64_t> next);

  OutputError Mean() const;

 private:
  Status AddAnswers(std::span<const int64_t> right, std::span<const int64_t> got,
                    std::span<const std::optional<int64_t>> labels, int64_t elements);
  Status AddScores(const Tensor& right, const Tensor& got, std::span<const int64_t> next);

  Metric metric_;
  bool scores_;
  int64_t rows_;
  std::vector<Energy> energies_;     // by output
  std::vector<ValueError> cosines_;  // by output
  double kl_ = 0, nll_ = 0;
  int64_t distributions_ = 0, counted_ = 0, right_ = 0;
};

}  // namespace evoq
