// The next piece of a language model's text from its logits.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"

namespace evoq {

struct SamplingOptions {
  double temperature = 0;  // 0: the largest logit, the smallest number of equals
  int64_t top_k = 0;       // keep the K likeliest pieces; 0: all
  double top_p = 1;        // keep the fewest whose probabilities reach P
  double min_p = 0;        // keep those of at least P times the largest probability
  double repeat_penalty =
      1;  // of pieces that occur in `recent`: logit / R where positive, else * R
  uint64_t seed = 0;
};

// The i-th number of a seed, from 0 on: SplitMix64 (Steele, Lea, Flood 2014).
uint64_t RandomBits(uint64_t seed, uint64_t i);

// Draws pieces one after the other. The i-th draw of a sampler is a function of the options, the
// logits, `recent` and i, equal on all machines: what it computes with is its own. A value; no call
// allocates once the first has.
//
// In this order: repeat_penalty; logits / temperature; top_k; of what is left, top_p; min_p; then
// the pieces are laid out by falling probability, equals by number, and the piece is taken at which
// they reach u times their sum, u = (RandomBits >> 11) / 2^53.
class Sampler {
 public:
  // Errors: kUsage naming the option that is out of range.
  static Result<Sampler> Make(const SamplingOptions& options);

  // `recent` are the numbers of pieces that came before, in any order; others than those of logits
  // are ignored. Errors: kInvalidInput where a logit is no number or none is finite.
  Result<int64_t> Next(std::span<const float> logits, std::span<const int64_t> recent = {});

 private:
  struct Candidate {
    double logit;
    int64_t id;
    bool operator<(const Candidate& other) const {  // comes later
      return logit != other.logit ? logit < other.logit : id > other.id;
    }
  };
  void Penalize(std::span<const int64_t> recent);
  int64_t Draw();
  SamplingOptions options_;
  uint64_t drawn_ = 0;
  std::vector<Candidate> heap_;
  std::vector<bool> seen_;
};

}  // namespace evoq
