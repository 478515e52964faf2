// --prune channel: channels become 0 one after the other, and go when training is over.
#pragma once

#include "train/pruner.h"

namespace evoq {

// A channel that is chosen has 0 in all that computes it and, which makes it as good as gone, in
// all that reads it. Channels whose readers are not trained stay. Errors: kUnsupported where no
// channel can go.
Result<std::unique_ptr<Pruner>> MakeChannelPruner(const Graph& graph, const TrainingPlan& plan,
                                                  const TrainingRecipe& recipe,
                                                  std::span<const float> parameters);

}  // namespace evoq
