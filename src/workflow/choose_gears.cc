#include "workflow/choose_gears.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "base/math.h"

namespace evoq {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

// What each number of gears makes of a family: the time, and the items.
struct Plan {
  double ms = 0;
  std::vector<size_t> items;
};

double RunsOf(const GearItem& item) { return static_cast<double>(item.runs); }

// Those that come most often: each spares its runs the wait.
std::vector<Plan> WithoutPadding(const GearFamily& family, size_t most, double prepare_ms) {
  std::vector<size_t> by_runs(family.items.size());
  std::iota(by_runs.begin(), by_runs.end(), size_t{0});
  std::ranges::sort(by_runs, [&](size_t a, size_t b) {
    const int64_t runs = family.items[a].runs, others = family.items[b].runs;
    return runs != others ? runs > others : a < b;
  });
  std::vector<Plan> plans(1);
  for (const GearItem& item : family.items) plans[0].ms += RunsOf(item) * (item.ms + prepare_ms);
  for (size_t k = 0; k < std::min(most, by_runs.size()); ++k) {
    Plan next = plans.back();
    next.ms -= RunsOf(family.items[by_runs[k]]) * prepare_ms;
    next.items.push_back(by_runs[k]);
    plans.push_back(std::move(next));
  }
  return plans;
}

// best[k][j]: items 0 to j, of which j is the last of k + 1 gears.
class Padded {
 public:
  Padded(const GearFamily& family, size_t most, double prepare_ms)
      : items_(family.items), most_(std::min(most, items_.size())), prepare_ms_(prepare_ms) {
    sums_.assign(items_.size() + 1, 0);
    for (size_t i = 0; i < items_.size(); ++i) sums_[i + 1] = sums_[i] + RunsOf(items_[i]);
    best_.assign(most_, std::vector<double>(items_.size(), kNever));
    before_.assign(most_, std::vector<size_t>(items_.size(), items_.size()));
    for (size_t k = 0; k < most_; ++k) Fill(k);
  }

  std::vector<Plan> Plans() const {
    std::vector<Plan> plans(1);
    for (const GearItem& item : items_) plans[0].ms += RunsOf(item) * (item.ms + prepare_ms_);
    std::vector<double> beyond;
    for (size_t j = 0; j < items_.size(); ++j) beyond.push_back(Beyond(j));
    for (size_t k = 0; k < most_; ++k) {
      size_t last = 0;
      for (size_t j = 0; j < items_.size(); ++j) {
        if (best_[k][j] + beyond[j] < best_[k][last] + beyond[last]) last = j;
      }
      Plan plan{best_[k][last] + beyond[last], {}};
      for (size_t left = k + 1, j = last; left > 0; j = before_[--left][j]) plan.items.push_back(j);
      std::ranges::reverse(plan.items);
      plans.push_back(std::move(plan));
    }
    return plans;
  }

 private:
  // Items `first` to j - 1 are served by j, beside its own runs. A gear of one sample serves
  // itself.
  double Served(size_t first, size_t j) const {
    return (sums_[j + 1] - sums_[first]) * items_[j].ms;
  }

  void Fill(size_t k) {
    for (size_t j = k; j < items_.size(); ++j) {
      if (k == 0) {
        best_[0][j] = Served(0, j);
        continue;
      }
      for (size_t i = k - 1; i < j; ++i) {
        const double ms = best_[k - 1][i] + Served(i + 1, j);
        if (ms < best_[k][j]) best_[k][j] = ms, before_[k][j] = i;
      }
    }
  }

  // The items behind gear j, the last one.
  double Beyond(size_t j) const {
    double ms = 0;
    for (size_t i = j + 1; i < items_.size(); ++i) {
      const int64_t pieces = CeilDiv(items_[i].samples, items_[j].samples);
      ms += RunsOf(items_[i]) * (items_[j].samples > 1 ? static_cast<double>(pieces) * items_[j].ms
                                                       : items_[i].ms + prepare_ms_);
    }
    return ms;
  }

  const std::vector<GearItem>& items_;
  size_t most_;
  double prepare_ms_;
  std::vector<double> sums_;
  std::vector<std::vector<double>> best_;
  std::vector<std::vector<size_t>> before_;  // the gear before
};

}  // namespace

std::vector<ChosenGears> ChooseGears(std::span<const GearFamily> families, size_t most,
                                     double prepare_ms) {
  std::vector<ChosenGears> chosen(1);
  for (size_t f = 0; f < families.size(); ++f) {
    const std::vector<Plan> plans = families[f].pads
                                        ? Padded(families[f], most, prepare_ms).Plans()
                                        : WithoutPadding(families[f], most, prepare_ms);
    const size_t count = std::min(most, chosen.size() + plans.size() - 2);
    std::vector<ChosenGears> joined(count + 1, {kNever, {}});
    std::vector<std::pair<size_t, size_t>> parts(count + 1);
    for (size_t a = 0; a < chosen.size(); ++a) {
      for (size_t b = 0; b < plans.size() && a + b <= count; ++b) {
        const double ms = chosen[a].total_ms + plans[b].ms;
        if (ms < joined[a + b].total_ms) joined[a + b].total_ms = ms, parts[a + b] = {a, b};
      }
    }
    for (size_t k = 0; k <= count; ++k) {
      joined[k].gears = chosen[parts[k].first].gears;
      for (const size_t item : plans[parts[k].second].items) joined[k].gears.emplace_back(f, item);
    }
    chosen = std::move(joined);
  }
  for (size_t k = 1; k < chosen.size(); ++k) {
    if (chosen[k].total_ms >= chosen[k - 1].total_ms) chosen[k] = chosen[k - 1];
  }
  return chosen;
}

}  // namespace evoq
