#include "quant/half_quadratic.h"

#include <algorithm>
#include <cmath>

namespace evoq {
namespace {

// One column of a block: its values, and for each a scale and a zero point to round by.
struct Column {
  std::vector<float> w, scales, zeros, numbers;

  // Of the nearest numbers, which `numbers` become.
  double Error(const WeightGrid& grid, float zero) {
    std::ranges::fill(zeros, zero);
    grid.Nearest(w.data(), scales.data(), zeros.data(), std::ssize(w), numbers.data());
    double sum = 0;
    for (size_t k = 0; k < w.size(); ++k)
      sum += std::pow(std::fabs(w[k] - static_cast<double>(numbers[k]) * scales[k]),
                      kHalfQuadraticPower);
    return sum;
  }
};

}  // namespace

void HalfQuadratic(const WeightGrid& grid, std::span<const float> w, RoundedMatrix& rounded) {
  const std::vector<float> zeros = grid.Zeros();
  if (zeros.size() < 2) return;
  const LayerMatrices& m = grid.matrices();
  Column column;
  for (int64_t b = 0; b < grid.blocks(); ++b) {
    const int64_t first = b * grid.block(), end = std::min(first + grid.block(), m.depth);
    const auto depth = static_cast<size_t>(end - first);
    for (int64_t n = 0; n < m.columns; ++n) {
      column.w.clear();
      for (int64_t k = first; k < end; ++k) column.w.push_back(w[k * m.columns + n]);
      column.scales.assign(depth, rounded.scales[b * m.columns + n]);
      column.zeros.resize(depth);
      column.numbers.resize(depth);
      float& zero = rounded.zeros[b * m.columns + n];
      double least = column.Error(grid, zero);
      for (const float other : zeros) {
        const double error = column.Error(grid, other);
        if (!(error < least)) continue;
        least = error;
        zero = other;
      }
      column.Error(grid, zero);
      for (int64_t k = first; k < end; ++k)
        rounded.numbers[k * m.columns + n] = column.numbers[static_cast<size_t>(k - first)];
    }
  }
}

}  // namespace evoq
