#include "quant/search.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>

namespace evoq {
namespace {

constexpr double kLeastGain = 1e-9;   // relative: smaller differences are rounding
constexpr size_t kMostForPairs = 32;  // layers: changes of two at once are as many as their square

double Cost(const CostModel& model, const Assignment& a, double weight) {
  const double ms = model.Ms(a);
  return weight > 0 ? ms + weight * model.Noise(a) : ms;
}

// Calls use(assignment, layer) for every other scheme of every layer from `first` on.
template <typename Use>
void ForEachChange(const CostModel& model, const Assignment& base, size_t first, const Use& use) {
  for (size_t i = first; i < base.size(); ++i) {
    for (int scheme = 0; scheme < model.schemes(); ++scheme) {
      if (scheme == base[i] || !std::isfinite(model.layers[i].ms[scheme])) continue;
      Assignment to = base;
      to[i] = scheme;
      use(to, i);
    }
  }
}

// From each layer the best run to each scheme; where none gains, two layers at once; until nothing
// gains.
class Descent {
 public:
  Descent(const CostModel& model, double weight, const std::function<bool()>& stop, Assignment& a)
      : model_(model), weight_(weight), stop_(stop), a_(a), cost_(Cost(model, a, weight)) {}

  void Run() {
    while (!Stopped() && (MoveRuns() || (a_.size() <= kMostForPairs && MovePairs()))) {
    }
  }

 private:
  bool Stopped() const { return stop_ && stop_(); }

  bool Better(const Assignment& trial, Assignment& best) {
    const double cost = Cost(model_, trial, weight_);
    if (cost >= cost_ * (1 - kLeastGain)) return false;
    best = trial;
    cost_ = cost;
    return true;
  }

  bool MoveRuns() {
    bool moved = false;
    for (int scheme = 0; scheme < model_.schemes(); ++scheme) {
      for (size_t first = 0; first < a_.size(); ++first) {
        if (Stopped()) return false;
        Assignment trial = a_, best = a_;
        for (size_t last = first; last < a_.size() && std::isfinite(model_.layers[last].ms[scheme]);
             ++last) {
          trial[last] = scheme;
          moved |= Better(trial, best);
        }
        a_ = std::move(best);
      }
    }
    return moved;
  }

  bool MovePairs() {
    Assignment best = a_;
    bool moved = false;
    ForEachChange(model_, a_, 0, [&](const Assignment& one, size_t i) {
      ForEachChange(model_, one, i + 1,
                    [&](const Assignment& two, size_t) { moved |= Better(two, best); });
    });
    a_ = std::move(best);
    return moved;
  }

  const CostModel& model_;
  const double weight_;
  const std::function<bool()>& stop_;
  Assignment& a_;
  double cost_;
};

// Asks for each assignment once, and no more often than allowed.
class Judge {
 public:
  Judge(int tries, const HoldsFn& holds) : left_(tries), holds_(holds) {}

  bool exhausted() const { return left_ <= 0; }
  // Nothing: the tries are used up.
  Result<std::optional<bool>> Holds(const Assignment& a) {
    if (std::all_of(a.begin(), a.end(), [](int scheme) { return scheme == 0; }))
      return std::optional<bool>(true);
    if (const auto known = known_.find(a); known != known_.end())
      return std::optional<bool>(known->second);
    if (left_-- <= 0) return std::optional<bool>();
    EVOQ_ASSIGN(const bool holds, holds_(a));
    return std::optional<bool>(known_[a] = holds);
  }

