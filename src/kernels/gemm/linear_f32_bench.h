// For the benchmarks of the float32 linear kernels: runs one kernel on random tensors.
// Counters: GFLOPS, and `peak`, the share of what a register loop of fused multiply-adds reaches on
// this machine in the same process with as many threads.
#pragma once

#include <benchmark/benchmark.h>

#include <random>
#include <vector>

#include "base/aligned.h"
#include "base/check.h"
#include "base/isa.h"
#include "kernels/gemm/gemm_float.h"
#include "kernels/gemm/peak_bench.h"
#include "kernels/kernel.h"

namespace evoq {

inline double PeakGflopsF32(Isa isa, int threads) {
  const GemmKernels& kernels = GemmKernelsForF32(isa);
  return TilePeakGflops(kernels, 2, threads, [&](PeakOperands& o) {
    GemmTile tile = {};
    tile.rows = o.rows, tile.taps = o.taps.data(), tile.tap_count = PeakOperands::kTaps,
    tile.depth = PeakOperands::kDepth;
    tile.b = tile.ahead = o.b, tile.b_step = kPanelF32,
    tile.panel_stride = PeakOperands::kDepth * kPanelF32;
    tile.y = o.sums, tile.output = TileOutput::kFloat32, tile.row_offset = o.row_offset,
    tile.column_end = kernels.panels * kPanelF32, tile.last = true;
    return tile;
  });
}

// Runs `kernel` on random float32 inputs of these types; the inputs marked constant are packed.
// `macs`: of one run; `variant`: BindOptions'.
inline void BenchLinearF32(benchmark::State& state, const KernelDef& kernel, const Attrs& attrs,
                           const std::vector<TensorType>& inputs, const std::vector<bool>& constant,
                           const TensorType& output, double macs, int threads,
                           std::string_view variant = "") {
  const Isa isa = *SelectIsa();
  std::mt19937 random(1);
  std::uniform_real_distribution<float> uniform(-1, 1);
  std::vector<Tensor> tensors;
  std::vector<const Tensor*> constants;
  std::vector<const void*> in;
  for (const TensorType& type : inputs) {
    tensors.push_back(type.dtype == DType::kUndefined ? Tensor() : Tensor::Allocate(type));
    for (int64_t i = 0; i < tensors.back().elements(); ++i)
      tensors.back().mutable_data<float>()[i] = uniform(random);
  }
  for (size_t i = 0; i < tensors.size(); ++i) {
    in.push_back(tensors[i].defined() ? tensors[i].raw() : nullptr);
    constants.push_back(constant[i] ? &tensors[i] : nullptr);
  }
  const KernelCall plain{kernel.op, attrs, inputs, {&output, 1}, constants};
  EVOQ_CHECK(!kernel.reject(plain), "{}", kernel.reject(plain)->sentence);
  std::vector<Tensor> packed(tensors.size());
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (constants[i] == nullptr) continue;
    packed[i] = *kernel.pack(plain, i);
    if (packed[i].defined()) constants[i] = &packed[i];
  }
  const BoundKernel bound = *kernel.bind(
      KernelCall{kernel.op, attrs, inputs, {&output, 1}, constants}, {isa, threads, variant});
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
  state.counters["peak"] =
      benchmark::Counter(flops * 1e-9 / peaks[threads], benchmark::Counter::kIsRate);
}

}  // namespace evoq
