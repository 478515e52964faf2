#include "train/channel_pruner.h"

#include <algorithm>

#include "prune/choose_channels.h"
#include "reference/reference.h"

namespace evoq {
namespace {

// Slices of a trained constant.
struct TrainedSlices {
  int64_t offset = 0, elements = 0;  // of the constant, in the parameters
  int64_t inner = 1;                 // elements for each index along the axis
};

class ChannelPruner : public Pruner {
 public:
  Status Begin(const Graph& graph, const TrainingPlan& plan, const TrainingRecipe& recipe,
               std::span<const float> parameters);
  void AfterStep(int64_t step, int64_t all, std::span<float> parameters,
                 std::span<const float> observed) override;
  double Sparsity() const override;
  Result<std::optional<PruneReport>> Finish(Graph& graph) override;

 private:
  // The groups whose numbers are all 0.
  std::vector<bool> Zeros(std::span<const float> parameters) const;
  void SetZeros(std::span<float> parameters) const;
  // Calls f(element of the parameters, group) for the numbers of slices i.
  template <typename F>
  void ForEach(size_t i, const F& f) const {
    const std::vector<int32_t>& groups = channels_.slices[i].along.groups;
    const TrainedSlices& of = trained_[i];
    for (int64_t e = 0; e < of.elements; ++e)
      f(static_cast<size_t>(of.offset + e),
        static_cast<size_t>(
            groups[static_cast<size_t>(e / of.inner % static_cast<int64_t>(groups.size()))]));
  }

  Graph shapes_;  // the graph with inferred types
  Channels channels_;
  std::vector<TrainedSlices> trained_;  // by slices; of no elements where the constant is not
  ChannelChoice choice_;
  double last_ = 0;  // the share at the end
};

Status ChannelPruner::Begin(const Graph& graph, const TrainingPlan& plan,
                            const TrainingRecipe& recipe, std::span<const float> parameters) {
  const PruneOptions options = PruneOptionsOf(recipe);
  EVOQ_ASSIGN(const PruneRows rows, CheckPruneOptions(options));
  shapes_ = graph;
  EVOQ_TRY(InferTypes(shapes_));
  channels_ = FindChannels(shapes_);
  for (const ChannelSlices& slices : channels_.slices) {
    const Value& constant = shapes_.value(slices.constant);
    const auto at = std::ranges::find(plan.parameters, constant.name, &TrainedConstant::name);
    TrainedSlices& trained = trained_.emplace_back();
    if (at != plan.parameters.end()) {
      trained = {.offset = at->offset, .elements = at->elements};
      for (int i = slices.along.axis + 1; i < constant.type.shape.rank(); ++i)
        trained.inner *= constant.type.shape[i].value;
    } else if (slices.consumes) {
      for (const int32_t g : slices.along.groups) {
        std::string& stays = channels_.groups[static_cast<size_t>(g)].stays;
        if (stays.empty()) stays = fmt::format("{} is not trained", constant.name);
      }
    }
  }
  last_ = rows.sparsity;
  choice_ = {
      .score = rows.score, .global = options.scope == "global", .multiple = options.multiple};
  choice_.removed = Zeros(parameters);
  if (std::ranges::any_of(channels_.groups, [](const ChannelGroup& g) { return g.stays.empty(); }))
    return {};
  return Unsupported("--prune channel: no channel can go{}",
                     channels_.groups.empty() ? "" : ": " + channels_.groups[0].stays);
}

std::vector<bool> ChannelPruner::Zeros(std::span<const float> parameters) const {
  std::vector<bool> any(channels_.groups.size()), used(channels_.groups.size());
  for (size_t i = 0; i < trained_.size(); ++i) {
    ForEach(i, [&](size_t element, size_t group) {
      any[group] = true;
      if (parameters[element] != 0) used[group] = true;
    });
  }
  std::vector<bool> zeros(any.size());
  for (size_t g = 0; g < zeros.size(); ++g)
    zeros[g] = any[g] && !used[g] && channels_.groups[g].stays.empty();
  return zeros;
}

void ChannelPruner::SetZeros(std::span<float> parameters) const {
  for (size_t i = 0; i < trained_.size(); ++i) {
    ForEach(i, [&](size_t element, size_t group) {
      if (choice_.removed[group]) parameters[element] = 0;
    });
  }
}

void ChannelPruner::AfterStep(int64_t step, int64_t all, std::span<float> parameters,
                              std::span<const float> observed) {
  if (ChoosesAt(step, all)) {
    choice_.share = SparsityAt(last_, step, all);
    SetZeros(parameters);
    const auto numbers = [&](const ChannelSlices& slices) -> ChannelNumbers {
      const TrainedSlices& of = trained_[static_cast<size_t>(&slices - channels_.slices.data())];
      const auto offset = static_cast<size_t>(of.offset), n = static_cast<size_t>(of.elements);
      return {parameters.subspan(offset, n),
              observed.empty() ? observed : observed.subspan(offset, n)};
    };
    choice_.removed = ChooseChannels(shapes_, channels_, choice_, numbers);
  }
  SetZeros(parameters);
}

double ChannelPruner::Sparsity() const {
  const auto free = std::ranges::count_if(channels_.groups,
                                          [](const ChannelGroup& g) { return g.stays.empty(); });
  return double(std::ranges::count(choice_.removed, true)) / double(std::max<int64_t>(free, 1));
}

Result<std::optional<PruneReport>> ChannelPruner::Finish(Graph& graph) {
  EVOQ_TRY(InferTypes(graph));
  EVOQ_ASSIGN(PruneReport report, RemoveAndReport(graph, channels_, choice_.removed));
  return report;
}

}  // namespace

Result<std::unique_ptr<Pruner>> MakeChannelPruner(const Graph& graph, const TrainingPlan& plan,
                                                  const TrainingRecipe& recipe,
                                                  std::span<const float> parameters) {
  auto pruner = std::make_unique<ChannelPruner>();
  EVOQ_TRY(pruner->Begin(graph, plan, recipe, parameters));
  return pruner;
}

}  // namespace evoq
