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
  for (TrainingFeature& feature : plan.features) move(feature.place);
}

namespace {

// What a step computes: its outputs and what its backward wants kept.
struct Computed {
  int64_t offset = 0, floats = 0;
  size_t step = 0, last = 0;  // that computes it, and the last that reads it
};

std::vector<Computed> ComputedOf(const TrainingPlan& plan) {
  std::map<int64_t, Computed> found;  // by offset
  for (size_t i = 0; i < plan.steps.size(); ++i) {
    const TrainingStep& step = plan.steps[i];
    for (const TrainingPlace& place : step.y) {
      if (place.kind == TrainingPlace::Kind::kShard)
        found[place.offset] = {place.offset, place.floats, i, i};
    }
    if (step.bound.saved > 0) found[step.saved] = {step.saved, step.bound.saved, i, i};
    for (const TrainingPlace& place : step.x) {
      const auto read = found.find(place.offset);
      if (place.kind == TrainingPlace::Kind::kShard && read != found.end()) read->second.last = i;
    }
  }
  found[plan.scores.offset].last = plan.steps.size();  // the loss reads them
  std::vector<Computed> all;
  for (const auto& [offset, computed] : found) all.push_back(computed);
  return all;
}

// Segments of about `floats` each.
std::vector<size_t> CutInto(const std::vector<int64_t>& floats_of_step, int64_t floats) {
  std::vector<size_t> begins = {0};
  int64_t sum = 0;
  for (size_t i = 0; i < floats_of_step.size(); ++i) {
    if (sum >= floats) {
      begins.push_back(i);
      sum = 0;
    }
    sum += floats_of_step[i];
  }
  return begins;
}

// Where values lie with these segments.
struct ValueLayout {
  std::vector<size_t> segments;
  std::map<int64_t, int64_t> moved;  // offsets
  int64_t floats = 0;
};

ValueLayout LayoutOf(const std::vector<Computed>& all, std::vector<size_t> segments,
                     int64_t inputs) {
  const auto segment_of = [&](size_t step) {
    return std::upper_bound(segments.begin(), segments.end(), step) - segments.begin() - 1;
  };
  const auto crosses = [&](const Computed& c) { return segment_of(c.step) != segment_of(c.last); };
  ValueLayout layout{.floats = inputs};
  for (const Computed& c : all) {
    if (!crosses(c)) continue;
    layout.moved[c.offset] = layout.floats;
    layout.floats += AlignedFloats(c.floats);
  }
  std::vector<int64_t> ends(segments.size(), layout.floats);
  for (const Computed& c : all) {
    if (crosses(c)) continue;
    int64_t& end = ends[static_cast<size_t>(segment_of(c.step))];
    layout.moved[c.offset] = end;
    end += AlignedFloats(c.floats);
  }
  layout.floats = std::ranges::max(ends);
  layout.segments = std::move(segments);
  return layout;
}

}  // namespace

void ShareValues(TrainingPlan& plan) {
  constexpr int64_t kMostSegments = 64;
  const std::vector<Computed> all = ComputedOf(plan);
  std::vector<int64_t> of_step(plan.steps.size(), 0);
  int64_t sum = 0;
  for (const Computed& c : all) {
    of_step[c.step] += AlignedFloats(c.floats);
    sum += AlignedFloats(c.floats);
  }
  const int64_t inputs = plan.value_floats - sum;  // they are placed first
  ValueLayout best = LayoutOf(all, {0}, inputs);
  for (int64_t count = 2; count <= kMostSegments; ++count) {
    ValueLayout layout = LayoutOf(all, CutInto(of_step, CeilDiv(sum, count)), inputs);
    if (layout.floats < best.floats) best = std::move(layout);
  }
  const auto move = [&](TrainingPlace& place) {
    const auto moved = best.moved.find(place.offset);
    if (place.kind == TrainingPlace::Kind::kShard && moved != best.moved.end())
      place.offset = moved->second;
  };
  for (TrainingStep& step : plan.steps) {
    for (TrainingPlace& place : step.x) move(place);
    for (TrainingPlace& place : step.y) move(place);
    if (step.bound.saved > 0) step.saved = best.moved.at(step.saved);
  }
  move(plan.scores);
  for (TrainingFeature& feature : plan.features) move(feature.place);
  plan.value_floats = best.floats;
  plan.segments = std::move(best.segments);
}

}  // namespace evoq
