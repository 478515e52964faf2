// The scheme bf16 (docs/bf16.md).
#pragma once

#include "quant/quant.h"

namespace evoq {

// Linear operators, and what computes between them and has a bfloat16 kernel, take and give
// bfloat16; weights become bfloat16 constants; Casts stand where float32 and bfloat16 meet. Linear
// operators left in float32 get the attribute evoq.float_reason. Of the options only `exclude`
// counts.
Result<QuantizeReport> ConvertToBf16(Graph& graph, const QuantizeOptions& options);

}  // namespace evoq
