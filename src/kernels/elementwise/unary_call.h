// What the rows of one value have in common, whatever their types.
#pragma once

#include <optional>

#include "kernels/kernel.h"

namespace evoq {

// Nothing when the shapes are known and the output has input 0's. Further inputs are Clip's bounds,
// 1 and 2, either of which may be missing: one element each, of type `bounds`.
std::optional<Reason> RejectUnaryShapes(const KernelCall& call, DType bounds);

}  // namespace evoq
