#include "tokenizer/sampling.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <functional>
#include <limits>
#include <random>
#include <utility>

namespace evoq {
namespace {

constexpr size_t kLanes = 8;

// 1 / n!, of e^x's series.
constexpr int kTerms = 15;
constexpr std::array<double, kTerms> kInverseFactorials = [] {
  std::array<double, kTerms> of = {1};
  double factorial = 1;
  for (int n = 1; n < kTerms; ++n) of[static_cast<size_t>(n)] = 1 / (factorial *= n);
  return of;
}();

// e^x for each x <= 0, from IEEE additions and products only; below -700 it is 0. Relative error
// under 1e-15. Several at a time: one alone waits for each of its products.
void Exp(std::array<double, kLanes>& x) {
  constexpr double kLeast = -700, kLog2e = 1.4426950408889634, kLn2High = 0.693147180369123816490,
                   kLn2Low = 1.90821492927058770002e-10;  // fdlibm's split of ln 2
  std::array<double, kLanes> rest, sum, power;
  for (size_t i = 0; i < kLanes; ++i) {
    const double held = x[i] > kLeast ? x[i] : kLeast;
    const double place = held * kLog2e + 0.5;
    double k = static_cast<int32_t>(place);
    if (k > place) k -= 1;                                                   // the floor
    rest[i] = (held - k * kLn2High) - k * kLn2Low;                           // |rest| <= ln 2 / 2
    power[i] = std::bit_cast<double>(static_cast<int64_t>(k + 1023) << 52);  // 2^k
    sum[i] = kInverseFactorials[kTerms - 1];
  }
  for (size_t n = kTerms - 1; n-- > 0;) {
    for (size_t i = 0; i < kLanes; ++i) sum[i] = kInverseFactorials[n] + sum[i] * rest[i];
  }
  for (size_t i = 0; i < kLanes; ++i) x[i] = x[i] > kLeast ? sum[i] * power[i] : 0;
}

double ExpOf(double x) {
  std::array<double, kLanes> values{x};
  Exp(values);
  return values[0];
}

// Weights down to e^-64 have buckets, one for about 16 pieces; what is less likely is in the last.
constexpr double kUnits = 64;
constexpr size_t kMostBuckets = 4096;

// The largest of the logits, minus infinity of none. Errors: kInvalidInput for what is no number.
Result<float> LargestOf(std::span<const float> logits) {
  constexpr size_t kAtOnce = 16;
  std::array<float, kAtOnce> most;
  std::array<int32_t, kAtOnce> wrong = {};
  most.fill(-INFINITY);
  const auto look = [&](size_t at, size_t count) {
    for (size_t i = 0; i < count; ++i) {
      const float x = logits[at + i];
      most[i] = x > most[i] ? x : most[i];
      wrong[i] |= !(x < INFINITY);
    }
  };
  size_t at = 0;
  for (; at + kAtOnce <= logits.size(); at += kAtOnce) look(at, kAtOnce);
  look(at, logits.size() - at);
  if (std::ranges::find(wrong, 1) != wrong.end()) {
    const auto found = std::ranges::find_if(logits, [](float x) { return !(x < INFINITY); });
    return InvalidInput("logit {} is {}, expected a number", found - logits.begin(), *found);
  }
  return std::ranges::max(most);
}

// Calls f(first, count) for neighbours of up to kLanes logits of which one is at least `least`.
template <typename F>
void EachAtLeast(std::span<const float> logits, const float& least, const F& f) {
  for (size_t at = 0; at < logits.size(); at += kLanes) {
    const size_t count = std::min(kLanes, logits.size() - at);
    bool some = false;
    for (size_t i = 0; i < count; ++i) some |= logits[at + i] >= least;
    if (some) f(at, count);
  }
}

}  // namespace

uint64_t DrawnSeed() {
  thread_local std::mt19937_64 random{std::random_device{}()};
  return random() >> 1;
}

uint64_t RandomBits(uint64_t seed, uint64_t i) {
  uint64_t z = seed + (i + 1) * 0x9E3779B97F4A7C15;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
  return z ^ (z >> 31);
}

Result<Sampler> Sampler::Make(const SamplingOptions& o) {
  const auto check = [](const char* name, double value, double low, double high) -> Status {
    if (value >= low && value <= high) return {};
    return Fail(ErrorCode::kUsage, "{} {}: expected {} to {}", name, value, low, high);
  };
  EVOQ_TRY(check("temperature", o.temperature, 0, 1000));
  EVOQ_TRY(check("top_p", o.top_p, 0, 1));
  EVOQ_TRY(check("min_p", o.min_p, 0, 1));
  EVOQ_TRY(check("repeat_penalty", o.repeat_penalty, 0.01, 100));
  EVOQ_TRY(check("presence_penalty", o.presence_penalty, -100, 100));
  EVOQ_TRY(check("frequency_penalty", o.frequency_penalty, -100, 100));
  for (const auto& [id, bias] : o.logit_bias) EVOQ_TRY(check("logit_bias", bias, -1000, 1000));
  if (o.top_k < 0) return Fail(ErrorCode::kUsage, "top_k {}: expected 0 or more", o.top_k);
  Sampler sampler;
  sampler.options_ = o;
  return sampler;
}

Result<int64_t> Sampler::Next(std::span<const float> logits, const PiecesBefore& before) {
  EVOQ_ASSIGN(largest_, LargestOf(logits));
  logits_ = Weigh(logits, before);
  if (logits_.data() != logits.data()) {
    EVOQ_ASSIGN(largest_, LargestOf(logits_));
  }
  if (largest_ == -INFINITY)
    return InvalidInput("none of {} logits is a finite number", logits.size());
  if (options_.temperature > 0) return Draw();
  return std::ranges::find(logits_, largest_) - logits_.begin();
}

std::span<const float> Sampler::Weigh(std::span<const float> logits, const PiecesBefore& before) {
  changed_.reserve(logits.size());
  const SamplingOptions& o = options_;
  const bool repeated = o.repeat_penalty != 1 && !before.recent.empty(),
             counted =
                 (o.presence_penalty != 0 || o.frequency_penalty != 0) && !before.written.empty();
  if (o.logit_bias.empty() && !repeated && !counted && before.banned.empty() &&
      before.allowed.empty())
    return logits;
  changed_.assign(logits.begin(), logits.end());
  constexpr double kMost = std::numeric_limits<float>::max();
  const auto known = [&](int64_t id) {
    return id >= 0 && id < static_cast<int64_t>(changed_.size());
  };
  const auto set = [&](int64_t id, const auto& change) {
    if (!known(id)) return;
    float& logit = changed_[static_cast<size_t>(id)];
    if (logit != -INFINITY)
      logit = static_cast<float>(std::clamp(change(double{logit}), -kMost, kMost));
  };
  // Calls `change` with the logit of each piece, and whether it is the first time.
  const auto each = [&](std::span<const int64_t> ids, const auto& change) {
    seen_.assign(changed_.size(), false);
    for (const int64_t id : ids) {
      if (!known(id)) continue;
      const bool first = !seen_[static_cast<size_t>(id)];
      set(id, [&](double logit) { return change(logit, first); });
      seen_[static_cast<size_t>(id)] = true;
    }
  };
  for (const auto& [id, bias] : o.logit_bias)
    set(id, [bias = bias](double logit) { return logit + bias; });
  if (repeated) {
    each(before.recent, [&](double logit, bool first) {
      if (!first) return logit;
      return logit > 0 ? logit / o.repeat_penalty : logit * o.repeat_penalty;
    });
  }
  if (counted) {
    each(before.written, [&](double logit, bool first) {
      return logit - o.frequency_penalty - (first ? o.presence_penalty : 0);
    });
  }
  for (const int64_t id : before.banned) {
    if (known(id)) changed_[static_cast<size_t>(id)] = -INFINITY;
  }
  if (before.allowed.empty()) return changed_;
  constexpr size_t kBits = 64;
  for (size_t i = 0; i < changed_.size(); ++i) {
    const bool allowed =
        i / kBits < before.allowed.size() && (before.allowed[i / kBits] >> (i % kBits) & 1) != 0;
    if (!allowed) changed_[i] = -INFINITY;
  }
  return changed_;
}

float Sampler::Least() {
  constexpr int64_t kMostOrdered = 1024;
  const SamplingOptions& o = options_;
  if (o.top_k > 0 && o.top_k <= kMostOrdered && o.top_k < std::ssize(logits_)) {
    // A heap of the likeliest so far, the least of them first.
    const auto k = static_cast<size_t>(o.top_k);
    likeliest_.assign(k, -INFINITY);
    EachAtLeast(logits_, likeliest_[0], [&](size_t at, size_t count) {
      for (const float logit : logits_.subspan(at, count)) {
        if (!(logit > likeliest_[0])) continue;
        std::ranges::pop_heap(likeliest_, std::greater());
        likeliest_.back() = logit;
        std::ranges::push_heap(likeliest_, std::greater());
      }
    });
    return likeliest_[0];
  }
  if (o.top_p < 1 || o.min_p == 0) return -INFINITY;
  // A little less than the last that min_p keeps: weights are compared with it.
  const double least = largest_ + o.temperature * std::log(o.min_p);
  return static_cast<float>(least - 1e-5 * (std::abs(least) + o.temperature));
}

double Sampler::per_unit() const { return static_cast<double>(counts_.size()) / kUnits; }

void Sampler::Spread() {
  const size_t buckets = std::clamp<size_t>(std::bit_ceil(logits_.size() / 16), 1, kMostBuckets);
  opened_ = buckets;
  counts_.assign(buckets, 0);
  sums_.assign(buckets, 0);
  kept_.clear();
  kept_.reserve(logits_.size());
  pieces_.reserve(logits_.size());
  const double temperature = options_.temperature;
  const float least = Least();
  EachAtLeast(logits_, least, [&](size_t at, size_t count) {
    std::array<double, kLanes> weights{}, places{};
    for (size_t i = 0; i < count; ++i)
      weights[i] = (static_cast<double>(logits_[at + i]) - largest_) / temperature;
    for (size_t i = 0; i < kLanes; ++i)
      places[i] = std::min(-weights[i] * per_unit(), static_cast<double>(buckets - 1));
    Exp(weights);
    for (size_t i = 0; i < count; ++i) {
      const auto bucket = static_cast<uint32_t>(places[i]);
      kept_.push_back({static_cast<uint32_t>(at + i), bucket});
      ++counts_[bucket];
      sums_[bucket] += weights[i];
    }
  });
}

const std::vector<Sampler::Piece>& Sampler::Opened(size_t bucket) {
  if (opened_ == bucket) return pieces_;
  opened_ = bucket;
  pieces_.clear();
  for (const InBucket& piece : kept_) {
    if (piece.bucket != bucket) continue;
    const float logit = logits_[piece.id];
    const double x = (static_cast<double>(logit) - largest_) / options_.temperature;
    pieces_.push_back({logit, ExpOf(x), piece.id});
  }
  std::ranges::sort(pieces_, [](const Piece& a, const Piece& b) {
    return a.logit != b.logit ? a.logit > b.logit : a.id < b.id;
  });
  return pieces_;
}

template <typename Whole, typename One>
void Sampler::Walk(const Whole& whole, const One& one) {
  for (size_t bucket = 0; bucket < counts_.size(); ++bucket) {
    if (counts_[bucket] == 0) continue;
    const Take take = whole(bucket);
    if (take == Take::kStop) return;
    if (take == Take::kWhole) continue;
    for (const Piece& piece : Opened(bucket)) {
      if (!one(piece)) return;
    }
  }
}

int64_t Sampler::Draw() {
  Spread();
  const SamplingOptions& o = options_;
  const int64_t most = o.top_k > 0 ? o.top_k : std::ssize(logits_);
  int64_t left = most;
  double total = 0;
  Walk(
      [&](size_t bucket) {
        if (left == 0) return Take::kStop;
        if (counts_[bucket] > left) return Take::kOpen;
        left -= counts_[bucket];
        total += sums_[bucket];
        return Take::kWhole;
      },
      [&](const Piece& piece) {
        total += piece.weight;
        return --left > 0;
      });
  // What is kept, and its sum.
  int64_t kept = most - left;
  double sum = total;
  if (o.top_p < 1 || o.min_p > 0) {
    const int64_t all = std::exchange(kept, 0);
    sum = 0;
    Walk(
        [&](size_t bucket) {
          if (kept == all) return Take::kStop;
          const double least = o.min_p == 0 || bucket + 1 == counts_.size()
                                   ? 0
                                   : ExpOf(-static_cast<double>(bucket + 1) / per_unit());
          if (!(sum + sums_[bucket] < o.top_p * total) || least < o.min_p) return Take::kOpen;
          kept += counts_[bucket];
          sum += sums_[bucket];
          return Take::kWhole;
        },
        [&](const Piece& piece) {  // the largest weight is 1
          if (kept == all || (kept > 0 && sum >= o.top_p * total) || piece.weight < o.min_p)
            return false;
          sum += piece.weight;
          ++kept;
          return true;
        });
  }
  const double u = static_cast<double>(RandomBits(o.seed, drawn_++) >> 11) * 0x1p-53;
  double reached = 0;
  int64_t drawn = std::ranges::find(logits_, largest_) - logits_.begin();
  Walk(
      [&](size_t bucket) {
        if (kept == 0) return Take::kStop;
        if (counts_[bucket] >= kept || reached + sums_[bucket] > u * sum) return Take::kOpen;
        kept -= counts_[bucket];
        reached += sums_[bucket];
        return Take::kWhole;
      },
      [&](const Piece& piece) {
        if (piece.weight > 0) drawn = piece.id;
        reached += piece.weight;
        return --kept > 0 && !(reached > u * sum);
      });
  return drawn;
}

}  // namespace evoq
