#include "train/plan_memory.h"

#include <map>

namespace evoq {
namespace {

// Of one gradient.
struct Life {
  int64_t floats = 0;
  size_t first = 0, last = 0;  // steps: from the backward of `last` to that of `first`
  bool Meets(const Life& other) const { return first <= other.last && other.first <= last; }
};

bool Shares(const TrainingPlace& place) {
  return place.kind == TrainingPlace::Kind::kShard && place.gradient >= 0;
}

// By the offset that each has now; those that live longest into the backward pass first.
std::vector<std::pair<int64_t, Life>> LivesOf(const TrainingPlan& plan) {
  std::map<int64_t, Life> lives;
  for (size_t i = 0; i < plan.steps.size(); ++i) {
    for (const TrainingPlace& place : plan.steps[i].y) {
      if (Shares(place)) lives[place.gradient] = {place.floats, i, i};
    }
    for (const TrainingPlace& place : plan.steps[i].x) {
      if (Shares(place)) lives[place.gradient].last = i;
    }
  }
  lives[plan.scores.gradient].last = plan.steps.size();
  std::vector<std::pair<int64_t, Life>> order(lives.begin(), lives.end());
  std::sort(order.begin(), order.end(), [](const auto& a, const auto& b) {
    return a.second.last != b.second.last ? a.second.last > b.second.last : a.first < b.first;
  });
  return order;
}

}  // namespace

void ShareGradients(TrainingPlan& plan) {
  const auto order = LivesOf(plan);
  std::map<int64_t, int64_t> moved;
  std::vector<std::pair<int64_t, const Life*>> placed;  // sorted by offset
  plan.gradient_floats = 0;
  for (const auto& [given, life] : order) {
    int64_t at = 0;  // the first gap that is wide enough
    for (const auto& [offset, other] : placed) {
      if (!other->Meets(life)) continue;
      if (offset - at >= AlignedFloats(life.floats)) break;
      at = std::max(at, offset + AlignedFloats(other->floats));
    }
    moved[given] = at;
    const auto behind = std::upper_bound(placed.begin(), placed.end(), at,
                                         [](int64_t a, const auto& b) { return a < b.first; });
    placed.emplace(behind, at, &life);
    plan.gradient_floats = std::max(plan.gradient_floats, at + AlignedFloats(life.floats));
    if (life.last < plan.steps.size()) plan.steps[life.last].fresh.emplace_back(at, life.floats);
  }
  const auto move = [&](TrainingPlace& place) {
    if (Shares(place)) place.gradient = moved.at(place.gradient);
  };
  for (TrainingStep& step : plan.steps) {
    for (TrainingPlace& place : step.x) move(place);
    for (TrainingPlace& place : step.y) move(place);
  }
  move(plan.scores);
}

}  // namespace evoq
