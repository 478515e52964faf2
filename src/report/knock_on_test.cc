// What a fault costs the steps around it, by runs made up by hand: every figure worked out in the
// comments.
#include <gtest/gtest.h>

#include "report/test_runs.h"

namespace evoq {
namespace {

std::string Replaced(std::string text, const std::string& what, const std::string& by) {
  return text.replace(text.find(what), what.size(), by);
}

// What happens to a step in part p of eight, in ms.
double Alternating(int p, double ms) { return p % 2 == 0 ? ms : -ms; }

// Every run in eight parts. `more`: by how much a step of the quantized run differs in a part.
TimeLedger InParts(MadeRun quantized, MadeRun best,
                   const std::map<std::string, double>& alternating = {}) {
  MadeRun real = FloatRun();
  for (int p = 0; p < 8; ++p) {
    AddPart(real, 0, "");
    AddPart(best, 0, "");
    AddPart(quantized, 0, "");
    for (const auto& [name, ms] : alternating) {
      StepSums& part = quantized.profile.parts.back();
      for (size_t s = 0; s < part.steps_ms.size(); ++s) {
        if (quantized.profile.steps[s].name == name) part.steps_ms[s] += Alternating(p, ms);
      }
    }
  }
  return BuildTimeLedger(real.run(), quantized.run(), best.run(), SomeLimits());
}

// Each part shows that c1, `in` and `out` take longer than in the attainable run, by 0.1, 0.01 and
// 0.05: what ran before them and is faulty (q; before c1 also `in`, which is none) has their data
// out of the caches. i1 takes the same in both.
TEST(KnockOn, StepsThatSurelyTakeLongerAreChargedToTheFaultBeforeThem) {
  const TimeLedger ledger = InParts(QuantizedRun(), AttainableRun());
  ExpectMs(ledger, {{"kernel-below-ideal", (1.9 - 1.2) + (2.8 - 2.4)},
                    {"no-int8-kernel", 0.05 + 0.2 + 0.3 + 0.88 + 0.2 + 0.1 + 0.01 + 0.05},
                    {"border-conversion", 0.14 + 0.2},
                    {"host-time", 0.4},
                    {"moves-bytes", (0.45 - 0.225) + (0.1 - 0.09)},
                    {"measurement-tax", -0.1}});
  for (const TimeCause& c : ledger.causes) {
    // p1 and c2 stand beside the fault, and differ surely, too.
    if (c.code == "no-int8-kernel")
      EXPECT_EQ(c.steps,
                (std::vector<std::string>{"n1", "dq", "c2", "q", "c1", "p1", "out", "in"}));
  }
  // Against unequally many parts nothing is sure: p1 and c2 alone, as without parts.
  MadeRun best = AttainableRun(), real = FloatRun(), quantized = QuantizedRun();
  for (int p = 0; p < 8; ++p) {
    AddPart(real, 0, "");
    AddPart(quantized, 0, "");
    if (p < 7) AddPart(best, 0, "");
  }
  EXPECT_NEAR(MsOf(BuildTimeLedger(real.run(), quantized.run(), best.run(), SomeLimits()))
                  .at("no-int8-kernel"),
              0.05 + 0.2 + 0.3 + 0.88 + 0.2, 1e-12);
}

// c1 and `out` differ by 0.1 and 0.05 from the attainable run, each give or take 0.3, which is
// nothing sure; but what one takes more the other takes less, so that both together surely take
// 0.15 longer: that goes to the fault.
TEST(KnockOn, WhatSoundStepsTakeLongerTogetherIsTheFaults) {
  MadeRun best = AttainableRun();
  best.profile.steps[0].ms = 0.15;  // `in`, as in the quantized run
  best.profile.steps_ms += 0.01, best.profile.total_ms += 0.01;
  ExpectMs(InParts(QuantizedRun(), best, {{"c1", 0.3}, {"out", -0.3}}),
           {{"kernel-below-ideal", (1.9 - 1.2) + (2.8 - 2.4)},
            {"no-int8-kernel", 0.05 + 0.2 + 0.3 + 0.88 + 0.2 + 0.15},
            {"border-conversion", 0.15 + 0.2},
            {"host-time", 0.4},
            {"moves-bytes", (0.45 - 0.225) + (0.1 - 0.09)},
            {"measurement-tax", -0.1}});
  // Where both take more and less at the same time, their sum is not sure either.
  ExpectMs(InParts(QuantizedRun(), best, {{"c1", 0.3}, {"out", 0.3}}),
           {{"kernel-below-ideal", (2.0 - 1.2) + (2.8 - 2.4)},
            {"no-int8-kernel", 0.05 + 0.2 + 0.3 + 0.88 + 0.2},
            {"border-conversion", 0.15 + 0.25},
            {"host-time", 0.4},
            {"moves-bytes", (0.45 - 0.225) + (0.1 - 0.09)},
            {"measurement-tax", -0.1}});
}

// c1 is excluded and runs another kernel: it costs 0.1 more, and p1 behind it 0.05; c2 0.2 and the
// float operator with its conversions 0.88 + 0.3 + 0.2 are n1's. `out` and i1 are sound and
// together take 0.15 longer, which both faults share as 0.15 to 1.58.
TEST(KnockOn, FaultsShareByWhatTheyCost) {
  MadeRun quantized = QuantizedRun(), best = AttainableRun();
  quantized.program.steps[1].decision.kernel = "slow";
  quantized.program.steps[1].decision.float_reason.code = "excluded";
  best.profile.steps[0].ms = 0.15;
  best.profile.steps[5].ms = 0;
  best.profile.steps_ms -= 0.09, best.profile.total_ms -= 0.09;
  const auto ms = MsOf(InParts(quantized, best, {{"i1", 0.3}, {"out", -0.3}}));
  EXPECT_NEAR(ms.at("excluded"), 0.15 + 0.15 * 0.15 / 1.73, 1e-12);
  EXPECT_NEAR(ms.at("no-int8-kernel"), 1.58 + 0.15 * 1.58 / 1.73, 1e-12);
  EXPECT_NEAR(ms.at("border-conversion"), 0.15 + 0.2, 1e-12);
}

// The attainable run, slower, and what that costs.
const std::vector<MadeStep> kSlower = {{"in", 0.15, "int8"},  {"c1", 2.0, "int8", 9216},
                                       {"p1", 0.5, "int8"},   {"c2", 3.0, "int8", 256},
                                       {"out", 0.25, "int8"}, {"i1", 0.1, "any"}};
const std::map<std::string, double> kSlowerMs = {{"kernel-below-ideal", (2.0 - 1.2) + (3.0 - 2.4)},
                                                 {"border-conversion", 0.15 + 0.25},
                                                 {"host-time", 0},
                                                 {"moves-bytes", (0.5 - 0.225) + (0.1 - 0.09)},
                                                 {"measurement-tax", 0}};

// Without a fault nobody is charged: all steps are the same, and only slower.
TEST(KnockOn, WithoutAFaultStepsAreAsSlowAsTheyAre) {
  ExpectMs(InParts(MadeRun(kAttainable, kSlower), AttainableRun()), kSlowerMs);
}

// A copy between memories before c2 costs what it takes. Its neighbours and what runs after it
// surely take longer, too: that is no fault of the copy.
TEST(KnockOn, CopiesAreNotCharged) {
  std::string text = Replaced(kAttainable, "Conv(%b,", "Conv(%c,");
  text =
      Replaced(text, "c2:", "to: %c: uint8[1, 4, 4, 4](scale 0.1, zero 128) = Identity(%b)\nc2:");
  std::vector<MadeStep> steps = kSlower;
  steps.insert(steps.begin() + 3, {"to", 0.3, "any"});
  MadeRun quantized(text, steps);
  quantized.program.steps[3].decision.kernel = kTransferKernel;
  std::map<std::string, double> ms = kSlowerMs;
  ms["copy-between-memories"] = 0.3;
  ExpectMs(InParts(quantized, AttainableRun()), ms);
}

// c1 is excluded from quantization, and its result is quantized instead of its input: the excluded
// step saves what quantizing the input takes, 0.14, and costs 4.2 - 1.9 and the conversion behind
// it.
TEST(KnockOn, WhatAFaultMakesSuperfluousIsItsGain) {
  const MadeRun quantized = [] {
    MadeRun run(R"(graph g
input %x: float32[1, 4, 8, 8]
input %k: int64[2]
const %w1: float32[4, 4, 3, 3]
const %w2: int8[4, 4, 1, 1](scale 0.01, zero 0)
c1: %a: float32[1, 4, 8, 8] = Conv{pads=[1, 1, 1, 1]}(%x, %w1)
q1: %aq: uint8[1, 4, 8, 8](scale 0.1, zero 128) = QuantizeLinear(%a)
p1: %b: uint8[1, 4, 4, 4](scale 0.1, zero 128) = MaxPool{kernel_shape=[2, 2], strides=[2, 2]}(%aq)
c2: %yq: uint8[1, 4, 4, 4](scale 0.1, zero 128) = Conv(%b, %w2)
out: %y: float32[1, 4, 4, 4] = DequantizeLinear(%yq)
i1: %z: int64[2] = Add(%k, %k)
output %y
output %z
)",
                {{"c1", 4.2, "float32", 9216},
                 {"q1", 0.2, "int8"},
                 {"p1", 0.45, "int8"},
                 {"c2", 2.8, "int8", 256},
                 {"out", 0.2, "int8"},
                 {"i1", 0.1, "any"}});
    run.program.steps[0].decision.float_reason.code = "excluded";
    return run;
  }();
  const TimeLedger ledger =
      BuildTimeLedger(FloatRun().run(), quantized.run(), AttainableRun().run(), SomeLimits());
  EXPECT_NEAR(ledger.ideal_ms, 1.2 + 0.225 + 2.4 + 0.09, 1e-12);
  ExpectMs(ledger, {{"kernel-below-ideal", (1.9 - 1.2) + (2.8 - 2.4)},
                    {"excluded", -0.14 + (4.2 - 1.9) + 0.2},
                    {"border-conversion", 0.14 + 0.2},
                    {"host-time", 0},
                    {"moves-bytes", (0.45 - 0.225) + (0.1 - 0.09)},
                    {"measurement-tax", 0}});
}

const std::string kRenamed = Replaced(kAttainable, "c1:", "c8:");

// c1 has another name in the quantized run, by which only the float run's finds it: another step
// does its work.
TEST(KnockOn, AnotherStepDoesItsWork) {
  const MadeRun quantized(kRenamed, {{"in", 0.14, "int8"},
                                     {"c8", 2.0, "int8", 9216},
                                     {"p1", 0.45, "int8"},
                                     {"c2", 2.8, "int8", 256},
                                     {"out", 0.2, "int8"},
                                     {"i1", 0.1, "any"}});
  MadeRun best = AttainableRun();
  best.profile.steps[1].macs = 0;
  const auto ms =
      MsOf(BuildTimeLedger(FloatRun().run(), quantized.run(), best.run(), SomeLimits()));
  EXPECT_NEAR(ms.at("kernel-below-ideal"), (1.9 - 1.2) + (2.8 - 2.4), 1e-12);
  EXPECT_NEAR(ms.at("other-kernel"), 2.0 - 1.9, 1e-12);
}

TEST(SameSteps, EveryStepHasItsNamesake) {
  const MadeRun run = AttainableRun();
  EXPECT_TRUE(RunsSameSteps(run.program, run.program));
  EXPECT_FALSE(RunsSameSteps(QuantizedRun().program, run.program));
  EXPECT_FALSE(RunsSameSteps(run.program, QuantizedRun().program));
  MadeRun other = AttainableRun();
  other.program.steps[3].decision.kernel = "slow";
  EXPECT_FALSE(RunsSameSteps(other.program, run.program));
  const MadeRun renamed(kRenamed, {{"in", 0, "int8"},
                                   {"c8", 0, "int8"},
                                   {"p1", 0, "int8"},
                                   {"c2", 0, "int8"},
                                   {"out", 0, "int8"},
                                   {"i1", 0, "any"}});
  EXPECT_FALSE(RunsSameSteps(renamed.program, run.program)) << "a step under another name";
}

// By the operator (n1), or by the compiler's word, for integers and for bfloat16.
TEST(StepsWithoutIntegerForm, ByOperatorOrDecision) {
  MadeRun run = QuantizedRun();
  EXPECT_EQ(StepsWithoutIntegerForm(run.program), (std::set<std::string>{"n1"}));
  run.program.steps[1].decision.float_reason.code = "no-int8-kernel";
  run.program.steps[6].decision.float_reason.code = "no-bf16-kernel";
  run.program.steps[2].decision.float_reason.code = "excluded";
  EXPECT_EQ(StepsWithoutIntegerForm(run.program), (std::set<std::string>{"c1", "c2", "n1"}));
}

}  // namespace
}  // namespace evoq
