// Scales and zero points without data, by half-quadratic splitting: H. Badri, A. Shaji,
// "Half-Quadratic Quantization of Large Machine Learning Models", 2023.
#pragma once

#include <span>

#include "quant/layer_rounding.h"

namespace evoq {

inline constexpr double kHalfQuadraticPower = 0.7;

// The paper's step for the errors: nearly the e of the least |e|^p + beta / 2 (e - x)^2,
//   sign(x) max(0, |x| - p |x|^(p - 1) / beta).
double Shrunk(double x, double beta);

// Of each column of each block of `w` [depth, columns]: from a few shares of the scale of
// `rounded`, in turn the errors e that w - stored shrinks to, and the scale that fits w - e best,
// while sum |w - stored|^p falls; for each zero point that the type has. The numbers become the
// nearest. The sum of no column grows, and nothing changes where all columns have one scale.
void HalfQuadratic(const WeightGrid& grid, int64_t group, std::span<const float> w,
                   RoundedMatrix& rounded);

}  // namespace evoq
