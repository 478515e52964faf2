// From a Conv or ConvInteger call to the geometry of the integer engine.
#pragma once

#include <optional>

#include "kernels/gemm/int8_rows.h"
#include "kernels/kernel.h"

namespace evoq {

// Reads shapes and attributes of a channels-last call with inputs x [N, spatial..., C] and w [M,
// C/group, k...]. A rejection when they disagree or are not static.
std::optional<Reason> ReadConvGeometry(const KernelCall& call, Int8Geometry& geometry);

// The same for MatMul and MatMulInteger: a [..., K], b [K, N].
std::optional<Reason> ReadMatMulGeometry(const KernelCall& call, Int8Geometry& geometry);

}  // namespace evoq
