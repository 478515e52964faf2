#include "quant/hadamard.h"

#include <bit>
#include <cmath>
#include <random>

namespace evoq {
namespace {

bool IsPrime(int64_t n) {
  for (int64_t d = 2; d * d <= n; ++d) {
    if (n % d == 0) return false;
  }
  return n > 1;
}

// The smallest order of Paley's that is left when halving `size`, 1 for a power of two; 0: none.
int64_t CoreOf(int64_t size) {
  if (size < 1) return 0;
  if (std::has_single_bit(static_cast<uint64_t>(size))) return 1;
  int64_t core = 0;
  for (int64_t n = size;; n /= 2) {
    if (n % 4 == 0 && IsPrime(n - 1)) core = n;
    if (n % 2 != 0) return core;
  }
}

}  // namespace

std::optional<Rotation> Rotation::Of(int64_t size, uint32_t seed) {
  const int64_t core = CoreOf(size);
  if (core == 0) return std::nullopt;
  Rotation rotation;
  rotation.core_ = core;
  if (core > 1) {
    rotation.residues_.assign(static_cast<size_t>(core - 1), -1);
    for (int64_t i = 0; i < core - 1; ++i) rotation.residues_[i * i % (core - 1)] = 1;
    rotation.residues_[0] = 0;
  }
  std::mt19937 random(seed);
  for (int64_t i = 0; i < size; ++i) rotation.signs_.push_back(random() >> 31 != 0 ? -1 : 1);
  return rotation;
}

void Rotation::Apply(std::span<double> x) const {
  const int64_t n = size(), p = core_ - 1;
  const double unit = 1 / std::sqrt(static_cast<double>(n));
  for (int64_t i = 0; i < n; ++i) x[i] *= signs_[i] * unit;
  // Paley's I + S: row and column 0 of S are 0, 1, .., 1 and 0, -1, .., -1, and S[i, j] is the
  // residue of i - j.
  std::vector<double> row(static_cast<size_t>(core_));
  for (int64_t begin = 0; core_ > 1 && begin < n; begin += core_) {
    double* v = &x[begin];
    row.assign(v, v + core_);
    for (int64_t i = 0; i < p; ++i) row[0] -= v[i + 1];
    for (int64_t j = 0; j < p; ++j) {
      double sum = v[0];
      for (int64_t i = 0; i < p; ++i) sum += v[i + 1] * residues_[(i - j + p) % p];
      row[j + 1] += sum;
    }
    std::copy(row.begin(), row.end(), v);
  }
  for (int64_t step = core_; step < n; step *= 2) {
    for (int64_t begin = 0; begin < n; begin += 2 * step) {
      for (int64_t i = begin; i < begin + step; ++i) {
        const double a = x[i], b = x[i + step];
        x[i] = a + b;
        x[i + step] = a - b;
      }
    }
  }
}

}  // namespace evoq
