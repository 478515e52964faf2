// Runs of a network of two convolutions, made up by hand, for the tests of the time ledger.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "report/ledger.h"
#include "report/test_program.h"

namespace evoq {

// The peaks are 3 (bfloat16: 1.5) times float32's, memory reads 50 bytes per nanosecond.
inline Limits SomeLimits() {
  Limits limits;
  limits.fp32_gflops = 100;
  limits.int8_gops = 300;
  limits.bf16_gflops = 150;
  limits.l3_read_gbps = limits.dram_read_gbps = 50;
  return limits;
}

struct MadeStep {
  const char* name;
  double ms;
  const char* precision;
  int64_t macs = 0, bytes = 0;
};

// A program and its times. What a run takes without step timing is steps + host - tax.
struct MadeRun {
  Program program;
  StepProfile profile;
  LedgerRun run() const { return {&profile, &program}; }

  MadeRun(const std::string& text, const std::vector<MadeStep>& steps, double host = 0,
          double tax = 0) {
    std::vector<std::string> names;
    for (const MadeStep& made : steps) names.push_back(made.name);
    program = ProgramOf(text, names);
    for (size_t s = 0; s < steps.size(); ++s) {
      const MadeStep& made = steps[s];
      const Node& node = program.graph->node(program.steps[s].node);
      program.steps[s].decision.kernel = node.op + "_" + made.precision;
      program.steps[s].decision.precision = ParsePrecision(made.precision).value();
      StepTime t;
      t.name = made.name;
      t.op = node.op;
      t.macs = made.macs;
      t.bytes = made.bytes;
      t.ms = made.ms;
      t.shape = program.graph->value(node.outputs[0]).type.shape.ToString();
      profile.steps_ms += t.ms;
      profile.steps.push_back(t);
    }
    profile.host_ms = host;
    profile.total_ms = profile.steps_ms + host - tax;
  }
};

// Two convolutions with a pooling and an operator without integer form between them, and arithmetic
// on sizes.
inline constexpr char kFloat[] = R"(graph g
input %x: float32[1, 4, 8, 8]
input %k: int64[2]
const %w1: float32[4, 4, 3, 3]
const %w2: float32[4, 4, 1, 1]
c1: %a: float32[1, 4, 8, 8] = Conv{pads=[1, 1, 1, 1]}(%x, %w1)
p1: %b: float32[1, 4, 4, 4] = MaxPool{kernel_shape=[2, 2], strides=[2, 2]}(%a)
n1: %c: float32[1, 4, 4, 4] = LpNormalization{axis=1}(%b)
c2: %y: float32[1, 4, 4, 4] = Conv(%c, %w2)
i1: %z: int64[2] = Add(%k, %k)
output %y
output %z
)";

inline constexpr char kQuantized[] = R"(graph g
input %x: float32[1, 4, 8, 8]
input %k: int64[2]
const %w1: int8[4, 4, 3, 3](scale 0.01, zero 0)
const %w2: int8[4, 4, 1, 1](scale 0.01, zero 0)
in: %xq: uint8[1, 4, 8, 8](scale 0.1, zero 128) = QuantizeLinear(%x)
c1: %a: uint8[1, 4, 8, 8](scale 0.1, zero 128) = Conv{pads=[1, 1, 1, 1]}(%xq, %w1)
p1: %b: uint8[1, 4, 4, 4](scale 0.1, zero 128) = MaxPool{kernel_shape=[2, 2], strides=[2, 2]}(%a)
dq: %bf: float32[1, 4, 4, 4] = DequantizeLinear(%b)
n1: %c: float32[1, 4, 4, 4] = LpNormalization{axis=1}(%bf)
q: %cq: uint8[1, 4, 4, 4](scale 0.1, zero 128) = QuantizeLinear(%c)
c2: %yq: uint8[1, 4, 4, 4](scale 0.1, zero 128) = Conv(%cq, %w2)
out: %y: float32[1, 4, 4, 4] = DequantizeLinear(%yq)
i1: %z: int64[2] = Add(%k, %k)
output %y
output %z
)";

