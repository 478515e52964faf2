// What blocks of weights that are all zero buy a pruned model (docs/pruning.md): its steps that
// skip them, beside the same steps on the same weights in full.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "models/models.h"
#include "profile/measure.h"
#include "workflow/told.h"

namespace evoq {

// The model with all its weights in full, or null where it stores none as blocks. Errors: those of
// packing.
Result<std::unique_ptr<Engine>> LoadWithoutBlocks(const Model& model, const EngineOptions& options);

struct SkippedZeros {
  struct Layer {
    std::string node;
    double share = 1;                   // of the blocks of weights that are not all zero
    bool skips = false;                 // false: here, its tiles are of all weights
    double ms = 0, full_ms = 0;         // of its step, and of the one on all weights
    int64_t bytes = 0, full_bytes = 0;  // of its weights
  };
  std::vector<Layer> layers;  // whose weights are stored as blocks
};

// `full`: the profile of LoadWithoutBlocks, measured in turn with the model's, `profile`.
SkippedZeros ZerosOf(const Runnable& model, const StepProfile& profile, const StepProfile& full);

// How many layers skip zeros and what that buys, and by name those that would be faster on all
// weights; JSON member `zeros`.
Told Tell(const SkippedZeros& zeros);

}  // namespace evoq
