// Results of integer layers with fewer than 256 levels: bytes of which only the lowest bits vary,
// as an activation of the layer holds them between narrower bounds (Clip in its epilogue).
#pragma once

#include "quant/params.h"

namespace evoq {

// The integers that a value of `bits` bits (2, 4 or 8) takes, stored as `dtype` (int8 or uint8):
// 0 to 2^bits - 1, or -2^(bits - 1) to 2^(bits - 1) - 1.
LevelBounds LevelBoundsOf(DType dtype, int bits);

// The parameters of such a value: those of ActivationParams (quant/params.h) with these bounds, for
// the middle of its range: 0.65 of it for 4 bits and 0.4 for 2. The uniform quantizer of least
// error of a normal distribution ends at 3.9 standard deviations with 256 levels, at 2.6 with 16
// and at 1.5 with 4 (Max, "Quantizing for minimum distortion", 1960, table II).
QuantParams LevelParams(Range range, DType dtype, int bits, bool symmetric);

// Whether the layer can hold its result between such bounds: a linear operator without an
// activation, or with one that Clip stands for as well.
bool CanHoldLevels(const Node& node);
// Gives it the Clip, of what its activation leaves. `y`: the result's type.
void HoldLevels(Attrs& attrs, const TensorType& y, int bits);

}  // namespace evoq