 private:
  int left_;
  const HoldsFn& holds_;
  std::map<Assignment, bool> known_;
};

struct Move {
  Assignment to;
  double gain = 0, noise = 0;  // ms saved, noise added
};

// Changes of one or two layers that save time, those that add the least noise for it first.
std::vector<Move> Moves(const CostModel& model, const Assignment& from) {
  const double ms = model.Ms(from), noise = model.Noise(from);
  std::vector<Move> moves;
  const auto consider = [&](const Assignment& to) {
    const double gain = ms - model.Ms(to);
    if (gain > 0.002 * ms) moves.push_back({to, gain, model.Noise(to) - noise});
  };
  ForEachChange(model, from, 0, [&](const Assignment& one, size_t i) {
    consider(one);
    if (from.size() <= kMostForPairs)
      ForEachChange(model, one, i + 1, [&](const Assignment& two, size_t) { consider(two); });
  });
  std::sort(moves.begin(), moves.end(), [](const Move& a, const Move& b) {
    return std::max(a.noise, 0.0) / a.gain < std::max(b.noise, 0.0) / b.gain;
  });
  return moves;
}

}  // namespace

double CostModel::Ms(const Assignment& a) const {
  double ms = 0;
  for (size_t i = 0; i < layers.size(); ++i) ms += layers[i].ms[a[i]];
  const auto form = [&](int layer) { return layer < 0 ? 0 : forms[a[layer]]; };
  for (const Link& link : links) {
    const int given = form(link.from);
    uint64_t made = uint64_t{1} << given;
    for (int reader : link.to) {
      const int read = form(reader);
      if (made >> read & 1) continue;
      made |= uint64_t{1} << read;
      ms += link.elements * convert_ms[given][read];
    }
  }
  return ms;
}

double CostModel::Noise(const Assignment& a) const {
  double noise = 0;
  for (size_t i = 0; i < layers.size(); ++i) noise += layers[i].noise[a[i]];
  return noise;
}

Assignment Cheapest(const CostModel& model, double ms_per_noise,
                    const std::function<bool()>& stop) {
  Assignment best;
  for (int scheme = 0; scheme < model.schemes(); ++scheme) {
    Assignment a(model.layers.size(), scheme);
    for (size_t i = 0; i < a.size(); ++i) {
      if (!std::isfinite(model.layers[i].ms[scheme])) a[i] = 0;
    }
    Descent(model, ms_per_noise, stop, a).Run();
    if (best.empty() || Cost(model, a, ms_per_noise) < Cost(model, best, ms_per_noise))
      best = std::move(a);
  }
  return best;
}

Result<Assignment> FastestThatHolds(const CostModel& model, int tries, const HoldsFn& holds,
                                    const std::function<bool()>& stop) {
  const auto stopped = [&] { return stop && stop(); };
  Judge judge(tries, holds);
  const Assignment fastest = Cheapest(model, 0, stop);
  EVOQ_ASSIGN(const std::optional<bool> at_once, judge.Holds(fastest));
  if (!at_once || *at_once) return at_once ? fastest : Assignment(fastest.size(), 0);
  // The weight at which time and noise of the fastest one are worth the same is the middle of what
  // is searched.
  Assignment best(fastest.size(), 0);
  const double middle = model.Ms(fastest) / std::max(model.Noise(fastest), 1e-300);
  double low = -12, high = 12;  // log2 of the weight over `middle`: fails, holds
  for (int step = 0; step < 12 && !judge.exhausted() && !stopped(); ++step) {
    const double at = (low + high) / 2;
    const Assignment trial = Cheapest(model, middle * std::exp2(at), stop);
    EVOQ_ASSIGN(const std::optional<bool> good, judge.Holds(trial));
    if (!good) break;
    (*good ? high : low) = at;
    if (*good && model.Ms(trial) < model.Ms(best)) best = trial;
  }
  for (bool moved = true; moved && !judge.exhausted() && !stopped();) {
    moved = false;
    for (const Move& move : Moves(model, best)) {
      if (stopped()) break;
      EVOQ_ASSIGN(const std::optional<bool> good, judge.Holds(move.to));
      if (!good) break;
      if (!*good) continue;
      best = move.to;
      moved = true;
      break;
    }
  }
  return best;
}

}  // namespace evoq
