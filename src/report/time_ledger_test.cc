// The time ledger of runs made up by hand, every figure worked out by hand in the comments.
#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>

#include "base/text.h"
#include "report/test_runs.h"

namespace evoq {
namespace {

// Ideals: c1 0.9 * 4 / 3 = 1.2 and c2 2.4 by the peaks, p1 0.9 / 4 = 0.225 by its bytes, n1 a
// quarter of 4,000,000 bytes at 50 per nanosecond = 0.02, i1, which has no floats, 0.09. In
// sum 3.935.
TEST(TimeLedger, AgainstEstimatesByHand) {
  const TimeLedger ledger =
      BuildTimeLedger(FloatRun().run(), QuantizedRun().run(), {}, SomeLimits());
  EXPECT_NEAR(ledger.float_ms, 12.61, 1e-12);
  EXPECT_NEAR(ledger.actual_ms, 7.7, 1e-12);
  EXPECT_NEAR(ledger.ideal_ms, 1.2 + 0.225 + 0.02 + 2.4 + 0.09, 1e-12);
  // The float operator costs what it takes above its ideal, 0.9 - 0.02, and both conversions around
  // it.
  ExpectMs(ledger, {{"kernel-below-ideal", (2.0 - 1.2) + (3.0 - 2.4)},
                    {"no-int8-kernel", 0.88 + 0.3 + 0.2},
                    {"border-conversion", 0.15 + 0.25},
                    {"host-time", 0.4},
                    {"moves-bytes", (0.5 - 0.225) + (0.1 - 0.09)},
                    {"measurement-tax", -0.1}});
  // Fixes win back the float operator, the conversions at the border and the host's time.
  EXPECT_NEAR(ledger.attainable_ms, 7.7 - 1.38 - 0.4 - 0.4, 1e-12);
  for (const TimeCause& c : ledger.causes) {
    const bool won =
        c.code == "no-int8-kernel" || c.code == "border-conversion" || c.code == "host-time";
    EXPECT_NEAR(c.gain_ms, won ? c.ms : 0, 1e-12) << c.code;
    EXPECT_EQ(c.spread_ms, 0) << "one figure";
    if (c.code == "no-int8-kernel") EXPECT_EQ(c.steps, (std::vector<std::string>{"n1", "dq", "q"}));
    if (c.code == "kernel-below-ideal") EXPECT_EQ(c.steps, (std::vector<std::string>{"c1", "c2"}));
  }
  EXPECT_EQ(ledger.gap_spread_ms, 0);
  EXPECT_NE(ToText(ledger).find("time: float 12.610 ms -> ideal 3.935 ms -> attainable 5.520 ms -> "
                                "measured 7.700 ms (1.64x of 3.20x possible)\n"),
            std::string::npos)
      << ToText(ledger);
}

// c2's float kernel takes 8.0 ms at 1% of the roofline: what it needs is 10 * 0.08 ms and 2
// microseconds, of which the ideal is a third; c1 at 50% is as good as measured.
TEST(TimeLedger, AKernelFarFromTheRooflineIsNoMeasure) {
  MadeRun real = FloatRun();
  real.profile.steps[0].roofline_share = 0.5;
  real.profile.steps[3].roofline_share = 0.01;
  const TimeLedger ledger = BuildTimeLedger(real.run(), QuantizedRun().run(), {}, SomeLimits());
  const double c2 = (10 * 0.08 + 0.002) / 3;
  EXPECT_NEAR(ledger.ideal_ms, 1.2 + 0.225 + 0.02 + c2 + 0.09, 1e-12);
  EXPECT_NEAR(MsOf(ledger).at("kernel-below-ideal"), (2.0 - 1.2) + (3.0 - c2), 1e-12);
  for (const TimeCause& c : ledger.causes) {
    if (c.code == "kernel-below-ideal")
      EXPECT_EQ(c.steps, (std::vector<std::string>{"c2", "c1"})) << "the largest loss first";
  }
}

// A faulty convolution could take its ideal times what the sound ones take over theirs: c1
// takes 2.0 of 1.2, so c2 in float (6.0 ms, ideal 2.4) could take 4.0.
TEST(TimeLedger, AFaultyStepCouldBeAsFastAsItsKin) {
  MadeRun quantized = QuantizedRun(6.0);
  quantized.program.steps[6].decision.precision = Precision::kFloat32;
  quantized.program.steps[6].decision.float_reason.code = "excluded";
  const auto ms = MsOf(BuildTimeLedger(FloatRun().run(), quantized.run(), {}, SomeLimits()));
  EXPECT_NEAR(ms.at("kernel-below-ideal"), (2.0 - 1.2) + (4.0 - 2.4), 1e-12);
  EXPECT_NEAR(ms.at("excluded"), 6.0 - 4.0, 1e-12)
      << "what it takes more; q belongs to n1, which writes for it, and out to the border";
  // No faster than it is: with 3.0 ms it loses nothing.
  quantized.profile.steps[6].ms = 3.0;
  quantized.profile.steps_ms -= 3.0;
  quantized.profile.total_ms -= 3.0;
  EXPECT_NEAR(
      MsOf(BuildTimeLedger(FloatRun().run(), quantized.run(), {}, SomeLimits())).at("excluded"), 0,
      1e-12);
}

// So could steps that move or combine values: the sound p1 takes 0.5 of 0.225, a Relu that stays
// float (0.9 ms, ideal 0.9 * 0.8 / 4) could take the same times its ideal; i1 moves no integers
// that were floats.
TEST(TimeLedger, AMovingStepCouldBeAsFastAsOthers) {
  const auto with_relu = [](std::string text) {
    const size_t at = text.find("LpNormalization{axis=1}");
    return text.replace(at, std::string("LpNormalization{axis=1}").size(), "Relu");
  };
  MadeRun real(with_relu(kFloat),
               {{"c1", 4.0, "float32", 9216, 4096},
                {"p1", 1.0, "float32", 0, 1280},
                {"n1", 0.8, "float32", 0, 1280},
                {"c2", 8.0, "float32", 256, 512},
                {"i1", 0.1, "any", 0, 32}},
               0.1, 1.39);
  MadeRun quantized(with_relu(kQuantized), QuantizedSteps(), 0.4, 0.1);
  quantized.program.steps[4].decision.float_reason.code = "excluded";
  const auto ms = MsOf(BuildTimeLedger(real.run(), quantized.run(), {}, SomeLimits()));
  const double could = 0.9 * 0.8 / 4 * 0.5 / 0.225;
  EXPECT_NEAR(ms.at("excluded"), 0.9 - could + 0.3 + 0.2, 1e-12) << "and its conversions";
  EXPECT_NEAR(ms.at("moves-bytes"), 0.6 - (0.225 + 0.09) + could - 0.9 * 0.8 / 4, 1e-12);
}

// p1 and c2 stand beside the fault: what they take longer than in the attainable run, 0.05 and 0.2,
// is the fault's. c1 and the conversions at the border are the same steps in both runs: their own
// times count.
TEST(TimeLedger, AgainstAttainableByHand) {
  const TimeLedger ledger =
      BuildTimeLedger(FloatRun().run(), QuantizedRun().run(), AttainableRun().run(), SomeLimits());
  EXPECT_NEAR(ledger.ideal_ms, 3.935, 1e-12);
  ExpectMs(ledger, {{"kernel-below-ideal", (2.0 - 1.2) + (2.8 - 2.4)},
                    {"no-int8-kernel", 0.05 + 0.2 + 0.3 + 0.88 + 0.2},
                    {"border-conversion", 0.15 + 0.25},
                    {"host-time", 0.4},
                    {"moves-bytes", (0.45 - 0.225) + (0.1 - 0.09)},
                    {"measurement-tax", -0.1}});
  EXPECT_NEAR(ledger.attainable_ms, 7.7 - 1.63 - 0.4 - 0.4, 1e-12);
}

// c2 takes another kernel than in the attainable run, and nothing says why.
TEST(TimeLedger, AnotherKernelByHand) {
  MadeRun quantized(kAttainable, {{"in", 0.14, "int8"},
                                  {"c1", 1.9, "int8", 9216},
                                  {"p1", 0.45, "int8"},
                                  {"c2", 3.5, "int8", 256},
                                  {"out", 0.2, "int8"},
                                  {"i1", 0.1, "any"}});
  quantized.program.steps[3].decision.kernel = "slow";
  const auto ms =
      MsOf(BuildTimeLedger(FloatRun().run(), quantized.run(), AttainableRun().run(), SomeLimits()));
  EXPECT_NEAR(ms.at("other-kernel"), 3.5 - 2.8, 1e-12);
  EXPECT_NEAR(ms.at("kernel-below-ideal"), (1.9 - 1.2) + (2.8 - 2.4), 1e-12);
}

// The explained model does without the pooling that the attainable one has, and without n1: nothing
// is ideal for both, and nobody is charged. Ideals 1.2 + 2.4 + 0.09; 5.14 ms in all.
TEST(TimeLedger, WhatIsNotNeededIsIdealAtNothing) {
  const MadeRun quantized(kAttainable, {{"in", 0.14, "int8"},
                                        {"c1", 1.9, "int8", 9216},
                                        {"c2", 2.8, "int8", 256},
                                        {"out", 0.2, "int8"},
                                        {"i1", 0.1, "any"}});
  for (const bool measured : {true, false}) {
    const TimeLedger ledger =
        BuildTimeLedger(FloatRun().run(), quantized.run(),
                        measured ? AttainableRun().run() : LedgerRun(), SomeLimits());
    EXPECT_NEAR(ledger.ideal_ms, 3.69, 1e-12);
    ExpectMs(ledger, {{"kernel-below-ideal", (1.9 - 1.2) + (2.8 - 2.4)},
                      {"border-conversion", 0.34},
                      {"moves-bytes", 0.01},
                      {"host-time", 0},
                      {"measurement-tax", 0}});
  }
}

// c2 in 1.0 ms, where the peaks allow 2.4: what was measured is possible. Of 5.4 ms of steps 0.1 is
// tax, so c2's ideal is 1.0 * 5.3 / 5.4.
TEST(TimeLedger, WhatWasMeasuredIsPossible) {
  const TimeLedger ledger =
      BuildTimeLedger(FloatRun().run(), QuantizedRun(1.0).run(), {}, SomeLimits());
  EXPECT_NEAR(ledger.ideal_ms, 1.2 + 0.225 + 0.02 + 5.3 / 5.4 + 0.09, 1e-12);
  EXPECT_NEAR(MsOf(ledger).at("kernel-below-ideal"), (2.0 - 1.2) + (1.0 - 5.3 / 5.4), 1e-12);
  EXPECT_NEAR(ledger.unexplained_ms, 0, 1e-12);
  // All steps in a tenth of what the float run takes: no ideal is above that.
  std::vector<MadeStep> steps = QuantizedSteps(0.1);
  for (MadeStep& s : steps) s.ms = 0.01;
  const MadeRun fast(kQuantized, steps, 0, 0.02);
  for (const bool measured : {false, true}) {
    const TimeLedger all = BuildTimeLedger(
        FloatRun().run(), fast.run(), measured ? AttainableRun().run() : LedgerRun(), SomeLimits());
    EXPECT_NEAR(all.actual_ms, 0.07, 1e-12);
    // Five of the nine steps, each less two ninths of its hundredth.
    EXPECT_NEAR(all.ideal_ms, 5 * 0.01 * 7 / 9, 1e-12);
    EXPECT_GE(all.actual_ms, all.ideal_ms);
    EXPECT_GE(all.attainable_ms, all.ideal_ms);
    EXPECT_NEAR(all.unexplained_ms, 0, 1e-12);
  }
  // And of what the attainable run takes: its c1 in 0.6 ms instead of 1.2 by the peaks.
  MadeRun best = AttainableRun();
  best.profile.steps[1].ms = 0.6;
  best.profile.steps_ms -= 1.3;
  best.profile.total_ms -= 1.3;
  EXPECT_NEAR(
      BuildTimeLedger(FloatRun().run(), QuantizedRun().run(), best.run(), SomeLimits()).ideal_ms,
      3.935 - 0.6, 1e-12);
}

// bfloat16: half the bytes, 1.5 times the peak.
TEST(TimeLedger, IdealsOfBfloat16) {
  std::string text = kFloat;
  for (size_t at = text.find("float32"); at != std::string::npos; at = text.find("float32", at))
    text.replace(at, 7, "bfloat16");
  const MadeRun narrow(text, {{"c1", 3.0, "bf16", 9216},
                              {"p1", 0.9, "bf16"},
                              {"n1", 0.7, "bf16"},
                              {"c2", 6.0, "bf16", 256},
                              {"i1", 0.1, "any"}});
  const TimeLedger ledger = BuildTimeLedger(FloatRun().run(), narrow.run(), {}, SomeLimits());
  EXPECT_NEAR(ledger.ideal_ms, 0.9 * 4 / 1.5 + 0.9 / 2 + 0.04 + 0.9 * 8 / 1.5 + 0.09, 1e-12);
  // Where such products are float32's, a slower bfloat16 could be as fast as float32.
  const MadeRun slow(text, {{"c1", 5.0, "bf16", 9216},
                            {"p1", 0.9, "bf16"},
                            {"n1", 0.7, "bf16"},
                            {"c2", 9.0, "bf16", 256},
                            {"i1", 0.1, "any"}});
  Limits as_float = SomeLimits();
  as_float.bf16_gflops = 0;
  EXPECT_NEAR(BuildTimeLedger(FloatRun().run(), slow.run(), {}, as_float).ideal_ms,
              0.9 * 4 + 0.9 / 2 + 0.04 + 0.9 * 8 + 0.09, 1e-12);
  EXPECT_TRUE(NarrowsToBf16(narrow.program));
  EXPECT_FALSE(NarrowsToBf16(QuantizedRun().program));
}

// A float operator is never ideal at more than it takes: of 0.8 ms, 0.9 of that, though its bytes
// would allow 20 ms.
TEST(TimeLedger, AFloatOperatorIsIdealAtWhatItTakesAtMost) {
  MadeRun real = FloatRun();
  real.profile.steps[2].bytes = 4'000'000'000;
  EXPECT_NEAR(BuildTimeLedger(real.run(), QuantizedRun().run(), {}, SomeLimits()).ideal_ms,
              3.935 - 0.02 + 0.72, 1e-12);
}

// r1 reads 1024 bytes, of which a quarter are left, and writes 4096 of the model's output: ideal at
// 4352 / 5120 of its time. a1 reads those again, and c1 cannot write its 1,600,000 bytes in less
// than 0.032 ms, whatever the peaks say.
TEST(TimeLedger, OutputsStayAsWideAsTheyAre) {
  const std::string text =
      "graph g\ninput %x: float32[1, 1, 16, 16]\nconst %k: int64[4] = [1, 4, 1, 1]\n"
      "const %w: float32[1, 1, 1, 1]\ninput %large: float32[1, 1, 400, 1000]\n"
      "r1: %y: float32[1, 4, 16, 16] = Tile(%x, %k)\n"
      "a1: %a: int64[1, 1, 16, 16] = ArgMax{axis=1}(%y)\n"
      "c1: %c: float32[1, 1, 400, 1000] = Conv(%large, %w)\n"
      "output %y\noutput %a\noutput %c\n";
  const MadeRun real(text, {{"r1", 0.5, "float32", 0, 5120},
                            {"a1", 1, "float32", 0, 4096 + 2048},
                            {"c1", 0.06, "float32", 400'000, 3'200'000}});
  const TimeLedger ledger = BuildTimeLedger(real.run(), real.run(), {}, SomeLimits());
  const double narrow = (4096 + 2048) / 50e6;
  EXPECT_NEAR(ledger.ideal_ms, 0.5 * 4352 / 5120 + narrow + 0.032, 1e-9);
}

// A recurrent operator multiplies: 6.0 ms are ideal at a third, and what it takes more is its
// kernel's.
TEST(TimeLedger, RecurrentOperatorsAreProducts) {
  const auto run = [](const char* weight, double ms) {
    return MadeRun(
        fmt::format("graph g\ninput %x: float32[6, 1, 20]\nconst %w: {0}[1, 192, 20]{1}\n"
                    "const %r: {0}[1, 192, 64]{1}\n"
                    "g1: %y: float32[6, 1, 1, 64] = GRU{{hidden_size=64}}(%x, %w, %r)\n"
                    "output %y\n",
                    weight, std::string_view(weight) == "int8" ? "(192 scales on axis 1)" : ""),
        {{"g1", ms, weight, 100000, 4096}});
  };
  const TimeLedger ledger =
      BuildTimeLedger(run("float32", 6.0).run(), run("int8", 3.0).run(), {}, SomeLimits());
  EXPECT_NEAR(ledger.ideal_ms, 2.0, 1e-12);
  ExpectMs(ledger, {{"kernel-below-ideal", 1.0}, {"host-time", 0}, {"measurement-tax", 0}});
}

// Where names differ, a linear step meets the first one with its multiplications and its shape that
// no other step has; the others meet nobody.
TEST(TimeLedger, StepsUnderOtherNamesArePairedByWork) {
  const auto renamed = [](int64_t c1_macs, int64_t c2_macs) {
    std::string text = kQuantized;
    text.replace(text.find("c2:"), 3, "c9:");
    text.replace(text.find("c1:"), 3, "c8:");
    text.replace(text.find("p1:"), 3, "p8:");
    std::vector<MadeStep> steps = QuantizedSteps();
    steps[1] = {"c8", 2.0, "int8", c1_macs}, steps[2] = {"p8", 0.5, "int8"},
    steps[6] = {"c9", 3.0, "int8", c2_macs};
    return MadeRun(text, steps, 0.4, 0.1);
  };
  const auto ideal = [](const MadeRun& run) {
    return BuildTimeLedger(FloatRun().run(), run.run(), {}, SomeLimits()).ideal_ms;
  };
  EXPECT_NEAR(ideal(renamed(9216, 256)), 3.935 - 0.225, 1e-12)
      << "p1 has no multiplications to go by: nothing is its counterpart";
  EXPECT_NEAR(ideal(renamed(9216, 255)), 3.935 - 0.225 - 2.4, 1e-12) << "as many as no step has";
  EXPECT_NEAR(ideal(renamed(256, 9216)), 3.935 - 0.225 - 1.2 - 2.4, 1e-12)
      << "as many, but of another shape";
}

TEST(TimeLedger, TwoOfOneKindArePairedInOrder) {
  const auto two = [](const char* type, const char* first, const char* second) {
    return fmt::format(
        "graph g\ninput %x: {0}\nconst %w: {1}\n{2}: %a: {0} = MatMul(%x, %w)\n{3}: %y: {0} = "
        "MatMul(%a, %w)\noutput %y\n",
        fmt::format("{}8, 8]{}", type, type[0] == 'u' ? "(scale 0.1, zero 128)" : ""),
        type[0] == 'u' ? "int8[8, 8](scale 0.1, zero 0)" : "float32[8, 8]", first, second);
  };
  const MadeRun real(two("float32[", "a", "b"),
                     {{"a", 3.0, "float32", 512}, {"b", 6.0, "float32", 512}});
  // Ideals 1 and 2: 0.5 and 0.25 above them.
  const MadeRun quantized(two("uint8[", "s", "t"),
                          {{"s", 1.5, "int8", 512}, {"t", 2.25, "int8", 512}});
  const TimeLedger ledger = BuildTimeLedger(real.run(), quantized.run(), {}, SomeLimits());
  EXPECT_NEAR(ledger.ideal_ms, 3, 1e-12);
  EXPECT_NEAR(MsOf(ledger).at("kernel-below-ideal"), 0.75, 1e-12);
  // "b" has its namesake: "s" takes what is left.
  const MadeRun named(two("uint8[", "b", "s"), {{"b", 2.25, "int8", 512}, {"s", 1.5, "int8", 512}});
  EXPECT_NEAR(BuildTimeLedger(real.run(), named.run(), {}, SomeLimits()).ideal_ms, 3, 1e-12);
  const MadeRun first(two("uint8[", "a", "s"), {{"a", 1.5, "int8", 512}, {"s", 2.25, "int8", 512}});
  EXPECT_NEAR(BuildTimeLedger(real.run(), first.run(), {}, SomeLimits()).ideal_ms, 3, 1e-12);
}

// Eight parts of the time: c2 takes 0.1 ms more in every second one and 0.1 less in the others, in
// the quantized run alone. The mean of eight such figures has a standard error of 0.1 / sqrt(7);
// half of its 95% interval is 2.365 times that (Student, seven degrees of freedom).
TEST(TimeLedger, SpreadsByHand) {
  MadeRun real = FloatRun(), quantized = QuantizedRun();
  for (int part = 0; part < 8; ++part) {
    AddPart(real, 0, "");
    AddPart(quantized, part % 2 == 0 ? 0.1 : -0.1, "c2");
  }
  const TimeLedger ledger = BuildTimeLedger(real.run(), quantized.run(), {}, SomeLimits());
  const double half = 2.365 * 0.1 / std::sqrt(7.0);
  EXPECT_NEAR(ledger.gap_spread_ms, half, 1e-6);
  for (const TimeCause& c : ledger.causes)
    EXPECT_NEAR(c.spread_ms, c.code == "kernel-below-ideal" ? half : 0, 1e-6) << c.code;
  EXPECT_TRUE(ledger.steady()) << "3.765 +- 0.089";
  // Where the runs have unequally many parts, those that both have count.
  real.profile.parts.resize(2);
  EXPECT_NEAR(BuildTimeLedger(real.run(), quantized.run(), {}, SomeLimits()).gap_spread_ms,
              12.706 * 0.1, 1e-4)
      << "two figures: one degree of freedom";
  real.profile.parts.resize(1);
  EXPECT_EQ(BuildTimeLedger(real.run(), quantized.run(), {}, SomeLimits()).gap_spread_ms, 0);
}

// The float run's first product takes 0.3 ms more in every second part, and 0.3 less in the others:
// its ideal varies by 0.1, and so does the gap.
TEST(TimeLedger, TheSpreadOfTheIdeal) {
  const auto two = [](const char* type, const char* weights) {
    return fmt::format(
        "graph g\ninput %x: {0}\nconst %w: {1}\na: %a: {0} = MatMul(%x, %w)\nb: %y: {0} = "
        "MatMul(%a, %w)\noutput %y\n",
        type, weights);
  };
  MadeRun real(two("float32[8, 8]", "float32[8, 8]"),
               {{"a", 3.0, "float32", 512}, {"b", 6.0, "float32", 512}});
  MadeRun quantized(two("uint8[8, 8](scale 0.1, zero 128)", "int8[8, 8](scale 0.1, zero 0)"),
                    {{"a", 1.5, "int8", 512}, {"b", 2.25, "int8", 512}});
  for (int part = 0; part < 8; ++part) {
    AddPart(real, part % 2 == 0 ? 0.3 : -0.3, "a");
    AddPart(quantized, 0, "");
  }
  const TimeLedger ledger = BuildTimeLedger(real.run(), quantized.run(), {}, SomeLimits());
  EXPECT_NEAR(ledger.gap_spread_ms, 2.365 * 0.1 / std::sqrt(7.0), 1e-6);
}

// A cause that costs less than nothing is no gain: host time of -0.2 ms, as noise has it.
TEST(TimeLedger, NothingIsWonBackFromANegativeCause) {
  const MadeRun quantized(kQuantized, QuantizedSteps(), -0.2, 0);
  const TimeLedger ledger = BuildTimeLedger(FloatRun().run(), quantized.run(), {}, SomeLimits());
  EXPECT_NEAR(MsOf(ledger).at("host-time"), -0.2, 1e-12);
  EXPECT_NEAR(ledger.attainable_ms, 7.2 - 1.38 - 0.4, 1e-12);
  for (const TimeCause& c : ledger.causes) EXPECT_GE(c.gain_ms, 0) << c.code;
}

// A model with both kinds of steps is one of integers.
TEST(TimeLedger, IntegersBesideBfloat16) {
  MadeRun mixed = QuantizedRun();
  mixed.program.steps[4].decision.precision = Precision::kBf16;
  EXPECT_FALSE(NarrowsToBf16(mixed.program));
}

// Steady: the gap is known to a tenth of itself, or to 2% of the run.
TEST(TimeLedger, Steadiness) {
  const auto steady = [](double ideal, double actual, double spread) {
    TimeLedger ledger;
    ledger.ideal_ms = ideal, ledger.actual_ms = actual, ledger.gap_spread_ms = spread;
    return ledger.steady();
  };
  EXPECT_TRUE(steady(5, 10, 0.5));
  EXPECT_FALSE(steady(5, 10, 0.5001));
  EXPECT_TRUE(steady(9.5, 10, 0.2));
  EXPECT_FALSE(steady(9.5, 10, 0.2001));
  EXPECT_TRUE(steady(10, 5, 0.5)) << "a negative gap";
}

// Every figure of the text is that of the JSON, rounded.
TEST(TimeLedger, ThreeStepsOfACauseAreNamed) {
  TimeLedger ledger;
  ledger.causes = {{.code = "three", .steps = {"c1", "c2", "c3"}},
                   {.code = "five", .steps = {"d1", "d2", "d3", "d4", "d5"}}};
  const std::string text = ToText(ledger);
  EXPECT_NE(text.find("3  c1, c2, c3\n"), std::string::npos) << text;
  EXPECT_NE(text.find("5  d1, d2, d3, ... 2 more\n"), std::string::npos) << text;
}

TEST(TimeLedger, TextAndJsonSayTheSame) {
  MadeRun real = FloatRun(), quantized = QuantizedRun();
  for (int part = 0; part < 8; ++part) {
    AddPart(real, 0, "");
    AddPart(quantized, part % 2 == 0 ? 1 : -1, "c2");
  }
  TimeLedger ledger = BuildTimeLedger(real.run(), quantized.run(), {}, SomeLimits());
  ledger.unexplained_ms = 0.125;
  const nlohmann::json out = ToJson(ledger);
  const std::string text = ToText(ledger);
  const auto ms = [&](const char* key) { return out[key].get<double>(); };
  EXPECT_NE(
      text.find(fmt::format("float {:.3f} ms -> ideal {:.3f} ms -> attainable {:.3f} ms -> "
                            "measured {:.3f} ms ({:.2f}x of {:.2f}x",
                            ms("float_ms"), ms("ideal_ms"), ms("attainable_ms"), ms("actual_ms"),
                            ms("float_ms") / ms("actual_ms"), ms("float_ms") / ms("ideal_ms"))),
      std::string::npos)
      << text;
  EXPECT_NE(
      text.find(fmt::format("the machine is busy: {:.3f} ms over ideal are known to {:.4f} ms only",
                            ms("actual_ms") - ms("ideal_ms"), ms("gap_spread_ms"))),
      std::string::npos)
      << text;
  ASSERT_EQ(out["causes"].size(), 6u);
  for (const nlohmann::json& c : out["causes"]) {
    const std::string code = c["code"];
    // "+1.4000  0.8938  <gain>  code  2  c1, c2": the line that holds the code.
    const size_t at = text.find(code);
    ASSERT_NE(at, std::string::npos);
    const std::string line =
        text.substr(text.rfind('\n', at) + 1, text.find('\n', at) - text.rfind('\n', at) - 1);
    EXPECT_NE(line.find(fmt::format("{:+.4f}", c["ms"].get<double>())), std::string::npos) << line;
    if (c["spread_ms"].is_null()) {
      EXPECT_NE(code, "kernel-below-ideal");
    } else {
      EXPECT_NE(line.find(fmt::format("  {:.4f}  ", c["spread_ms"].get<double>())),
                std::string::npos)
          << line;
    }
    if (c["gain_ms"] > 0)
      EXPECT_NE(line.find(fmt::format("{:.4f}  {}", c["gain_ms"].get<double>(), code)),
                std::string::npos)
          << line;
    if (!c["steps"].empty())
      EXPECT_NE(
          line.find(fmt::format("{}  {}", c["steps"].size(), c["steps"][0].get<std::string>())),
          std::string::npos)
          << line;
    EXPECT_NE(text.find(fmt::format("\n{}: {}", code, c["sentence"].get<std::string>())),
              std::string::npos);
  }
  EXPECT_NE(text.find("+0.1250"), std::string::npos);
  EXPECT_EQ(out["unexplained_ms"], 0.125);
  EXPECT_TRUE(ToJson(TimeLedger())["gap_spread_ms"].is_null()) << "0 would be a figure";
}

}  // namespace
}  // namespace evoq
