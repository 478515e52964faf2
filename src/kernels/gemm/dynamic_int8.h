// What the kernels of DynamicConv and DynamicMatMul share.
#pragma once

#include <optional>

#include "kernels/activation.h"
#include "kernels/call_util.h"
#include "kernels/gemm/int8_finish.h"

namespace evoq {

inline constexpr int kDynamicScale = 4, kDynamicZero = 5;  // inputs x_scale and x_zero_point

// Types and constants of a call whose shapes agree; `w_axis`: the axis of w that numbers output
// channels.
std::optional<Reason> RejectDynamic(const KernelCall& call, int64_t columns, int w_axis);

// The activation, where it is a curve, and the range, where output 1 is there.
Int8Finish DynamicFinish(const KernelCall& call, const Activation& activation, Isa isa);

}  // namespace evoq
