// What families of kernels count of a step, beside what is worked out by hand.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <string>

#include "base/check.h"
#include "predict/cost.h"
#include "predict/test_forecast.h"

namespace evoq {

// A cycle is 0.5 ns; a multiply-add at peak 0.005 ns in int8, 0.01 in bfloat16, 0.02 in float32; a
// byte 0.01 ns from the L2, 0.02 from the L3, 0.05 from memory.
inline MachineLimits CostMachine() {
  MachineLimits limits;
  limits.isa = Isa::kAvx512;
  limits.threads = 1;
  limits.int8_gops = 400, limits.bf16_gflops = 200, limits.fp32_gflops = 100;
  limits.l2_read_gbps = 100, limits.l3_read_gbps = 50, limits.dram_read_gbps = 20;
  limits.clock_ghz = 2;
  limits.fork_ns = 1000;
  limits.l2_bytes = 1 << 20, limits.l3_bytes = 32 << 20;
  return limits;
}

// The counts of node "n" of a graph, as `kernel` would compute it.
struct Counted {
  Graph graph;
  Step step;
  std::string family;
  Terms terms{};

  Counted(const std::string& text, const char* kernel, const KernelPlan& plan = {},
          int64_t macs = 0, MachineLimits limits = CostMachine(), int64_t run_bytes = 4000) {
    Result<Graph> parsed = ParseGraph("graph g\n" + text);
    EVOQ_CHECK(parsed.has_value(), "{}", parsed ? "" : parsed.error().message());
    graph = std::move(*parsed);
    step.node = graph.FindNode("n");
    step.decision.kernel = kernel;
    step.kernel = FindKernel(kernel);
    step.macs = macs;
    const CostInput input(graph, step, plan, run_bytes);
    const CostFamily& taken = FamilyOf(step, graph.node(step.node).op, plan.method);
    family = taken.name;
    taken.count(input, Rates(limits), terms);
  }
};

// Every count that is not named is 0.
inline void ExpectTerms(const Counted& counted, const char* family,
                        const std::map<Term, double>& expected) {
  EXPECT_EQ(counted.family, family);
  for (int t = 0; t < kTermCount; ++t) {
    const auto it = expected.find(static_cast<Term>(t));
    EXPECT_NEAR(counted.terms[static_cast<size_t>(t)], it == expected.end() ? 0 : it->second, 1e-6)
        << counted.family << ": " << TermName(static_cast<Term>(t));
  }
}

inline std::string MatMul(int64_t rows, int64_t depth, int64_t columns, const char* attrs = "") {
  return fmt::format(
      "input %x: float32[{0}, {1}]\nconst %w: float32[{1}, {2}]\nn: %y: float32[{0}, {2}] = "
      "MatMul{3}(%x, %w)\noutput %y\n",
      rows, depth, columns, attrs);
}

}  // namespace evoq
