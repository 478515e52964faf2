// What serves inputs of any sizes: executors of their own, or gears (docs/dynamic.md).
#include <algorithm>
#include <chrono>

#include "base/file.h"
#include "base/stopwatch.h"
#include "engine/engine.h"
#include "engine/same_samples.h"
#include "graph/run_choices.h"

namespace evoq {
namespace {

// So many sets of sizes that a gear serves are prepared when they first come; later ones when they
// come again.
constexpr size_t kAtOnce = 8;

// Dimension 0 of all inputs, where `shapes` are `gear` with another one; 0 where they are not.
int64_t SamplesOf(const InputShapes& shapes, const InputShapes& gear, int64_t batch) {
  int64_t samples = 0;
  if (shapes.size() != gear.size()) return 0;
  for (const auto& [name, sizes] : shapes) {
    const auto found = gear.find(name);
    if (found == gear.end() || found->second.size() != sizes.size() || sizes.empty() ||
        found->second[0] != batch ||
        !std::equal(sizes.begin() + 1, sizes.end(), found->second.begin() + 1))
      return 0;
    if (samples != 0 && samples != sizes[0]) return 0;
    samples = sizes[0];
  }
  return samples;
}

}  // namespace

bool Engine::IsGear(const InputShapes& shapes) const {
  return preparer_ != nullptr &&
         std::ranges::find(model_.plans, shapes, &Plan::shapes) != model_.plans.end();
}

// The largest first: the others run in its memory.
void Engine::AskForGears() {
  if (!prepares_beside() || ChoiceOf(model_.graph, kShapesChoice).empty()) return;
  Pool();
  packs_->Keep(model_.graph);
  preparer_ = std::make_unique<Preparer>(
      [this](const InputShapes& shapes) { return PrepareBeside(shapes); });
  std::vector<const InputShapes*> left;
  for (const Plan& plan : model_.plans) left.push_back(&plan.shapes);
  while (!left.empty()) {
    size_t largest = 0;
    for (size_t i = 1; i < left.size(); ++i) {
      if (ElementsOf(*left[i]) > ElementsOf(*left[largest])) largest = i;
    }
    counts_.Of(*left[largest]).gear = true;
    preparer_->Ask(*left[largest]);
    left.erase(left.begin() + static_cast<ptrdiff_t>(largest));
  }
}

Result<std::shared_ptr<Executor>> Engine::PrepareBeside(const InputShapes& shapes) const {
  const int64_t damages = DamagesSoFar();
  EVOQ_ASSIGN(Planned planned, PlanFor(model_, shapes, *packs_));
  EVOQ_ASSIGN(auto executor, Bind(model_, std::move(planned), shapes, *packs_));
  EVOQ_TRY(NoDamageSince(damages));
  return executor;
}

void Engine::TakeWhatIsMade() {
  if (preparer_ == nullptr || !preparer_->made_any()) return;
  for (Preparer::Made& made : preparer_->Take()) {
    if (!made.executor) continue;  // whoever needs it is told
    counts_.Prepared(counts_.Of(made.shapes), made.ms, true);
    prepared_.ms += made.ms;
    ++prepared_.count;
    served_by_.erase(made.shapes);
    if (std::ranges::find(executors_, made.shapes, &ForShapes::shapes) != executors_.end())
      continue;
    Keep(made.shapes, std::move(*made.executor));
    if (executors_.back().gear) served_by_.clear();
  }
}

// The smallest gear that holds a batch, else the largest; null where none differs in its batch
// alone.
const Engine::ForShapes* Engine::GearFor(const InputShapes& shapes) const {
  const ForShapes* best = nullptr;
  for (const ForShapes& e : executors_) {
    if (!e.gear || e.batch < 2) continue;
    const int64_t samples = SamplesOf(shapes, e.shapes, e.batch);
    if (samples < 1) continue;
    const bool holds = e.batch >= samples;
    if (best == nullptr ||
        (best->batch >= samples ? holds && e.batch < best->batch : e.batch > best->batch))
      best = &e;
  }
  return best;
}

Result<std::optional<Engine::Serving>> Engine::Find(std::span<const Tensor> inputs,
                                                    std::optional<double> waited_ms) {
  EVOQ_TRY(CheckCount(inputs));
  if (in_regions_.empty() && model_.plans.empty()) EVOQ_TRY(PackFor(inputs));
  if (!in_regions_.empty()) return Serving();
  TakeWhatIsMade();
  if (ForShapes* const known = Known(inputs)) {
    counts_.Ran(*(last_ = &counts_.Of(known->shapes)), false, waited_ms);
    return Serving{Use(*known)};
  }
  const InputShapes shapes = ShapesOf(inputs);
  if (!prepares_beside()) {
    const Stopwatch watch;
    EVOQ_ASSIGN(auto executor, At(shapes));
    counts_.Ran(*(last_ = &counts_.Of(shapes)), false, watch.ms());
    return Serving{std::move(executor)};
  }
  // Inputs of another type than the model's, which the run refuses.
  const auto kept = std::ranges::find(executors_, shapes, &ForShapes::shapes);
  if (kept != executors_.end()) return Serving{Use(*kept)};
  const auto found = served_by_.find(shapes);
  if (found == served_by_.end()) return std::nullopt;
  ServedBy& served = found->second;
  SizeCount& count = counts_.Of(shapes);
  counts_.Ran(count, true, std::nullopt);
  if (!served.asked && (count.padded > 1 || served_by_.size() <= kAtOnce)) {
    served.asked = true;
    preparer_->Ask(shapes);
  }
  return Serving{served.gear, served.padding};
}

Engine::Unserved Engine::ToResolve(std::span<const Tensor> inputs) {
  Pool();
  Unserved unserved{ShapesOf(inputs), {}};
  if (const ForShapes* const gear = GearFor(unserved.shapes); gear != nullptr)
    unserved.gear = {gear->executor, Padding{inputs[0].sizes()[0], gear->batch}};
  return unserved;
}

Result<Engine::Resolved> Engine::Resolve(const Unserved& unserved) const {
  const Stopwatch watch;
  const auto resolve = [&]() -> Result<Resolved> {
    const int64_t damages = DamagesSoFar();
    EVOQ_ASSIGN(Planned planned, PlanFor(model_, unserved.shapes, *packs_));
    const Executor* const gear = unserved.gear.executor.get();
    if (gear != nullptr && SameBits(planned.program, *gear, isa_, *derived_))
      return Resolved{unserved.shapes, unserved.gear, watch.ms()};
    EVOQ_ASSIGN(auto executor, Bind(model_, std::move(planned), unserved.shapes, *packs_));
    EVOQ_TRY(NoDamageSince(damages));
    return Resolved{unserved.shapes, {std::move(executor)}, watch.ms()};
  };
  auto resolved = resolve();
  return path_.empty() ? std::move(resolved) : WithContext(std::move(resolved), path_);
}

void Engine::Take(Resolved resolved) {
  if (resolved.serving.padding) {
    if (served_by_.size() >= SizeCounts::kMostSizes) served_by_.clear();
    served_by_[resolved.shapes] = {resolved.serving.executor, *resolved.serving.padding};
    return;
  }
  counts_.Prepared(counts_.Of(resolved.shapes), resolved.ms, false);
  prepared_.ms += resolved.ms;
  ++prepared_.count;
  if (std::ranges::find(executors_, resolved.shapes, &ForShapes::shapes) == executors_.end())
    Keep(resolved.shapes, std::move(resolved.serving.executor));
}

Result<Engine::Serving> Engine::Serve(std::span<const Tensor> inputs) {
  std::optional<double> waited_ms;
  for (;;) {
    EVOQ_ASSIGN(const std::optional<Serving> found, Find(inputs, waited_ms));
    if (found) return *found;
    const Stopwatch watch;
    EVOQ_ASSIGN(Resolved resolved, Resolve(ToResolve(inputs)));
    if (!resolved.serving.padding) waited_ms = waited_ms.value_or(0) + watch.ms();
    Take(std::move(resolved));
  }
}

void Engine::WaitForGears() {
  if (preparer_ == nullptr) return;
  preparer_->Wait();
  TakeWhatIsMade();
}

GearReport Engine::gears() const {
  GearReport report = counts_.Report();
  if (preparer_ == nullptr) return report;
  report.gears = static_cast<int64_t>(model_.plans.size());
  report.ready = std::ranges::count_if(executors_, &ForShapes::gear);
  return report;
}

}  // namespace evoq
