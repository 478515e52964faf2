#include "runtime/adapter.h"

#include <algorithm>
#include <cmath>
#include <map>

namespace evoq {
namespace {

// By set, the mean over the values that any set changes of the logarithm of their scales against
// the first set's.
std::vector<double> WidthsOf(const Model& model) {
  std::vector<double> sums(model.sets.size());
  std::map<std::string, int> changed;
  for (size_t s = 0; s < model.sets.size(); ++s) {
    for (const ScaleChange& change : model.sets[s].changes) {
      const ValueId id = model.graph.FindValue(change.value);
      if (!id.valid() || change.constant.defined() || !change.quant->per_tensor()) continue;
      ++changed[change.value];
      sums[s] += std::log(static_cast<double>(change.quant->scales[0]) /
                          model.graph.value(id).type.quant->scales[0]);
    }
  }
  for (double& sum : sums) sum /= std::max(1.0, static_cast<double>(changed.size()));
  return sums;
}

}  // namespace

Status CheckAdaptive(const AdaptiveOptions& options, const Model& model) {
  if (!(options.clip_limit >= 0 && options.clip_limit < 1))
    return Fail(ErrorCode::kUsage, "a clip limit of {}, expected 0 to 1", options.clip_limit);
  if (options.widen_after < 1 || options.narrow_after < 1)
    return Fail(ErrorCode::kUsage, "a switch after {} and {} looks, expected 1 or more",
                options.widen_after, options.narrow_after);
  if (options.every < 0)
    return Fail(ErrorCode::kUsage, "a look every {} runs, expected 0 or more", options.every);
  if (model.sets.empty() && !options.watch)
    return Fail(ErrorCode::kUsage,
                "it has one set of scales: `evoq quantize --scale-sets K` makes more");
  const auto has = [&](const ScaleSet& set) { return set.name == options.pinned; };
  if (options.pinned.empty() || std::ranges::any_of(model.sets, has)) return {};
  if (model.sets.empty())
    return Fail(ErrorCode::kUsage, "it has no scale set {}: it has one set", options.pinned);
  std::vector<std::string> names;
  for (const ScaleSet& set : model.sets) names.push_back(set.name);
  return Fail(ErrorCode::kUsage, "it has no scale set {}: {}", options.pinned,
              fmt::join(names, ", "));
}

Adapter::Adapter(const Model& model, const AdaptiveOptions& options)
    : options_(options), widths_(WidthsOf(model)) {
  for (const ScaleSet& set : model.sets) state_.sets.push_back(set.name);
  if (model.sets.empty()) {
    state_.sets.push_back("calibrated");
    widths_.push_back(0);
  }
  rates_.resize(state_.sets.size());
  Start();
}

std::shared_ptr<Adapter> Adapter::Fresh() const {
  auto fresh = std::make_shared<Adapter>(*this);
  fresh->state_ = {};
  fresh->state_.sets = state_.sets;
  fresh->since_look_ = fresh->too_narrow_ = fresh->finer_in_a_row_ = 0;
  fresh->Start();
  return fresh;
}

void Adapter::Start() {
  state_.runs_by_set.resize(state_.sets.size());
  // Before anything is known, nothing is clipped.
  state_.active = static_cast<size_t>(std::ranges::max_element(widths_) - widths_.begin());
  Pin(options_.pinned);
}

void Adapter::Pin(const std::string& set) {
  options_.pinned = set;
  if (set.empty()) return;
  const auto found = std::ranges::find(state_.sets, set);
  state_.switches += state_.runs > 0 && *found != state_.sets[state_.active];
  state_.active = static_cast<size_t>(found - state_.sets.begin());
  too_narrow_ = finer_in_a_row_ = 0;
}

size_t Adapter::Register(const std::string& tensor) {
  const auto found = std::ranges::find(state_.tensors, tensor, &WatchedTensor::name);
  if (found != state_.tensors.end()) return static_cast<size_t>(found - state_.tensors.begin());
  state_.tensors.push_back({tensor});
  return state_.tensors.size() - 1;
}

Adapter::Turn Adapter::Begin(int every) {
  ++state_.runs;
  ++state_.runs_by_set[state_.active];
  if (options_.every > 0) every = options_.every;
  const bool look = since_look_ == 0;
  if (++since_look_ >= every) since_look_ = 0;
  return {state_.active, look};
}

// The finest of the sets that fit; where none does, the widest. Of a wider set than the one in use
// nothing is known where elements were clipped: it counts as fitting, and the next look tells.
size_t Adapter::Wanted() const {
  const size_t active = state_.active;
  size_t wanted = active, widest = active;
  bool fits = false;
  for (size_t s = 0; s < widths_.size(); ++s) {
    if (widths_[s] > widths_[widest]) widest = s;
    double limit = options_.clip_limit;
    if (widths_[s] < widths_[active]) limit /= 2;
    if (rates_[s] > limit || (fits && widths_[s] >= widths_[wanted])) continue;
    wanted = s;
    fits = true;
  }
  return fits ? wanted : widest;
}

void Adapter::End(std::span<const Count> counts) {
  std::ranges::fill(rates_, 0.0);
  for (const Count& count : counts) {
    WatchedTensor& tensor = state_.tensors[count.tensor];
    tensor.seen += count.seen;
    tensor.clipped += count.outside[state_.active];
    for (size_t s = 0; s < rates_.size(); ++s)
      rates_[s] += static_cast<double>(count.outside[s]) / static_cast<double>(count.seen);
  }
  for (double& rate : rates_) rate /= std::max(1.0, static_cast<double>(counts.size()));
  ++state_.looks;
  state_.clip_rate = rates_[state_.active];
  if (!options_.pinned.empty() || counts.empty()) return;
  const size_t wanted = Wanted();
  const bool wider = widths_[wanted] > widths_[state_.active];
  const bool finer = widths_[wanted] < widths_[state_.active];
  too_narrow_ = wider ? too_narrow_ + 1 : 0;
  finer_in_a_row_ = !finer ? 0 : wanted == finer_ ? finer_in_a_row_ + 1 : 1;
  finer_ = wanted;
  if (too_narrow_ < options_.widen_after && finer_in_a_row_ < options_.narrow_after) return;
  state_.active = wanted;
  ++state_.switches;
  too_narrow_ = finer_in_a_row_ = 0;
}

}  // namespace evoq
