// Ranges without data, for planning: what would be quantized and how large it gets does not depend
// on their values.
#pragma once

#include "quant/quant.h"

namespace evoq {

// A range for every float32 activation of the graph, also under the names that Calibrate gives to
// products before a residual sum, to values before an activation and within a plain Attention. What
// a Relu, Sigmoid or the like computes starts at 0, the rest is nearly even around it; the
// magnitudes differ from value to value, as measured ones do. Types must be inferred; the
// statistics of a channel axis of unknown size are left out.
Ranges AssumedRanges(const Graph& graph);

}  // namespace evoq
