// The next piece of a language model's text from its logits.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "base/result.h"

namespace evoq {

struct SamplingOptions {
  double temperature = 0;     // 0: the largest logit, the smallest number of equals
  int64_t top_k = 0;          // keep the K likeliest pieces; 0: all
  double top_p = 1;           // keep the fewest whose probabilities reach P
  double min_p = 0;           // keep those of at least P times the largest probability
  double repeat_penalty = 1;  // of pieces in `recent`: logit / R where positive, else * R
  uint64_t seed = 0;
  double presence_penalty = 0;                         // of pieces in `written`: logit - P
  double frequency_penalty = 0;                        // of the same: logit - F for each time
  std::vector<std::pair<int64_t, double>> logit_bias;  // pieces, and what their logits get more
};

// What came before a piece, as numbers of pieces in any order; others than those of logits are
// ignored.
struct PiecesBefore {
  std::span<const int64_t> recent;   // of the prompt and the text, the last ones
  std::span<const int64_t> written;  // of the text, all
  std::span<const int64_t> banned;   // that must not come now
  // A bit for each piece that may come, 64 in a number, none for those behind; empty: all may.
  std::span<const uint64_t> allowed;
};

// A seed that nobody chose, below 2^63.
uint64_t DrawnSeed();

// The i-th number of a seed, from 0 on: SplitMix64 (Steele, Lea, Flood 2014).
uint64_t RandomBits(uint64_t seed, uint64_t i);

// Draws pieces one after the other. The i-th draw of a sampler is a function of the options, the
// logits, `recent` and i, equal on all machines: what it computes with is its own. A value; no call
// allocates once the first has.
//
// In this order: logit_bias; repeat_penalty; the penalties of presence and frequency; what is
// banned or not allowed has no probability; logits / temperature; top_k; of what is left, top_p;
// min_p; then the pieces are laid out by falling probability, equals by number, and the piece is
// taken at which they reach u times their sum, u = (RandomBits >> 11) / 2^53.
class Sampler {
 public:
  // Errors: kUsage naming the option that is out of range.
  static Result<Sampler> Make(const SamplingOptions& options);

  // Errors: kInvalidInput where a logit is no number or none is finite.
  Result<int64_t> Next(std::span<const float> logits, const PiecesBefore& before = {});

 private:
  // Pieces are laid out by falling logit in buckets of which most are skipped as a whole, and few
  // are put in order.
  struct Piece {
    float logit;
    double weight;  // e^((logit - the largest) / temperature)
    int64_t id;
  };
  struct InBucket {
    uint32_t id, bucket;
  };
  enum class Take { kWhole, kOpen, kStop };

  // The logits with the options' and the pieces' changes: as they come where there are none.
  std::span<const float> Weigh(std::span<const float> logits, const PiecesBefore& before);
  // What no piece that is kept lies below.
  float Least();
  void Spread();
  double per_unit() const;  // buckets for each factor of e
  const std::vector<Piece>& Opened(size_t bucket);
  // From the likeliest on: what `whole` says of each bucket, `one` of each piece of those that are
  // opened, until one of them has enough.
  template <typename Whole, typename One>
  void Walk(const Whole& whole, const One& one);
  int64_t Draw();

  SamplingOptions options_;
  uint64_t drawn_ = 0;
  std::vector<float> changed_;
  std::vector<bool> seen_;
  std::vector<float> likeliest_;  // top_k logits
  // Of the present call. By bucket: how many pieces, and the sum of their weights.
  std::span<const float> logits_;
  float largest_ = 0;
  std::vector<InBucket> kept_;  // all that are not below Least
  std::vector<int64_t> counts_;
  std::vector<double> sums_;
  size_t opened_ = 0;
  std::vector<Piece> pieces_;  // of the bucket that is opened, in order
};

}  // namespace evoq
