// The files in trtexec's layouts, field by field.
#include "foreign/profiles/trtexec_export.h"

#include <gtest/gtest.h>

#include "foreign/profiles/trtexec_log.h"
#include "report/test_program.h"

namespace evoq {
namespace {

using nlohmann::json;

TEST(TrtexecExport, Times) {
  RunTimes times;
  times.spans = {{0, 2.5}, {3, 2.25}};
  const json out = TimesAsTrtexec(times);
  ASSERT_EQ(out.size(), 2u);
  EXPECT_EQ(out[1], (json{{"startEnqMs", 3.0},
                          {"endEnqMs", 5.25},
                          {"startH2dMs", 3.0},
                          {"endH2dMs", 3.0},
                          {"startComputeMs", 3.0},
                          {"endComputeMs", 5.25},
                          {"startD2hMs", 5.25},
                          {"endD2hMs", 5.25},
                          {"h2dMs", 0},
                          {"computeMs", 2.25},
                          {"d2hMs", 0},
                          {"latencyMs", 2.25}}));
}

// Ten runs of two steps: 0.5 and 1.5 ms in the mean, 0.4 and 1.6 in the median, a quarter and three
// quarters of the run.
StepProfile MadeProfile() {
  StepProfile profile;
  profile.runs = 10;
  profile.steps.resize(2);
  profile.steps[0].name = "a", profile.steps[0].mean_ms = 0.5, profile.steps[0].median_ms = 0.4,
  profile.steps[0].share = 0.25;
  profile.steps[1].name = "b", profile.steps[1].mean_ms = 1.5, profile.steps[1].median_ms = 1.6,
  profile.steps[1].share = 0.75;
  return profile;
}

TEST(TrtexecExport, Profile) {
  EXPECT_EQ(ProfileAsTrtexec(MadeProfile()), (json{{{"count", 10}},
                                                   {{"name", "a"},
                                                    {"timeMs", 5.0},
                                                    {"averageMs", 0.5},
                                                    {"medianMs", 0.4},
                                                    {"percentage", 25.0}},
                                                   {{"name", "b"},
                                                    {"timeMs", 15.0},
                                                    {"averageMs", 1.5},
                                                    {"medianMs", 1.6},
                                                    {"percentage", 75.0}}}));
  EXPECT_EQ(ProfileText(MadeProfile()),
            "=== Profile (10 iterations ) ===\n"
            "Time(ms)  Avg.(ms)  Median(ms)  Time(%)  Layer\n"
            "    5.00    0.5000      0.4000     25.0  a\n"
            "   15.00    1.5000      1.6000     75.0  b\n"
            "   20.00    2.0000      2.0000    100.0  Total\n");
}

// Shares are of the times beside them, not of the calm ones; and the table is a log that is read.
TEST(TrtexecExport, SharesOfWhatIsShown) {
  StepProfile profile = MadeProfile();
  for (StepTime& step : profile.steps) step.share = 0.5;
  EXPECT_EQ(ProfileAsTrtexec(profile)[1]["percentage"], 25.0);
  EXPECT_NE(ProfileText(profile).find("75.0  b\n"), std::string::npos);
  const TrtexecLog log =
      ReadTrtexecLog("a line before\n" + ProfileText(profile) + "\none behind\n");
  EXPECT_EQ(log.fault, "");
  ASSERT_EQ(log.profile.size(), 3u);
  EXPECT_EQ(log.profile[0]["count"], 10);
  EXPECT_EQ(log.profile[2]["averageMs"], 1.5);
  for (StepTime& step : profile.steps) step.mean_ms = 0;
  EXPECT_EQ(ProfileAsTrtexec(profile)[1]["percentage"], 0);
}

TEST(TrtexecExport, Layers) {
  Program program = ProgramOf(R"(graph g
input %x: float32[1, 8]
const %w: int8[8, 4](scale 0.5, zero 0)
q: %a: uint8[1, 8](scale 0.1, zero 3) = QuantizeLinear(%x)
mm: %y: uint8[1, 4](scale 0.1, zero 3) = MatMul(%a, %w)
output %y
)",
                              {"q", "mm"});
  for (Step& step : program.steps) {
    step.decision.kernel = program.graph->node(step.node).name + "_kernel";
    step.decision.precision = Precision::kInt8;
  }
  EXPECT_EQ(LayersAsTrtexec(program, false),
            (json{{"Layers", {"q", "mm"}}, {"Bindings", {"x", "y"}}}));
  const json layers = LayersAsTrtexec(program, true)["Layers"];
  const auto tensor = [](const char* name, std::vector<int64_t> dims, const char* format) {
    return json{
        {"Name", name}, {"Location", "Host"}, {"Dimensions", dims}, {"Format/Datatype", format}};
  };
  EXPECT_EQ(
      layers[0],
      (json{{"Name", "q"},
            {"LayerType", "QuantizeLinear"},
            {"ParameterType", "QuantizeLinear"},
            {"TacticName", "q_kernel"},
            {"Precision", "int8"},
            {"Origin", "QDQ"},
            {"Inputs", json::array({tensor("x", {1, 8}, "Row major linear float32")})},
            {"Outputs", json::array({tensor("a", {1, 8}, "Row major linear uint8 quantized")})}}));
  EXPECT_EQ(layers[1]["Weights"], (json{{"Type", "int8"}, {"Count", 32}}));
  EXPECT_EQ(layers[1]["Inputs"].size(), 1u) << "constants are weights";
  EXPECT_FALSE(layers[1].contains("Origin"));
  // A value in the memory of another backend.
  const MemorySpace apart = {.name = "apart", .allocate = nullptr};
  program.placements[program.graph->FindValue("a").index] = {Placement::Kind::kArena, 0, &apart};
  const json placed = LayersAsTrtexec(program, true)["Layers"];
  EXPECT_EQ(placed[0]["Inputs"][0]["Location"], "Host");
  EXPECT_EQ(placed[0]["Outputs"][0]["Location"], "Device");
  EXPECT_EQ(placed[1]["Inputs"][0]["Location"], "Device");
  EXPECT_EQ(placed[1]["Outputs"][0]["Location"], "Host");
}

// Whatever quantizes or dequantizes, also by scales of the run; a Cast does not.
TEST(TrtexecExport, Origin) {
  const Program program = ProgramOf(R"(graph g
input %x: float32[8]
q: %a: uint8[8](scale 0.1, zero 3) = QuantizeLinear(%x)
dq: %b: float32[8] = DequantizeLinear(%a)
d: %c: uint8[8], %s: float32[], %z: uint8[] = DynamicQuantizeLinear(%b)
cast: %y: float16[8] = Cast{to=10}(%b)
output %y
output %c
)",
                                    {"q", "dq", "d", "cast"});
  const json layers = LayersAsTrtexec(program, true)["Layers"];
  for (size_t i = 0; i < 3; ++i) EXPECT_EQ(layers[i]["Origin"], "QDQ") << layers[i];
  EXPECT_FALSE(layers[3].contains("Origin"));
}

}  // namespace
}  // namespace evoq
