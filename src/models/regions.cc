#include "models/regions.h"

#include <algorithm>

#include "base/stopwatch.h"
#include "models/region_stage.h"
#include "reference/reference.h"

namespace evoq {
namespace {

// So many types of inputs get their stages at once; of further ones those that come again.
constexpr size_t kEagerStages = 8;
// Limits of one region. A state that grows from round to round brings new types in each, and the
// same ones again in the next run of the model.
constexpr size_t kMaxStages = 32, kMaxSeen = 256;
// Where a Program has so many multiply-accumulates, its definition takes longer than preparing it.
constexpr int64_t kHeavyMacs = 1 << 20;

int64_t MacsOf(const Program& program) {
  int64_t macs = 0;
  for (const Step& step : program.steps) macs += step.macs;
  return macs;
}

// With the data of inputs that never change.
std::shared_ptr<const Graph> WithBound(Graph graph, const std::vector<Tensor>& bound) {
  const std::vector<ValueId> inputs = graph.inputs();
  for (size_t i = 0; i < bound.size(); ++i) {
    if (bound[i].defined())
      graph.ReplaceUses(inputs[i], graph.AddConstant(graph.value(inputs[i]).name, bound[i]));
  }
  return std::make_shared<const Graph>(std::move(graph));
}

}  // namespace

Region::Region(Graph graph, Form form, std::shared_ptr<RegionContext> context,
               const std::vector<Tensor>& bound)
    : Region(WithBound(std::move(graph), bound), form, std::move(context)) {}
Region::Region(std::shared_ptr<const Graph> graph, Form form,
               std::shared_ptr<RegionContext> context)
    : graph_(std::move(graph)), form_(form), context_(std::move(context)) {}
Region::~Region() = default;

Result<std::vector<Tensor>> Region::Run(std::span<const Tensor> inputs) {
  Key key;
  for (const Tensor& t : inputs) {
    if (!t.defined()) {
      key.push_back(-1);  // CheckInputs names it
      continue;
    }
    key.push_back(static_cast<int64_t>(t.type().kind) * 256 + static_cast<int64_t>(t.dtype()));
    if (!t.type().is_tensor()) continue;
    key.push_back(t.shape().rank());
    for (const Dim& dim : t.shape().dims()) key.push_back(dim.value);
  }
  EVOQ_ASSIGN(RegionStage* const stage, StageFor(std::move(key), inputs));
  return stage != nullptr ? stage->Run(inputs) : EvaluateGraph(*graph_, inputs);
}

// The types, among those with or without a stage, that did not come for the longest time.
std::map<Region::Key, Region::Seen>::iterator Region::Oldest(bool with_stage) {
  auto oldest = seen_.end();
  for (auto it = seen_.begin(); it != seen_.end(); ++it) {
    if ((it->second.stage != nullptr) == with_stage &&
        (oldest == seen_.end() || it->second.last < oldest->second.last))
      oldest = it;
  }
  return oldest;
}

// Whether types without a stage get one; `again`: they came before, `unused` runs ago.
bool Region::IsWorthAStage(bool again, int64_t unused) const {
  if (stages_ < kEagerStages || macs_ >= kHeavyMacs) return true;
  if (!again || stages_ < kMaxStages) return again;
  // More types in turn than there is room for would each find their stage gone: one gives way to
  // types that come more often.
  const auto used = [&](const auto& type) {
    return type.second.stage == nullptr || runs_ - type.second.last <= unused;
  };
  return !std::all_of(seen_.begin(), seen_.end(), used);
}

// The stage that was not used for the longest time goes where there are as many as may be.
void Region::MakeRoom() {
  if (stages_ < kMaxStages) return;
  Oldest(/*with_stage=*/true)->second.stage.reset();
  --stages_;
}

// The stage for inputs of these types; null where they are better run by definition.
Result<RegionStage*> Region::StageFor(Key key, std::span<const Tensor> inputs) {
  ++runs_;
  auto found = seen_.find(key);
  const bool again = found != seen_.end();
  const int64_t unused = again ? runs_ - found->second.last : 0;
  if (!again) {
    EVOQ_TRY(CheckInputs(*graph_, inputs));
    if (seen_.size() >= kMaxSeen) seen_.erase(Oldest(/*with_stage=*/false));
    found = seen_.emplace(std::move(key), Seen()).first;
  }
  Seen& seen = found->second;
  seen.last = runs_;
  if (seen.stage != nullptr) return seen.stage.get();
  if (!IsWorthAStage(again, unused)) return nullptr;
  MakeRoom();
  const Stopwatch watch;
  const double inner = context_->prepare_ms;
  EVOQ_ASSIGN(seen.stage, RegionStage::Make(*graph_, form_, context_, inputs));
  context_->prepare_ms = inner + watch.ms();
  ++context_->prepared;
  ++stages_;
  if (seen.stage->executor != nullptr)
    macs_ = std::max(macs_, MacsOf(seen.stage->executor->program()));
  return seen.stage.get();
}

}  // namespace evoq
