// Which layer of a baseline computes what a layer of a run does: other settings of the engine
// builder fuse, order and name layers otherwise.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "foreign/profiles/foreign_run.h"

namespace evoq {

using LayerFilter = std::function<bool(const ForeignLayer&)>;

// What is known of a layer's counterpart in the baseline.
struct Counterpart {
  // The one, where it is sure: an operator of the model has the same lasting name in both, or the
  // layers of this kind are equally many in both and stand in one order (there is one of them, or
  // each computes from the one before it, or, without names of tensors, all are numbered through).
  std::optional<size_t> sure;
  // Otherwise those that it may be: of one kind, or, where there is none of its kind, those with
  // the same output.
  bool any = false, same_kind = false;
  double least_ms = 0, most_ms = 0;  // of the times that these take
  bool all_add = true;               // has_residual of all of these
};

// For each layer of `run` its counterpart in `baseline`; nothing for layers that `in_run` leaves
// out. `in_baseline`: which layers count there. Layers are of one kind that have the same group,
// output sizes, number of weights and kernel, as far as both tell.
std::vector<Counterpart> PairLayers(const ForeignRun& run, const LayerFilter& in_run,
                                    const ForeignRun& baseline, const LayerFilter& in_baseline);

}  // namespace evoq