// As evoq would quantize it: n1 is left out as if it cost nothing.
inline constexpr char kAttainable[] = R"(graph g
input %x: float32[1, 4, 8, 8]
input %k: int64[2]
const %w1: int8[4, 4, 3, 3](scale 0.01, zero 0)
const %w2: int8[4, 4, 1, 1](scale 0.01, zero 0)
in: %xq: uint8[1, 4, 8, 8](scale 0.1, zero 128) = QuantizeLinear(%x)
c1: %a: uint8[1, 4, 8, 8](scale 0.1, zero 128) = Conv{pads=[1, 1, 1, 1]}(%xq, %w1)
p1: %b: uint8[1, 4, 4, 4](scale 0.1, zero 128) = MaxPool{kernel_shape=[2, 2], strides=[2, 2]}(%a)
c2: %yq: uint8[1, 4, 4, 4](scale 0.1, zero 128) = Conv(%b, %w2)
out: %y: float32[1, 4, 4, 4] = DequantizeLinear(%yq)
i1: %z: int64[2] = Add(%k, %k)
output %y
output %z
)";

// Steps 13.9 ms, host 0.1, tax 1.39: a run takes 12.61, and a step 0.9 of what is measured of it.
inline MadeRun FloatRun() {
  return {kFloat,
          {{"c1", 4.0, "float32", 9216, 4096},
           {"p1", 1.0, "float32", 0, 1280},
           {"n1", 0.8, "float32", 0, 4'000'000},
           {"c2", 8.0, "float32", 256, 512},
           {"i1", 0.1, "any", 0, 32}},
          0.1,
          1.39};
}
// Steps 7.4 ms, host 0.4, tax 0.1: 7.7.
inline std::vector<MadeStep> QuantizedSteps(double c2 = 3.0) {
  return {{"in", 0.15, "int8"},    {"c1", 2.0, "int8", 9216}, {"p1", 0.5, "int8"},
          {"dq", 0.3, "int8"},     {"n1", 0.9, "float32"},    {"q", 0.2, "int8"},
          {"c2", c2, "int8", 256}, {"out", 0.25, "int8"},     {"i1", 0.1, "any"}};
}
inline MadeRun QuantizedRun(double c2 = 3.0) { return {kQuantized, QuantizedSteps(c2), 0.4, 0.1}; }
inline MadeRun AttainableRun() {
  return {kAttainable,
          {{"in", 0.14, "int8"},
           {"c1", 1.9, "int8", 9216},
           {"p1", 0.45, "int8"},
           {"c2", 2.8, "int8", 256},
           {"out", 0.2, "int8"},
           {"i1", 0.1, "any"}}};
}

inline std::map<std::string, double> MsOf(const TimeLedger& ledger) {
  std::map<std::string, double> ms;
  for (const TimeCause& c : ledger.causes) ms[c.code] = c.ms;
  return ms;
}

inline void ExpectMs(const TimeLedger& ledger, const std::map<std::string, double>& expected) {
  const auto found = MsOf(ledger);
  EXPECT_EQ(found.size(), expected.size()) << ToText(ledger);
  for (const auto& [code, ms] : expected) {
    ASSERT_TRUE(found.count(code)) << code << "\n" << ToText(ledger);
    EXPECT_NEAR(found.at(code), ms, 1e-12) << code << "\n" << ToText(ledger);
  }
  EXPECT_NEAR(ledger.unexplained_ms, 0, 1e-12) << ToText(ledger);
  for (size_t i = 1; i < ledger.causes.size(); ++i)
    EXPECT_GE(ledger.causes[i - 1].ms, ledger.causes[i].ms) << "largest first";
}

inline void AddPart(MadeRun& made, double more, const char* where) {
  StepProfile& p = made.profile;
  StepSums sums{p.total_ms + more, p.steps_ms + p.host_ms + more, {}};
  for (const StepTime& t : p.steps) sums.steps_ms.push_back(t.ms + (t.name == where ? more : 0));
  p.parts.push_back(sums);
}

}  // namespace evoq
