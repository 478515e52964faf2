// What the benchmarks of float32 and bfloat16 products call peak: their own micro-kernel on
// operands in the L1 cache.
#pragma once

#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <vector>

#include "base/thread_pool.h"
#include "kernels/gemm/gemm_float_tile.h"

namespace evoq {

// The operands of one register tile, all zero. A pair of bfloat16 lies where a float does.
struct PeakOperands {
  static constexpr int64_t kDepth = 64, kTaps = 400;
  static constexpr int64_t kRowStep = kMaxTilePanelsF32 * kPanelF32;

  alignas(64) float a[kMaxTileRowsF32 * kDepth] = {};
  alignas(64) float b[kMaxTilePanelsF32 * kDepth * kPanelF32] = {};
  alignas(64) float sums[kMaxTileRowsF32 * kRowStep] = {};
  const float* rows[kMaxTileRowsF32];
  int64_t row_offset[kMaxTileRowsF32];
  std::vector<GemmTap> taps = std::vector<GemmTap>(kTaps, GemmTap{0, 0});

  PeakOperands() {
    for (int r = 0; r < kMaxTileRowsF32; ++r) {
      rows[r] = a + r * kDepth;
      row_offset[r] = r * kRowStep;
    }
  }
};

// GFLOPS of the largest tile of GemmKernels, best of 20, each thread its own
// operands. `flops`: of one step of k, 2 or, with pairs, 4. `tile_of(operands)` gives the tile to
// compute.
template <typename Kernels, typename TileOf>
double TilePeakGflops(const Kernels& kernels, double flops, int threads, TileOf tile_of) {
  ThreadPool pool(threads);
  double best = 0;
  for (int round = 0; round < 20; ++round) {
    const auto start = std::chrono::steady_clock::now();
    pool.ParallelFor(threads, 1, [&](int64_t begin, int64_t end) {
      PeakOperands operands;
      const auto tile = tile_of(operands);
      if (kernels.begin != nullptr) kernels.begin();
      for (int64_t i = begin; i < end; ++i) kernels.tile[kernels.panels][kernels.rows](tile);
      if (kernels.end != nullptr) kernels.end();
      benchmark::DoNotOptimize(operands.sums[0]);
    });
    const double seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    best = std::max(best, 1e-9 * flops * kernels.rows * kernels.panels * kPanelF32 *
                              PeakOperands::kDepth * PeakOperands::kTaps * threads / seconds);
  }
  return best;
}

}  // namespace evoq
