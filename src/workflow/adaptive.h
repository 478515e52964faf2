// How scale sets that follow the input are shown (docs/adaptive.md).
#pragma once

#include "runtime/adapter.h"
#include "workflow/told.h"

namespace evoq {

// Which set is in use, how often each was, the clip rates of the worst tensors; the JSON has all.
Told Tell(const AdaptiveState& state);

}  // namespace evoq
