// How a step's kernel cuts its work for several threads.
#pragma once

#include "base/isa.h"
#include "predict/cost.h"

namespace evoq {

// Asks the kernel itself: it is bound and called on zeros with its shared loops left out
// (base/loop_notes.h).
Cut CutOf(const CostInput& input, Isa isa, ThreadPool& pool);

}  // namespace evoq
