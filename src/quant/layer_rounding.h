// Algorithms that round one matrix of a layer so that the error of the layer's results,
//   f = sum over n of e[:, n]^T H e[:, n],  e = w - stored,  H = X^T X (quant/gram.h),
// is small. Matrices are row-major: w [depth, columns], H [depth, depth].
#pragma once

#include <span>
#include <vector>

#include "base/isa.h"
#include "products/workspace.h"
#include "quant/weight_grid.h"

namespace evoq {

// What the algorithms work in.
struct RoundingTools {
  Isa isa;
  Workspace& workspace;
};

// H with `share` of the mean of its diagonal added to it, so that it is positive definite; 1 where
// that is 0 (inputs that are always 0).
std::vector<double> Damped(std::span<const double> gram, int64_t depth, double share);

// The lower triangular L of a = L L^T, in place; what is above the diagonal is left. Errors:
// kInvalidInput where `a` is not positive definite.
Status Cholesky(std::vector<double>& a, int64_t depth, RoundingTools tools);

// The weight of the least error where `missing` (quant/gram.h) is what its results lack: w + H^-1
// missing, with H damped.
Result<std::vector<float>> Refitted(std::span<const float> w, std::span<const double> damped,
                                    std::span<const double> missing, int64_t depth,
                                    RoundingTools tools);

// Rounded to nearest, with the scales that WeightGrid::Choose gives by the diagonal of H
// (`importance`, one per row) or, without one, of the weights alone.
RoundedMatrix Nearest(const WeightGrid& grid, int64_t group, std::span<const float> w,
                      std::span<const float> importance);

// GPTQ (Frantar et al. 2022, arXiv:2210.17323): row by row, those of the largest H[k, k] first,
// each rounded error made up for by the rows that are still to be rounded. With the rows sorted so
// that the last one is the first to be rounded and H = L L^T, that is
//   stored[k] = nearest to w[k] + (sum over j > k of L[j, k] e[j]) / L[k, k],
// which needs no inverse. The scales are those of `nearest`.
Result<RoundedMatrix> Gptq(const WeightGrid& grid, std::span<const float> w,
                           std::span<const double> damped, const RoundedMatrix& nearest,
                           RoundingTools tools);

// Coordinate descent (QuantEase, Behdin et al. 2023, arXiv:2309.01885): each number in turn becomes
// the best one beside all others, `sweeps` times over, and before each block its scales become
// those of the least f. f never grows.
void Descend(const WeightGrid& grid, int64_t group, std::span<const float> w,
             std::span<const double> damped, int sweeps, RoundingTools tools,
             RoundedMatrix& rounded);

// AdaRound (Nagel et al. 2020, arXiv:2004.10568): each number is the whole one below w / scale or
// the one above it; h in [0, 1] between them, a rectified sigmoid, is learned by Adam on f with a
// penalty that drives it to its ends. For numbers that are one apart. f does not grow: where the
// result is worse than `rounded`, that stays.
void AdaRound(const WeightGrid& grid, std::span<const float> w, std::span<const double> damped,
              RoundingTools tools, RoundedMatrix& rounded);

// f of the numbers and scales.
double ResultError(const WeightGrid& grid, std::span<const float> w, std::span<const double> gram,
                   const RoundedMatrix& rounded, RoundingTools tools);

}  // namespace evoq
