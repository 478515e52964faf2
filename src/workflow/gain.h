// What a scheme gains where it runs: whether bfloat16 is faster than float32 depends on the
// processor (docs/bf16.md).
#pragma once

#include <optional>

#include "profile/compare.h"
#include "workflow/follow.h"
#include "workflow/models.h"
#include "workflow/told.h"

namespace evoq {

// Of a quantized model on this machine, beside the float model that it came from.
struct Gain {
  std::string scheme;
  int threads = 1;
  Comparison measured;  // A is the float model
  // Where it is slower: what the machine computes in the scheme's type and in float32, GFLOPS.
  double narrow_gflops = 0, fp32_gflops = 0;
};

// Runs both in turn for about a second, with the defaults of every step. Nothing for a model
// without a plan: what it runs depends on the data. Errors: those of compilation and of runs.
Result<std::optional<Gain>> MeasureGain(const std::string& scheme, Graph float_graph,
                                        const Model& quantized, const InputShapes& shapes,
                                        int threads, const Follow& follow);
// A line, and a warning where it is slower.
Told Tell(const Gain& gain);

}  // namespace evoq
