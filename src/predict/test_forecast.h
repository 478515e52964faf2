// A machine and small networks for the tests of this room.
#pragma once

#include <string>

#include "base/check.h"
#include "graph/graph.h"
#include "kernels/kernel.h"
#include "profile/machine.h"

namespace evoq {

// A machine that stays as it is.
inline MachineLimits SomeMachine(int threads = 1) {
  MachineLimits limits;
  limits.cpu = "a machine", limits.core = "some cores";
  limits.isa = Isa::kAvx512;
  limits.threads = threads;
  limits.int8_gops = 900.0 * threads, limits.bf16_gflops = 440.0 * threads;
  limits.fp32_gflops = 220.0 * threads;
  limits.dram_read_gbps = 20, limits.l3_read_gbps = 80.0 * threads;
  limits.l2_read_gbps = 160.0 * threads;
  limits.clock_ghz = 3.5;
  limits.fork_ns = threads > 1 ? 500 : 0;
  limits.l2_bytes = 1 << 20, limits.l3_bytes = 32 << 20;
  return limits;
}

// The plan of a kernel with register tiles.
inline KernelPlan Tiled(int rows, int columns, std::string method = "") {
  return {
      .code = "avx512", .tile_rows = rows, .tile_columns = columns, .method = std::move(method)};
}

inline Graph Parsed(const std::string& text) {
  Result<Graph> graph = ParseGraph(text);
  EVOQ_CHECK(graph.has_value(), "{}", graph ? "" : graph.error().message());
  return std::move(*graph);
}

// Two 3 x 3 convolutions with stride 2, which Winograd does not compute.
inline Graph Convolutions(int64_t channels, int64_t size) {
  return Parsed(fmt::format(R"(
    input %x: float32[1, {0}, {1}, {1}]
    const %w: float32[{0}, {0}, 3, 3]
    const %v: float32[{0}, {0}, 3, 3]
    first: %a: float32[1, {0}, {2}, {2}] = Conv{{pads=[1, 1, 1, 1], strides=[2, 2]}}(%x, %w)
    second: %y: float32[1, {0}, {3}, {3}] = Conv{{pads=[1, 1, 1, 1], strides=[2, 2]}}(%a, %v)
    output %y
  )",
                            channels, size, size / 2, size / 4));
}

}  // namespace evoq
