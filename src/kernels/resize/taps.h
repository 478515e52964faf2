// Which input elements an output element of Resize looks at, along one axis.
#pragma once

#include <optional>
#include <vector>

#include "kernels/call_util.h"

namespace evoq {

struct AxisTaps {
  bool keep = true;  // same size under scale 1: nothing to do
  int64_t in = 1, out = 1;
  std::vector<int64_t> index;  // nearest: one per output; linear: two, clamped into the input
  std::vector<float> weight;   // linear: two per output
};

struct ResizePlan {
  bool nearest = true;
  int64_t images = 1,
          channels = 1;  // [images, d, h, w, channels]; channels first: every channel is an image
  AxisTaps d, h, w;
};

// Errors: kUnsupported for what only the reference evaluator does (cubic, antialias, crops,
// run-time scales, ...).
Result<ResizePlan> PlanResize(const KernelCall& call);
// Whether it would give one, in no more time for larger outputs. Errors: those.
Status CheckResize(const KernelCall& call);

}  // namespace evoq
