// The activations that are not piecewise linear, for finished outputs of the float32 linear
// kernels: plain data only, because it is included by files that are compiled for one instruction
// set.
//
// Within 4 units in the last place of the terms of the definitions in kernels/math (the scalar
// functions are the definitions), like the sums they follow: not bit-equal between instruction
// sets.
#pragma once

#include <cstdint>

#include "kernels/activation.h"
#include "kernels/isa_table.h"

namespace evoq {

// y[i] = activation(y[i]) for i < n.
using CurveF32 = void (*)(float* y, int64_t n);

struct CurveTable {
  CurveF32 hard_swish, silu, sigmoid, tanh, gelu;
};
EVOQ_ISA_TABLE(CurveTable)

// Null for piecewise-linear activations.
CurveF32 CurveForF32(const Activation& activation, Isa isa);

}  // namespace evoq
