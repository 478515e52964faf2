// Rotations of vectors by Hadamard matrices with random signs.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace evoq {

// x -> x Q with the orthogonal Q = diag(signs) H / sqrt(size). H is Sylvester's matrix of 2^k times
// (Kronecker) Paley's first of order p + 1 for a prime p = 3 mod 4 (R. Paley, "On Orthogonal
// Matrices", 1933), or Sylvester's alone.
class Rotation {
 public:
  // Signs by `seed`, the same on all machines. Nothing where no such H has this size.
  static std::optional<Rotation> Of(int64_t size, uint32_t seed);

  int64_t size() const { return static_cast<int64_t>(signs_.size()); }
  // In place; which is Q^T x of a column x too. `x` has `size()` elements.
  void Apply(std::span<double> x) const;

 private:
  std::vector<double> signs_;
  int64_t core_ = 1;              // order of Paley's matrix
  std::vector<int8_t> residues_;  // of core_ - 1: 1 for squares, -1 for others, 0 for 0
};

}  // namespace evoq
