// Which input elements an output element of Resize looks at, along one axis.
#pragma once

#include <optional>
#include <vector>

#include "kernels/call_util.h"

namespace evoq {

struct AxisTaps {
  bool keep = true;  // same size under scale 1: nothing to do
  int64_t in = 1, out = 1;
  int64_t taps = 2;            // of each output: nearest 1, linear 2, others 2 or more
  std::vector<int64_t> index;  // `taps` per output, clamped into the input
  std::vector<float> weight;   // likewise; nearest has none
};

struct ResizePlan {
  bool nearest = true;
  int64_t images = 1,
          channels = 1;  // [images, d, h, w, channels]; channels first: every channel is an image
  AxisTaps d, h, w;
};

// What a kernel takes: nearest and linear interpolation of two taps, or any number of them (cubic,
// antialias, exclude_outside).
enum class ResizeTaps { kFew, kAny };

// Errors: kUnsupported for what only the reference evaluator does (crops, run-time scales, ...).
Result<ResizePlan> PlanResize(const KernelCall& call, ResizeTaps taps = ResizeTaps::kFew);
// Whether it would give one, in no more time for larger outputs. Errors: those.
Status CheckResize(const KernelCall& call, ResizeTaps taps = ResizeTaps::kFew);

}  // namespace evoq
