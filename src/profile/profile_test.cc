#include <gtest/gtest.h>

#include "profile/limits.h"
#include "profile/measure.h"

namespace evoq {
namespace {

TEST(Limits, EveryInstructionSetIsMeasured) {
  for (Isa isa : {Isa::kScalar, Isa::kAvx2, Isa::kAvx512}) {
    if (!IsaSupported(isa)) continue;
    const Limits limits = MeasureLimits(isa, 1);
    EXPECT_GT(limits.int8_gops, 0.1) << IsaName(isa);
    EXPECT_GT(limits.fp32_gflops, 0.1) << IsaName(isa);
    EXPECT_GT(limits.dram_read_gbps, 0.1) << IsaName(isa);
    EXPECT_GT(limits.l3_read_gbps, 0.1) << IsaName(isa);
    EXPECT_EQ(limits.bf16_gflops > 0, isa == Isa::kAvx512 && HasBf16()) << IsaName(isa);
  }
}

TEST(Limits, RooflineIsTheLargerOfArithmeticAndMemory) {
  Limits limits;
  limits.int8_gops = 100;
  limits.fp32_gflops = 10;
  limits.l3_read_gbps = 50;
  limits.dram_read_gbps = 5;
  EXPECT_DOUBLE_EQ(RooflineNs(limits, Peak::kInt8, 1000, 100), 20);
  EXPECT_DOUBLE_EQ(RooflineNs(limits, Peak::kFloat32, 1000, 100), 200);
  EXPECT_DOUBLE_EQ(RooflineNs(limits, Peak::kInt8, 10, 5000), 100);
  EXPECT_DOUBLE_EQ(RooflineNs(limits, Peak::kMemory, 1 << 30, 50), 1) << "moving bytes has no arithmetic limit";
  EXPECT_DOUBLE_EQ(RooflineNs(limits, Peak::kMemory, 0, int64_t{1} << 30), static_cast<double>(int64_t{1} << 30) / 5);
}

TEST(RunTimes, PercentilesInterpolate) {
  RunTimes times{{1, 2, 3, 4, 10}};
  EXPECT_DOUBLE_EQ(times.median(), 3);
  EXPECT_DOUBLE_EQ(times.Percentile(0), 1);
  EXPECT_DOUBLE_EQ(times.Percentile(100), 10);
  EXPECT_DOUBLE_EQ(times.Percentile(90), 7.6);
  EXPECT_DOUBLE_EQ(times.mean(), 4);
}

}  // namespace
}  // namespace evoq
