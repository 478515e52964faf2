// For the benchmarks of the float32 linear kernels: runs one kernel on random tensors.
// Counters: GFLOPS, and `peak`, the share of what a register loop of fused multiply-adds reaches on this machine in the
// same process with as many threads.
#pragma once

#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <random>
#include <vector>

#include "base/aligned.h"
#include "base/check.h"
#include "base/isa.h"
#include "kernels/gemm/gemm_f32_tile.h"
#include "kernels/kernel.h"

namespace evoq {

inline const GemmKernelsF32& BenchKernelsF32(Isa isa) {
#if defined(__x86_64__)
  if (isa == Isa::kAvx512) return kGemmKernelsF32Avx512;
  if (isa == Isa::kAvx2) return kGemmKernelsF32Avx2;
#endif
  (void)isa;
  return kGemmKernelsF32Scalar;
}

// GFLOPS of the micro-kernel on operands that stay in the L1 cache, best of 20, each thread its own.
inline double PeakGflopsF32(Isa isa, int threads) {
  const GemmKernelsF32& kernels = BenchKernelsF32(isa);
  constexpr int64_t kDepth = 64, kRepeats = 400;
  ThreadPool pool(threads);
  double best = 0;
  for (int round = 0; round < 20; ++round) {
    const auto start = std::chrono::steady_clock::now();
    pool.ParallelFor(threads, 1, [&](int64_t begin, int64_t end) {
      alignas(64) float a[kMaxTileRowsF32 * kDepth] = {}, b[kMaxTilePanelsF32 * kDepth * kPanelF32] = {};
      alignas(64) float c[kMaxTileRowsF32 * kMaxTilePanelsF32 * kPanelF32] = {};
      const float* rows[kMaxTileRowsF32];
      int64_t row_offset[kMaxTileRowsF32];
      for (int r = 0; r < kMaxTileRowsF32; ++r) {
        rows[r] = a + r * kDepth;
        row_offset[r] = r * kMaxTilePanelsF32 * kPanelF32;
      }
      std::vector<TapF32> taps(kRepeats, TapF32{0, 0});
      GemmTileF32 tile = {rows, 0, taps.data(), kRepeats, kDepth, b, kPanelF32, kDepth * kPanelF32, b, 0, c, row_offset, 0,
                          kernels.panels * kPanelF32, nullptr, nullptr, false, true, TileActivationF32::kNone, 0, 0};
      for (int64_t i = begin; i < end; ++i) kernels.tile[kernels.panels][kernels.rows](tile);
      benchmark::DoNotOptimize(c[0]);
    });
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    best = std::max(best, 2e-9 * kernels.rows * kernels.panels * kPanelF32 * kDepth * kRepeats * threads / seconds);
  }
  return best;
}

// Runs `kernel` on random float32 inputs of these types; the inputs marked constant are packed. `macs`: of one run.
inline void BenchLinearF32(benchmark::State& state, const KernelDef& kernel, const Attrs& attrs,
                           const std::vector<TensorType>& inputs, const std::vector<bool>& constant,
                           const TensorType& output, double macs, int threads) {
  const Isa isa = *SelectIsa();
  std::mt19937 random(1);
  std::uniform_real_distribution<float> uniform(-1, 1);
  std::vector<Tensor> tensors;
  std::vector<const Tensor*> constants;
  std::vector<const void*> in;
  for (const TensorType& type : inputs) {
    tensors.push_back(type.dtype == DType::kUndefined ? Tensor() : Tensor::Allocate(type));
    for (int64_t i = 0; i < tensors.back().elements(); ++i) tensors.back().mutable_data<float>()[i] = uniform(random);
  }
  for (size_t i = 0; i < tensors.size(); ++i) {
    in.push_back(tensors[i].defined() ? tensors[i].raw() : nullptr);
    constants.push_back(constant[i] ? &tensors[i] : nullptr);
  }
  const KernelCall plain{kernel.op, attrs, inputs, {&output, 1}, constants};
  EVOQ_CHECK(!kernel.reject(plain), "{}", kernel.reject(plain)->why);
  std::vector<Tensor> packed(tensors.size());
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (constants[i] == nullptr) continue;
    packed[i] = *kernel.pack(plain, i);
    if (packed[i].defined()) constants[i] = &packed[i];
  }
  const BoundKernel bound = *kernel.bind(KernelCall{kernel.op, attrs, inputs, {&output, 1}, constants}, {isa, threads});
  AlignedBuffer scratch(bound.scratch_bytes + 64), y(static_cast<size_t>(*output.bytes()));
  void* out = y.data();
  ThreadPool pool(threads);
  const RunContext context{pool, scratch.data()};
  for (auto _ : state) {
    bound.run(bound.state.get(), in.data(), &out, context);
    benchmark::ClobberMemory();
  }
  static double peaks[3] = {};
  if (peaks[threads] == 0) peaks[threads] = PeakGflopsF32(isa, threads);
  const double flops = 2 * macs * static_cast<double>(state.iterations());
  state.counters["GFLOPS"] = benchmark::Counter(flops * 1e-9, benchmark::Counter::kIsRate);
  state.counters["peak"] = benchmark::Counter(flops * 1e-9 / peaks[threads], benchmark::Counter::kIsRate);
}

}  // namespace evoq
