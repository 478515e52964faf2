// The micro-kernel of float64 products: one tile of rows by a panel of 16 columns. Plain data only:
// included by files that are compiled for one instruction set.
#pragma once

#include <cstdint>

#include "kernels/isa_table.h"

namespace evoq {

inline constexpr int kPanelF64 = 16;
inline constexpr int kMaxTileRowsF64 = 14;

// y[r, n] += sum over k < depth of a[r * a_stride + k] * b[k * b_step + n], from 0 where not
// `accumulate`: in order of k, each term a fused multiply-add but in plain C++.
struct TileF64 {
  const double* a;
  int64_t a_stride;
  const double* b;
  int64_t b_step;
  double* y;
  int64_t y_stride;
  int64_t depth;
  int rows;     // 1 .. GemmTableF64::rows
  int columns;  // that are stored; all of b's are read
  bool accumulate;
};

struct GemmTableF64 {
  int rows;  // at most kMaxTileRowsF64
  void (*run)(const TileF64& tile);
};
EVOQ_ISA_TABLE(GemmTableF64)

}  // namespace evoq
