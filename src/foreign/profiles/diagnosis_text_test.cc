// What is said of another runtime's runs that are made up by hand: text and JSON, figure by figure.
#include "foreign/profiles/diagnosis_text.h"

#include <gtest/gtest.h>

#include "base/text.h"

namespace evoq {
namespace {

using nlohmann::json;

ForeignLayer LayerOf(const char* name, double ms, LayerGroup group, const char* precision = "int8",
                     Conversion conversion = Conversion::kNone) {
  ForeignLayer layer;
  layer.name = name;
  layer.ms = ms;
  layer.group = group;
  layer.precision = precision;
  layer.conversion = conversion;
  return layer;
}

// 0.8 ms of layers, 0.5 end to end: a convolution of 0.4, one that is left in float of 0.2, Q/DQ of
// 0.0625 and 0.1375.
ForeignRun Quantized() {
  ForeignRun run;
  run.tool = "trtexec";
  run.path = "qat";
  run.device = "L4";
  run.detailed = true;
  run.end_to_end_ms = 0.5;
  run.layers = {LayerOf("conv1", 0.4, LayerGroup::kConv),
                LayerOf("conv2", 0.2, LayerGroup::kConv, "fp32"),
                LayerOf("q", 0.0625, LayerGroup::kReformatQdq, "fp32", Conversion::kQuantize),
                LayerOf("dq", 0.1375, LayerGroup::kReformatQdq, "int8", Conversion::kDequantize)};
  run.layers[0].weight_bytes = 3'000'000;
  run.layers[0].weight_count = 10, run.layers[1].weight_count = 20;
  Summarize(run);
  return run;
}

// 1.2 ms of layers, nothing known of whole runs.
ForeignRun Baseline() {
  ForeignRun run;
  run.tool = "trtexec";
  run.path = "fp32";
  run.detailed = true;
  run.layers = {LayerOf("conv1", 0.8, LayerGroup::kConv, "fp32"),
                LayerOf("conv2", 0.3, LayerGroup::kConv, "fp16"),
                LayerOf("pool", 0.1, LayerGroup::kPooling, "fp32")};
  run.layers[0].weight_count = 10, run.layers[1].weight_count = 20;
  Summarize(run);
  return run;
}

TEST(DiagnosisText, OneRunByHand) {
  const ForeignRun run = Quantized();
  const Diagnosis diagnosis = Diagnose(run, nullptr);
  // Both conversions, 0.2 ms in sum; three quarters of conv2.
  const json out = ToJson(run, nullptr, diagnosis);
  ASSERT_EQ(out["findings"].size(), 2u);
  EXPECT_EQ(out["findings"][0]["code"], "unfused-qdq");
  EXPECT_NEAR(out["findings"][0]["ms"], 0.2, 1e-12);
  EXPECT_EQ(out["findings"][0]["layers"], (json{"q", "dq"}));
  EXPECT_EQ(out["findings"][1]["code"], "stays-float");
  EXPECT_NEAR(out["findings"][1]["ms"], 0.15, 1e-12);
  EXPECT_EQ(out["end_to_end_ms"], 0.5);
  EXPECT_NEAR(out["layer_sum_ms"], 0.8, 1e-12);
  EXPECT_EQ(out["layers"], 4);
  EXPECT_EQ(out["weight_bytes"], 3'000'000);
  EXPECT_NEAR(out["groups"]["conv"], 0.6, 1e-12);
  EXPECT_NEAR(out["groups"]["reformat_qdq"], 0.2, 1e-12);
  EXPECT_EQ(out["groups"]["pooling"], 0);
  for (const char* with_baseline : {"baseline", "delta", "time"})
    EXPECT_FALSE(out.contains(with_baseline));
  const std::string text = ToText(run, nullptr, diagnosis);
  EXPECT_EQ(text.rfind("run: trtexec of qat on L4: 0.5000 ms end to end, 4 layers, 0.8000 ms in "
                       "sum (the profiler's own cost is 0.3000 ms of it), weights 3.00 MB\n",
                       0),
            0u)
      << text;
  EXPECT_NE(text.find("conv          0.600  75.0%\nreformat_qdq  0.200  25.0%\n"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("ms lost  layers  cause        where\n  0.200       2  unfused-qdq  q, dq\n  "
                      "0.150       1  stays-float  conv2\n"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("fix (0.200 ms): "), std::string::npos) << text;
}

// The layers that take most, with what the same ones take in the baseline; all of them in the JSON.
TEST(DiagnosisText, SlowestLayers) {
  ForeignRun run = Quantized();
  for (int i = 0; i < 9; ++i)
    run.layers.push_back(
        LayerOf(fmt::format("p{}", i).c_str(), 0.001, LayerGroup::kPooling, "fp32"));
  Summarize(run);
  const ForeignRun baseline = Baseline();
  const std::string alone = ToText(run, nullptr, Diagnose(run, nullptr));
  EXPECT_NE(alone.find("   ms  share  precision  type  slowest layers\n"
                       "0.400  49.4%  int8             conv1\n"
                       "0.200  24.7%  fp32             conv2\n"
                       "0.138  17.0%  int8             dq\n"),
            std::string::npos)
      << alone;
  EXPECT_EQ(alone.find("p4\n"), std::string::npos) << "eight of them";
  EXPECT_NE(alone.find("p3\n"), std::string::npos);
  const std::string text = ToText(run, &baseline, Diagnose(run, &baseline));
  EXPECT_NE(text.find("0.400  49.4%        0.800  int8             conv1\n"), std::string::npos)
      << text;
  const json out = ToJson(run, &baseline, Diagnose(run, &baseline));
  ASSERT_EQ(out["layer_times"].size(), 13u);
  EXPECT_EQ(out["layer_times"][0], (json{{"name", "conv1"},
                                         {"type", ""},
                                         {"group", "conv"},
                                         {"precision", "int8"},
                                         {"kernel", ""},
                                         {"ms", 0.4},
                                         {"baseline_ms", 0.8}}));
  EXPECT_TRUE(out["layer_times"][3]["baseline_ms"].is_null());
}

// Of OpenVINO's two files one tells more.
TEST(DiagnosisText, TheFileThatTellsMore) {
  ForeignRun run = Quantized();
  for (const auto& [tool, told] :
       {std::pair{"benchmark_app", true}, {"openvino", false}, {"trtexec", false}}) {
    run.tool = tool;
    EXPECT_EQ(ToText(run, nullptr, Diagnose(run, nullptr)).find("-exec_graph_path tells more") !=
                  std::string::npos,
              told)
        << tool;
  }
}

// Layers and runs that one profiler saw do not differ by what it costs.
TEST(DiagnosisText, WhyLayersExceedTheRun) {
  for (const auto& [tool, reason] : std::vector<std::pair<const char*, const char*>>{
           {"benchmark_app", "what slow runs, as the first one, add to the means"},
           {"trtexec", "the profiler's own cost"}}) {
    ForeignRun run = Baseline();
    run.end_to_end_ms = 1, run.tool = tool, run.excess = reason;
    EXPECT_NE(ToText(run, nullptr, Diagnose(run, nullptr))
                  .find(std::string("1.200 ms in sum (") + reason + " is 0.2000 ms of it)\n"),
              std::string::npos);
  }
}

TEST(DiagnosisText, WhatIsNotKnownIsNull) {
  const ForeignRun run = Baseline();
  const json out = ToJson(run, nullptr, Diagnose(run, nullptr));
  EXPECT_TRUE(out["end_to_end_ms"].is_null());
  EXPECT_TRUE(out["weight_bytes"].is_null());
  EXPECT_NEAR(out["layer_sum_ms"], 1.2, 1e-12);
  const std::string text = ToText(run, nullptr, Diagnose(run, nullptr));
  EXPECT_EQ(text.rfind("run: trtexec of fp32: 3 layers, 1.200 ms in sum\n", 0), 0u) << text;
  EXPECT_NE(text.find("no known fault found\n"), std::string::npos) << text;
  EXPECT_EQ(text.find("names of layers"), std::string::npos) << text;
  ForeignRun names = run;
  names.detailed = false;
  EXPECT_NE(ToText(names, nullptr, {}).find("only names of layers are known"), std::string::npos);
  // The change of two runs of which one is not known is not known either.
  const ForeignRun quantized = Quantized();
  EXPECT_TRUE(
      ToJson(quantized, &run, Diagnose(quantized, &run))["delta"]["end_to_end_ms"].is_null());
}

// Ideal: 0.8 / 4 + 0.3 / 2 + 0.1 / 4 = 0.375. Lost: 0.2 of conversions, 0.15 of conv2. The rest,
// 0.8 - 0.35 - 0.375, is below ideal.
TEST(DiagnosisText, AgainstABaselineByHand) {
  const ForeignRun run = Quantized();
  ForeignRun before = Baseline();
  before.end_to_end_ms = 0.75;
  const Diagnosis diagnosis = Diagnose(run, &before);
  const json out = ToJson(run, &before, diagnosis);
  EXPECT_NEAR(out["delta"]["conv"], 0.6 - 1.1, 1e-12);
  EXPECT_NEAR(out["delta"]["reformat_qdq"], 0.2, 1e-12);
  EXPECT_NEAR(out["delta"]["pooling"], -0.1, 1e-12);
  EXPECT_NEAR(out["delta"]["layer_sum_ms"], -0.4, 1e-12);
  EXPECT_NEAR(out["delta"]["end_to_end_ms"], -0.25, 1e-12);
  EXPECT_EQ(out["baseline"]["path"], "fp32");
  EXPECT_NEAR(out["baseline"]["groups"]["conv"], 1.1, 1e-12);
  const json& time = out["time"];
  EXPECT_NEAR(time["float_ms"], 1.2, 1e-12);
  EXPECT_NEAR(time["ideal_ms"], 0.375, 1e-12);
  EXPECT_NEAR(time["actual_ms"], 0.8, 1e-12);
  EXPECT_NEAR(time["unexplained_ms"], 0, 1e-12);
  ASSERT_EQ(time["causes"].size(), 3u);
  EXPECT_EQ(time["causes"][2]["code"], "kernel-below-ideal");
  EXPECT_NEAR(time["causes"][2]["ms"], 0.075, 1e-12);
  EXPECT_EQ(time["causes"][0]["steps"], (json{"q", "dq"}));
  const std::string text = ToText(run, &before, diagnosis);
  EXPECT_NE(text.find("baseline: trtexec of fp32: 0.7500 ms end to end"), std::string::npos)
      << text;
  EXPECT_NE(text.find("\nthis run: trtexec of qat on L4: 0.5000 ms"), std::string::npos) << text;
  EXPECT_NE(text.find("\n1.50x faster than the baseline\n"), std::string::npos) << "0.75 / 0.5\n"
                                                                                << text;
  EXPECT_NE(text.find("conv                 1.100  0.600    -0.500\n"), std::string::npos) << text;
  EXPECT_NE(text.find("sum of layers        1.200  0.800    -0.400\n"), std::string::npos) << text;
  EXPECT_NE(ToText(before, &run, Diagnose(before, &run)).find("\n50.0% slower than the baseline\n"),
            std::string::npos);
}

TEST(DiagnosisText, ADoubtAccusesNobody) {
  ForeignRun run = Quantized(), before = Baseline();
  run.layers.erase(run.layers.begin() + 1, run.layers.end());
  for (ForeignRun* r : {&run, &before}) {
    for (ForeignLayer& layer : r->layers) layer.outputs = {{"", {1, 2}, "", ""}};
  }
  run.layers[0].kernel = {3, 3}, run.layers[0].weight_count = 9;
  before.layers[1].kernel = {1, 1}, before.layers[1].weight_count = 1;
  const Diagnosis diagnosis = Diagnose(run, &before);
  const std::string text = ToText(run, &before, diagnosis);
  EXPECT_NE(text.find("      ?       1  int8-layer-unpaired  conv1\n"), std::string::npos) << text;
  EXPECT_EQ(text.find("fix ("), std::string::npos) << text;
  const json out = ToJson(run, &before, diagnosis);
  EXPECT_EQ(out["findings"][0]["ms"], 0);
  for (const json& cause : out["time"]["causes"]) EXPECT_NE(cause["code"], "int8-layer-unpaired");
}

TEST(DiagnosisText, LongListsAreCut) {
  ForeignRun run = Quantized();
  run.layers.clear();
  for (int i = 0; i < 6; ++i)
    run.layers.push_back(LayerOf(fmt::format("{}{}", i, std::string(47 + i % 3, 'x')).c_str(), 0.01,
                                 LayerGroup::kReformatQdq, "fp32", Conversion::kDequantize));
  Summarize(run);
  const std::string text = ToText(run, nullptr, Diagnose(run, nullptr));
  const std::string whole = "0" + std::string(47, 'x'), cut = "1" + std::string(44, 'x') + "...";
  EXPECT_NE(text.find(whole + ", " + cut + ", "), std::string::npos)
      << "48 characters are shown, of more 45\n"
      << text;
  EXPECT_NE(text.find(" and 2 more\n"), std::string::npos) << text;
  run.layers.resize(4);
  EXPECT_EQ(ToText(run, nullptr, Diagnose(run, nullptr)).find(" more\n"), std::string::npos)
      << "four are shown";
  run.layers[0].name = std::string(44, 'x') + "\xc3\xa9" + std::string(9, 'x');
  EXPECT_NE(ToText(run, nullptr, Diagnose(run, nullptr)).find(std::string(44, 'x') + "..., "),
            std::string::npos)
      << "cut between characters";
}

}  // namespace
}  // namespace evoq
