#include "quant/half_quadratic.h"

#include <algorithm>
#include <cmath>

namespace evoq {
namespace {

// The paper's beta, how it grows from step to step, and the most steps. Beta is in units of a
// column's weights, whose largest magnitude is 1 here.
constexpr double kBeta = 10, kGrowth = 1.01;
constexpr int kSteps = 20;
// Shares of the scale that steps begin from: they end in the nearest of many low points.
constexpr float kStarts[] = {1, 1.2f, 1.1f, 0.9f, 0.8f, 0.7f, 0.6f};

// One column of a block.
struct Column {
  const WeightGrid& grid;
  std::vector<double> w;  // in units of the largest magnitude
  double unit;

  std::vector<float> Numbers(float scale, float zero) const {
    std::vector<float> v(w.size()), scales(w.size(), scale), zeros(w.size(), zero),
        numbers(w.size());
    for (size_t k = 0; k < w.size(); ++k) v[k] = static_cast<float>(w[k] * unit);
    grid.Nearest(v.data(), scales.data(), zeros.data(), static_cast<int64_t>(v.size()),
                 numbers.data());
    return numbers;
  }

  double Error(std::span<const float> numbers, float scale) const {
    double sum = 0;
    for (size_t k = 0; k < w.size(); ++k)
      sum += std::pow(std::fabs(w[k] - numbers[k] * (scale / unit)), kHalfQuadraticPower);
    return sum;
  }

  // The scale that brings the numbers nearest to w less the shrunk errors; 0 where they are 0.
  double Fitted(std::span<const float> numbers, float scale, double beta) const {
    double product = 0, square = 0;
    for (size_t k = 0; k < w.size(); ++k) {
      const double error = w[k] - numbers[k] * (scale / unit);
      product += numbers[k] * (w[k] - Shrunk(error, beta));
      square += static_cast<double>(numbers[k]) * numbers[k];
    }
    return square > 0 ? product / square * unit : 0;
  }
};

struct Fit {
  float scale, zero;
  std::vector<float> numbers;
  double error;
};

Fit Started(const Column& column, float scale, float zero) {
  Fit fit{.scale = scale, .zero = zero, .numbers = column.Numbers(scale, zero)};
  fit.error = column.Error(fit.numbers, scale);
  return fit;
}

// Steps from the fit until the error does not fall.
Fit Descended(const Column& column, Fit fit, int64_t group, int64_t n) {
  double beta = kBeta;
  for (int step = 0; step < kSteps; ++step, beta *= kGrowth) {
    const double wanted = column.Fitted(fit.numbers, fit.scale, beta);
    if (!(wanted > 0) || !std::isfinite(wanted)) break;
    const float scale = column.grid.Storable(group, n, static_cast<float>(wanted));
    Fit next = Started(column, scale, fit.zero);
    if (!(next.error < fit.error)) break;
    fit = std::move(next);
  }
  return fit;
}

}  // namespace

double Shrunk(double x, double beta) {
  const double size = std::fabs(x);
  if (size == 0) return 0;
  const double p = kHalfQuadraticPower;
  return std::copysign(std::max(0.0, size - p * std::pow(size, p - 1) / beta), x);
}

void HalfQuadratic(const WeightGrid& grid, int64_t group, std::span<const float> w,
                   RoundedMatrix& rounded) {
  if (grid.one_scale()) return;
  const LayerMatrices& m = grid.matrices();
  for (int64_t b = 0; b < grid.blocks(); ++b) {
    const int64_t first = b * grid.block(), end = std::min(first + grid.block(), m.depth);
    for (int64_t n = 0; n < m.columns; ++n) {
      Column column{.grid = grid, .w = {}, .unit = 0};
      for (int64_t k = first; k < end; ++k) {
        column.w.push_back(w[k * m.columns + n]);
        column.unit = std::max(column.unit, std::fabs(column.w.back()));
      }
      if (column.unit == 0) continue;
      for (double& v : column.w) v /= column.unit;
      float& scale = rounded.scales[b * m.columns + n];
      float& zero = rounded.zeros[b * m.columns + n];
      Fit best = Started(column, scale, zero);
      for (const float start : grid.Zeros()) {
        for (const float share : kStarts) {
          const float from = grid.Storable(group, n, share * scale);
          Fit fit = Descended(column, Started(column, from, start), group, n);
          if (fit.error < best.error) best = std::move(fit);
        }
      }
      scale = best.scale;
      zero = best.zero;
      for (int64_t k = first; k < end; ++k)
        rounded.numbers[k * m.columns + n] = best.numbers[k - first];
    }
  }
}

}  // namespace evoq
