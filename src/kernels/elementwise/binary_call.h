// What the rows of two values have in common, whatever their types.
#pragma once

#include <optional>
#include <string_view>

#include "kernels/elementwise/binary.h"
#include "kernels/kernel.h"

namespace evoq {

std::optional<BinaryKind> BinaryKindFromOp(std::string_view op);

// Nothing when the call has two inputs of known shapes that broadcast to the output's, and a fused
// activation on Add alone.
std::optional<Reason> RejectBinaryShapes(const KernelCall& call);

}  // namespace evoq
