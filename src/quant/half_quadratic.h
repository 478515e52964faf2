// Zero points without data: H. Badri, A. Shaji, "Half-Quadratic Quantization of Large Machine
// Learning Models", 2023.
#pragma once

#include <span>

#include "quant/layer_rounding.h"

namespace evoq {

inline constexpr double kHalfQuadraticPower = 0.7;

// Of each column of each block of `w` [depth, columns]: the zero point of the least
// sum |w - stored|^p, p = kHalfQuadraticPower, beside the scale that it has, and the nearest
// numbers. That is the paper's problem, whose scales stay too. It descends on zero points of any
// value by half-quadratic steps; those that files store are few integers, so each is tried. Nothing
// changes for a type with one zero point.
void HalfQuadratic(const WeightGrid& grid, std::span<const float> w, RoundedMatrix& rounded);

}  // namespace evoq
