// Scales that are searched by the error of a layer's results.
#pragma once

#include <span>

#include "quant/layer_rounding.h"

namespace evoq {

// What a block's scale is tried with: shares of the one that it has.
inline constexpr float kScaleShares[] = {1,    1.05f, 1.1f, 1.15f, 1.2f, 1.25f,
                                         1.3f, 0.95f, 0.9f, 0.85f, 0.8f, 0.75f,
                                         0.7f, 0.65f, 0.6f, 0.55f, 0.5f};

// What else of the column is wrong while one block of it is searched.
enum class BesideBlock {
  kNothing,  // the block's own error, e^T H e of its rows alone, is made least
  kErrors,   // that of the whole column, with the numbers that the other blocks have by then
};

// Block by block, from the scales of `rounded`: of each column the share of kScaleShares whose
// nearest numbers give the least error, the first of equals. `gram` is H [depth, depth]. The error
// that `beside` names grows for no column. Nothing changes where all columns have one scale.
void SearchScales(const WeightGrid& grid, int64_t group, std::span<const float> w,
                  std::span<const double> gram, BesideBlock beside, RoundingTools tools,
                  RoundedMatrix& rounded);

}  // namespace evoq
