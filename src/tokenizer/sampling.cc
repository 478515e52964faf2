#include "tokenizer/sampling.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>

namespace evoq {
namespace {

constexpr size_t kLanes = 8;

// e^x for each x <= 0, from IEEE additions, products and quotients only; below -700 it is 0.
// Relative error under 1e-15. Several at a time: one alone waits for its 14 quotients.
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
    sum[i] = 1;
  }
  for (int n = 14; n > 0; --n) {
    for (size_t i = 0; i < kLanes; ++i) sum[i] = 1 + sum[i] * rest[i] / n;
  }
  for (size_t i = 0; i < kLanes; ++i) x[i] = x[i] > kLeast ? sum[i] * power[i] : 0;
}

double ExpOf(double x) {
  std::array<double, kLanes> values{x};
  Exp(values);
  return values[0];
}

}  // namespace

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
  heap_.clear();
  for (size_t i = 0; i < logits.size(); ++i) {
    if (std::isnan(logits[i]) || logits[i] == INFINITY)
      return InvalidInput("logit {} is {}, expected a number", i, logits[i]);
    heap_.push_back({logits[i], static_cast<int64_t>(i)});
  }
  Weigh(before);
  const auto best = std::max_element(heap_.begin(), heap_.end());
  if (best == heap_.end() || best->logit == -INFINITY)
    return InvalidInput("none of {} logits is a finite number", logits.size());
  if (options_.temperature == 0) return best->id;
  const double largest = best->logit;
  for (Candidate& c : heap_) c.logit = (c.logit - largest) / options_.temperature;
  std::make_heap(heap_.begin(), heap_.end());
  return Draw();
}

double* Sampler::LogitOf(int64_t id) {
  if (id < 0 || id >= static_cast<int64_t>(heap_.size())) return nullptr;
  return &heap_[static_cast<size_t>(id)].logit;
}

void Sampler::Weigh(const PiecesBefore& before) {
  const SamplingOptions& o = options_;
  for (const auto& [id, bias] : o.logit_bias) {
    if (double* const logit = LogitOf(id)) *logit += bias;
  }
  // Calls `change` with the logit of each piece, and whether it is the first time.
  const auto each = [&](std::span<const int64_t> ids, const auto& change) {
    seen_.assign(heap_.size(), false);
    for (const int64_t id : ids) {
      double* const logit = LogitOf(id);
      if (logit == nullptr) continue;
      change(*logit, !seen_[static_cast<size_t>(id)]);
      seen_[static_cast<size_t>(id)] = true;
    }
  };
  if (o.repeat_penalty != 1) {
    each(before.recent, [&](double& logit, bool first) {
      if (first) logit = logit > 0 ? logit / o.repeat_penalty : logit * o.repeat_penalty;
    });
  }
  if (o.presence_penalty != 0 || o.frequency_penalty != 0) {
    each(before.written, [&](double& logit, bool first) {
      logit -= o.frequency_penalty + (first ? o.presence_penalty : 0);
    });
  }
  for (const int64_t id : before.banned) {
    if (double* const logit = LogitOf(id)) *logit = -INFINITY;
  }
  if (before.allowed.empty()) return;
  constexpr size_t kBits = 64;
  for (size_t i = 0; i < heap_.size(); ++i) {
    const bool allowed =
        i / kBits < before.allowed.size() && (before.allowed[i / kBits] >> (i % kBits) & 1) != 0;
    if (!allowed) heap_[i].logit = -INFINITY;
  }
}

// The candidates leave the heap by falling probability: to its end, the likeliest last.
int64_t Sampler::Draw() {
  const auto n = static_cast<int64_t>(heap_.size());
  const int64_t most = options_.top_k > 0 ? std::min(options_.top_k, n) : n;
  int64_t out = 0;  // that have left
  const auto weight = [&](int64_t i) {
    for (; out <= i; ++out) std::pop_heap(heap_.begin(), heap_.end() - out);
    return ExpOf(heap_[static_cast<size_t>(n - 1 - i)].logit);
  };
  double total = 0;
  if (most < n) {
    for (int64_t i = 0; i < most; ++i) total += weight(i);
  } else {
    for (size_t at = 0; at < heap_.size(); at += kLanes) {
      std::array<double, kLanes> weights{};
      const size_t count = std::min(kLanes, heap_.size() - at);
      for (size_t i = 0; i < count; ++i) weights[i] = heap_[at + i].logit;
      Exp(weights);
      for (size_t i = 0; i < count; ++i) total += weights[i];
    }
  }
  // What is kept, and its sum.
  int64_t kept = most;
  double sum = total;
  if (options_.top_p < 1 || options_.min_p > 0) {
    sum = 0;
    for (kept = 0; kept < most; ++kept) {
      const double w = weight(kept);
      const bool reached = kept > 0 && sum >= options_.top_p * total;
      if (reached || w < options_.min_p) break;  // the largest weight is 1
      sum += w;
    }
  }
  const double u = static_cast<double>(RandomBits(options_.seed, drawn_++) >> 11) * 0x1p-53;
  double reached = 0;
  int64_t i = 0;
  for (; i < kept; ++i) {
    reached += weight(i);
    if (reached > u * sum) break;
  }
  return heap_[static_cast<size_t>(n - 1 - std::min(i, kept - 1))].id;
}

}  // namespace evoq
