#include "foreign/forecasts/change.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace evoq {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

struct Sums {
  double signal = 0, noise = 0;
};

void Add(const Tensor& before, const Tensor& after, OutputChange& change, Sums& sums) {
  const Result<Tensor> y = ToFloat32(before), z = ToFloat32(after);
  if (before.sizes() != after.sizes() || y.has_value() != z.has_value() ||
      (!y && !BitEqual(before, after)))
    change.max_difference = kInfinity;
  if (before.sizes() != after.sizes() || !y || !z) return;
  for (int64_t i = 0; i < y->elements(); ++i) {
    const double a = y->data<float>()[i], b = z->data<float>()[i];
    if (a == b || (std::isnan(a) && std::isnan(b))) {
      if (std::isfinite(a)) sums.signal += a * a;
    } else if (std::isfinite(a) && std::isfinite(b)) {
      sums.signal += a * a;
      sums.noise += (a - b) * (a - b);
      change.max_difference = std::max(change.max_difference, std::fabs(a - b));
    } else {
      change.max_difference = kInfinity;
    }
    if (std::isfinite(a)) change.largest = std::max(change.largest, std::fabs(a));
  }
}

}  // namespace

std::vector<OutputChange> CompareOutputs(const Graph& graph, const SampleOutputs& before,
                                         const SampleOutputs& after) {
  std::vector<OutputChange> changes;
  for (size_t k = 0; k < graph.outputs().size(); ++k) {
    OutputChange change;
    change.output = graph.value(graph.outputs()[k]).name;
    Sums sums;
    for (size_t s = 0; s < before.size() && s < after.size(); ++s) {
      if (k < before[s].size() && k < after[s].size()) Add(before[s][k], after[s][k], change, sums);
    }
    const bool unmeasurable = change.max_difference == kInfinity;
    change.snr_db = unmeasurable     ? -kInfinity
                    : sums.noise > 0 ? 10 * std::log10(sums.signal / sums.noise)
                                     : kInfinity;
    changes.push_back(std::move(change));
  }
  return changes;
}

const OutputChange* Worst(std::span<const OutputChange> changes) {
  const OutputChange* worst = nullptr;
  for (const OutputChange& c : changes) {
    const bool worse =
        worst == nullptr || (!c.exact() && (worst->exact() || c.snr_db < worst->snr_db));
    if (worse) worst = &c;
  }
  return worst;
}

}  // namespace evoq
