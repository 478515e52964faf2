#include "train/feeder.h"

#include <algorithm>
#include <cmath>

namespace evoq {
namespace {

// Of Beta(a, a), 0 < a <= 1 (Jöhnk, 1964).
double Beta(double a, XorShift& random) {
  const auto uniform = [&] { return static_cast<double>((random.Next() >> 11) + 1) * 0x1p-53; };
  for (;;) {
    const double x = std::pow(uniform(), 1 / a), y = std::pow(uniform(), 1 / a);
    if (x + y > 0 && x + y <= 1) return x / (x + y);
  }
}

}  // namespace

void Feeder::operator()(int64_t i, int64_t epoch, std::span<const int64_t> others,
                        std::span<float* const> inputs, std::span<SampleTarget> targets) const {
  Vary(i, epoch, inputs);
  if (samples_.real()) {
    targets[0] = {.values = samples_.target(i)};
  } else {
    const std::span<const int64_t> labels = samples_.labels_of(i);
    for (size_t r = 0; r < targets.size(); ++r) targets[r] = {.label = labels[r]};
  }
  if (mixup_ > 0) Mix(i, epoch, others, inputs, targets);
}

// Zhang et al., "mixup: Beyond Empirical Risk Minimization" (2018), with a share for each sample,
// of which the larger part is the sample's own.
void Feeder::Mix(int64_t i, int64_t epoch, std::span<const int64_t> others,
                 std::span<float* const> inputs, std::span<SampleTarget> targets) const {
  constexpr uint64_t kOwn = uint64_t{1} << 62;  // apart from the seeds of Vary
  XorShift random(SeedOf(seed_, kOwn + static_cast<uint64_t>(epoch), static_cast<uint64_t>(i)));
  const int64_t other = others[(random.Next() >> 32) % others.size()];
  const double drawn = Beta(mixup_, random);
  const auto share = static_cast<float>(std::min(drawn, 1 - drawn));
  std::vector<std::vector<float>> mixed;
  std::vector<float*> places;
  for (size_t k = 0; k < inputs.size(); ++k) {
    mixed.emplace_back(static_cast<size_t>(samples_.elements(k)));
    places.push_back(mixed.back().data());
  }
  Vary(other, epoch, places);
  for (size_t k = 0; k < inputs.size(); ++k) {
    for (size_t j = 0; j < mixed[k].size(); ++j)
      inputs[k][j] = (1 - share) * inputs[k][j] + share * mixed[k][j];
  }
  for (SampleTarget& target : targets) target.share = share;
  if (samples_.real()) {
    targets[0].other_values = samples_.target(other);
    return;
  }
  const std::span<const int64_t> labels = samples_.labels_of(other);
  for (size_t r = 0; r < targets.size(); ++r) targets[r].other = labels[r];
}

void Feeder::Vary(int64_t i, int64_t epoch, std::span<float* const> inputs) const {
  XorShift random(SeedOf(seed_, 2 + static_cast<uint64_t>(epoch), static_cast<uint64_t>(i)));
  for (size_t k = 0; k < inputs.size(); ++k) {
    const float* const from = samples_.sample(k, i);
    const int64_t n = samples_.elements(k);
    const std::vector<int64_t>& sizes = samples_.sizes[k];
    if (augmentations_.empty() || sizes.size() != 3) {
      std::copy_n(from, n, inputs[k]);
      continue;
    }
    std::vector<float> now(from, from + n);
    for (const Augmentation& a : augmentations_) {
      a.row->apply({sizes[0], sizes[1], sizes[2]}, a.amount, random, now.data(), inputs[k]);
      std::copy_n(inputs[k], n, now.data());
    }
  }
}

}  // namespace evoq
