// What the benchmarks of integer products call peak: the largest register tile on operands in the
// L1 cache.
#pragma once

#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <map>

#include "base/isa.h"
#include "base/thread_pool.h"
#include "kernels/gemm/int8_block.h"
#include "kernels/gemm/int8_linear.h"

namespace evoq {

// Best of 20 rounds, in GOPS.
inline double MeasureInt8Peak(int threads) {
  const Int8TileDef& isa = Int8TileFor(*SelectIsa());
  constexpr int64_t kGroups = 128, kTaps = 100;
  const int panels = std::min(2, isa.max_panels), rows = isa.max_rows[panels];
  ThreadPool pool(threads);
  double best = 0;
  for (int round = 0; round < 20; ++round) {
    const auto start = std::chrono::steady_clock::now();
    pool.ParallelFor(threads, 1, [&](int64_t begin, int64_t end) {
      alignas(64) uint8_t x[64 * 4 * kGroups] = {};
      alignas(64) int8_t w[2 * 64 * kGroups] = {};
      alignas(64) int32_t bias[32] = {}, y[64 * 32];
      const uint8_t* pointers[64];
      for (int r = 0; r < 64; ++r) pointers[r] = x + 4 * kGroups * r;
      Int8Tile tile = {};
      tile.rows = pointers;
      tile.taps = 1;
      tile.groups_of_4 = kGroups;
      tile.weights = w;
      tile.panel_bytes = 64 * kGroups;
      tile.row_count = rows;
      tile.panel_count = panels;
      tile.first_mask = tile.last_mask = 0xffff;
      tile.bias = bias;
      tile.y = reinterpret_cast<uint8_t*>(y);
      tile.y_stride = 128;
      tile.output = Int8Output::kInt32;
      const Int8TileTask task(isa, tile);
      for (int64_t i = begin * kTaps; i < end * kTaps; ++i) isa.run(tile);
      benchmark::DoNotOptimize(y[0]);
    });
    const double seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    best = std::max(best, 2e-9 * rows * panels * 16 * 4 * kGroups * kTaps * threads / seconds);
  }
  return best;
}

// The same, measured once for each number of threads.
inline double Int8PeakGops(int threads) {
  static std::map<int, double> peaks;
  if (!peaks.count(threads)) peaks[threads] = MeasureInt8Peak(threads);
  return peaks[threads];
}

}  // namespace evoq
