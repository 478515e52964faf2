// Why steps do not gain, and what a forecast says, on forecasts made up by hand.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/text.h"
#include "predict/predict.h"
#include "predict/test_forecast.h"

namespace evoq {
namespace {

StepForecast StepOf(const char* name, const char* op, double ms, const char* kernel = "quick",
                    const KernelPlan& plan = {}) {
  StepForecast s;
  s.name = name, s.op = op, s.kernel = kernel, s.plan = plan, s.ms = ms;
  s.family = AllCostFamilies().back();
  s.weighed[kArithmetic] = 100;  // nothing stands out
  return s;
}

// Steps of a scheme and of float32 by name, without decisions but for those that `why` names.
struct Case {
  SchemeForecast float32, scheme;
  Program program;

  void Add(StepForecast now, double float_ms, const char* code = "",
           const KernelPlan& float_plan = {}, const char* float_kernel = "slow") {
    if (float_ms >= 0)
      float32.step_list.push_back(
          StepOf(now.name.c_str(), now.op.c_str(), float_ms, float_kernel, float_plan));
    Step step;
    step.decision.float_reason.code = code;
    step.decision.float_reason.sentence = std::string("why ") + code;
    program.steps.push_back(step);
    scheme.step_list.push_back(std::move(now));
  }
  const std::vector<Hindrance>& Found() {
    scheme.hindrances.clear();
    FindHindrances(float32, program, MachineLimits(), scheme);
    return scheme.hindrances;
  }
};

TEST(Hindrances, ByHand) {
  Case c;
  c.Add(StepOf("gains", "Conv", 0.9), 1);
  c.Add(StepOf("q1", "QuantizeLinear", 0.25), -1);
  c.Add(StepOf("q2", "DequantizeLinear", 0.5), -1);
  c.Add(StepOf("t", "Transpose", 0.125), -1);
  c.Add(StepOf("table", "Lookup", 0.0625), -1);
  c.Add(StepOf("stays", "Tanh", 2, "same"), 2, "no-int8-kernel", {}, "same");
  c.Add(StepOf("same", "Relu", 3, "same"), 3, "", {}, "same");
  c.Add(StepOf("turn", "Transpose", 0.5, "same"), 0.5, "", {}, "same");  // float32 has it too
  c.Add(StepOf("wino", "Conv", 5), 4, "", Tiled(14, 32, "winograd 4x4"));
  c.Add(StepOf("other", "Conv", 0.3), 0.2);
  const auto& found = c.Found();
  struct Expected {
    const char* code;
    double ms, lost_ms;
    std::vector<std::string> steps;
  };
  // The costliest first: by what they take, not by what they lose.
  const std::vector<Expected> expected = {
      {"winograd", 5, 1, {"wino"}},        {"same-kernel", 3.5, 0, {"same", "turn"}},
      {"no-int8-kernel", 2, 0, {"stays"}}, {"conversion", 0.875, 0.875, {"q1", "q2", "t"}},
      {"kernel", 0.3, 0.1, {"other"}},     {"added-step", 0.0625, 0.0625, {"table"}}};
  ASSERT_EQ(found.size(), expected.size());
  for (size_t i = 0; i < found.size(); ++i) {
    EXPECT_EQ(found[i].code, expected[i].code);
    EXPECT_NEAR(found[i].ms, expected[i].ms, 1e-12) << found[i].code;
    EXPECT_NEAR(found[i].lost_ms, expected[i].lost_ms, 1e-12) << found[i].code;
    EXPECT_EQ(found[i].steps, expected[i].steps) << found[i].code;
    EXPECT_FALSE(found[i].sentence.empty()) << found[i].code;
  }
  EXPECT_EQ(found[2].sentence, "why no-int8-kernel");
}

// A step gains where it takes less than 95% of float32's time.
TEST(Hindrances, AStepGainsBelow95Percent) {
  Case gains, hindered;
  gains.Add(StepOf("s", "Conv", 0.949), 1);
  EXPECT_TRUE(gains.Found().empty());
  hindered.Add(StepOf("s", "Conv", 0.951), 1);
  ASSERT_EQ(hindered.Found().size(), 1u);
  EXPECT_NEAR(hindered.Found()[0].lost_ms, -0.049, 1e-12);
}

// What takes most of a step's time is its reason: calls and tiles above 40%, memory above half,
// rows and rounding above half; each on both sides of its limit, with what its parts are together.
TEST(Hindrances, ByWhatTakesTheTime) {
  const auto code = [](std::initializer_list<std::pair<Term, double>> terms) {
    Case c;
    StepForecast s = StepOf("s", "Conv", 2);
    s.weighed = {};
    double sum = 0;
    for (const auto& [term, ns] : terms) s.weighed[term] = ns, sum += ns;
    s.weighed[kArithmetic] = 100 - sum;
    c.Add(s, 1);
    return c.Found().at(0).code;
  };
  EXPECT_EQ(code({{kCall, 21}, {kTiles, 20}}), "fixed-cost");
  EXPECT_EQ(code({{kCall, 20}, {kTiles, 20}}), "kernel");
  EXPECT_EQ(code({{kStream, 26}, {kWeights, 25}}), "memory-bound");
  EXPECT_EQ(code({{kStream, 25}, {kWeights, 25}}), "kernel");
  EXPECT_EQ(code({{kRows, 11}, {kEdges, 10}, {kCopies, 10}, {kFeed, 10}, {kOutputs, 10}}),
            "narrow");
  EXPECT_EQ(code({{kRows, 10}, {kEdges, 10}, {kCopies, 10}, {kFeed, 10}, {kOutputs, 10}}),
            "kernel");
  EXPECT_EQ(code({{kCall, 41}, {kStream, 59}}), "fixed-cost") << "the first reason that holds";
}

TEST(Payoff, WithinFivePercentIsTheSame) {
  EXPECT_EQ(PayoffOf(1.051), Payoff::kFaster);
  EXPECT_EQ(PayoffOf(1.049), Payoff::kSame);
  EXPECT_EQ(PayoffOf(0.953), Payoff::kSame) << "1 / 1.05 is 0.9524";
  EXPECT_EQ(PayoffOf(0.952), Payoff::kSlower);
  EXPECT_STREQ(PayoffName(Payoff::kFaster), "faster");
  EXPECT_STREQ(PayoffName(Payoff::kSame), "same");
  EXPECT_STREQ(PayoffName(Payoff::kSlower), "slower");
}

Forecast MadeForecast() {
  Forecast f;
  f.model = "m.onnx";
  f.limits.cpu = "a machine", f.limits.core = "some cores";
  f.limits.isa = Isa::kAvx512;
  f.constants = {"some cores", Isa::kAvx512};
  f.limits.threads = 2;
  f.float_weight_bytes = 4000;
  SchemeForecast float32;
  float32.scheme = "float32";
  float32.file_bytes = 4321;
  float32.ms = 0.0625, float32.low_ms = 0.05, float32.high_ms = 0.078125;
  SchemeForecast int8;
  int8.scheme = "int8";
  int8.file_bytes = 1234, int8.weight_bytes = 1000, int8.arena_bytes = 500;
  int8.steps.Add(Precision::kInt8, 3), int8.steps.Add(Precision::kBf16, 2);
  int8.steps.Add(Precision::kFloat32, 1);
  int8.ms = 0.02, int8.low_ms = 0.016, int8.high_ms = 0.025, int8.speedup = 3.125,
  int8.payoff = Payoff::kFaster;
  StepForecast step = StepOf("c1", "Conv", 0.02, "conv_int8", Tiled(14, 32));
  step.precision = Precision::kInt8, step.shape = "[1, 2]", step.cut = {0.5, 1};
  step.terms[kRows] = 7;
  int8.step_list = {step};
  int8.hindrances = {{"conversion", "they convert", {"a", "b", "c", "d"}, 0.005, 0.005},
                     {"kernel", "not faster", {"e"}, 0.0004, 0.0001},
                     {"small", "nothing", {"f"}, 0.00039, 0.0001}};
  f.schemes = {float32, int8, {.scheme = "bf16", .unavailable = "no reason"}};
  return f;
}

std::string LineOf(const std::string& text, const std::string& begin) {
  const size_t at = text.find("\n" + begin);
  return at == std::string::npos ? "" : text.substr(at + 1, text.find('\n', at + 1) - at - 1);
}

TEST(Forecast, TextByHand) {
  const std::string text = ToText(MadeForecast());
  EXPECT_EQ(text.rfind("m.onnx: forecast for AVX512 on a machine, 2 threads; nothing was run\n", 0),
            0u)
      << text;
  EXPECT_EQ(LineOf(text, "  float32 "),
            "  float32            4.3 kB  0.06250 (0.05000 to 0.07812)  ")
      << text;
  EXPECT_EQ(LineOf(text, "  int8 "),
            "  int8               1.2 kB  0.02000 (0.01600 to 0.02500)  3.12x")
      << text;
  EXPECT_EQ(LineOf(text, "  bf16 "), "  bf16           not available: no reason") << text;
  // Of 0.02 ms: 25% and 2%; what is below 2% is not told.
  EXPECT_NE(text.find("  int8: will not gain:\n      25%  4 steps (a, b, c, ...): conversion: they "
                      "convert\n       2%  1 step (e): kernel: not faster\n"),
            std::string::npos)
      << text;
  EXPECT_EQ(text.find("nothing\n"), std::string::npos) << text;
  EXPECT_EQ(text.find("constants"), std::string::npos) << text;
  Forecast slower = MadeForecast();
  slower.schemes[1].payoff = Payoff::kSlower, slower.schemes[1].speedup = 0.5;
  EXPECT_NE(ToText(slower).find("0.50x  will be slower"), std::string::npos);
  slower.schemes[1].payoff = Payoff::kSame, slower.schemes[1].speedup = 1.01;
  EXPECT_NE(ToText(slower).find("1.01x  no faster"), std::string::npos);
  // A long name moves all rows.
  Forecast longer = MadeForecast();
  longer.schemes[1].scheme = "int8-of-a-long-name";
  EXPECT_EQ(LineOf(ToText(longer), "  float32 "),
            "  float32                 4.3 kB  0.06250 (0.05000 to 0.07812)  ");
  EXPECT_EQ(LineOf(ToText(longer), "  int8-of-a-long-name "),
            "  int8-of-a-long-name     1.2 kB  0.02000 (0.01600 to 0.02500)  3.12x");
  // Its steps were found by running it; what its file says of that acts on no terminal.
  Forecast dynamic = MadeForecast();
  dynamic.in_partitions = "NonZero \x1b[2J";
  EXPECT_EQ(
      ToText(dynamic).rfind("m.onnx: forecast for AVX512 on a machine, 2 threads; run to find "
                            "its steps (NonZero \\u001b[2J)\n",
                            0),
      0u)
      << ToText(dynamic);
  // Measured: the forecast is 25% above 0.05, and 20% below 0.025 ms.
  Forecast checked = MadeForecast();
  checked.schemes[0].measured_ms = 0.05;
  checked.schemes[1].measured_ms = 0.025;
  const std::string off = ToText(checked);
  EXPECT_EQ(off.rfind("m.onnx: forecast and measurement for AVX512 on a machine, 2 threads\n", 0),
            0u)
      << off;
  EXPECT_NE(LineOf(off, "  float32 ").find("0.0500    +25%"), std::string::npos) << off;
  EXPECT_NE(LineOf(off, "  int8 ").find("0.0250    -20%"), std::string::npos) << off;
}

// Every figure of the text is the JSON's, and the JSON's are the forecast's.
TEST(Forecast, JsonByHand) {
  const Forecast f = MadeForecast();
  const nlohmann::json out = ToJson(f);
  EXPECT_EQ(out["model"], "m.onnx");
  EXPECT_EQ(out["threads"], 2);
  EXPECT_EQ(out["float_weight_bytes"], 4000);
  EXPECT_EQ(out["schemes"][2], (nlohmann::json{{"scheme", "bf16"}, {"unavailable", "no reason"}}));
  const nlohmann::json& int8 = out["schemes"][1];
  const std::map<std::string, double> figures = {
      {"file_bytes", 1234}, {"weight_bytes", 1000}, {"arena_bytes", 500}, {"steps_total", 6},
      {"steps_int8", 3},    {"steps_bf16", 2},      {"steps_float", 1},   {"ms", 0.02},
      {"low_ms", 0.016},    {"high_ms", 0.025},     {"speedup", 3.125}};
  for (const auto& [key, value] : figures) EXPECT_EQ(int8[key], value) << key;
  EXPECT_EQ(int8["payoff"], "faster");
  EXPECT_NEAR(int8["speedup"].get<double>(),
              out["schemes"][0]["ms"].get<double>() / int8["ms"].get<double>(), 1e-12)
      << "the ratio of both times";
  EXPECT_FALSE(int8.contains("measured_ms")) << "nothing was run";
  ASSERT_EQ(int8["hindrances"].size(), 3u);
  EXPECT_EQ(int8["hindrances"][1], (nlohmann::json{{"code", "kernel"},
                                                   {"sentence", "not faster"},
                                                   {"steps", {"e"}},
                                                   {"ms", 0.0004},
                                                   {"lost_ms", 0.0001}}));
  const nlohmann::json& step = int8["steps"][0];
  EXPECT_EQ(step["ms"], 0.02);
  EXPECT_EQ(step["share"], 0.5);
  EXPECT_EQ(step["loops"], 1);
  EXPECT_EQ(step["kernel"], "conv_int8");
  EXPECT_EQ(step["terms_ns"], (nlohmann::json{{"rows", 7.0}}));
  EXPECT_FALSE(step.contains("measured_ms"));
  Forecast checked = f;
  checked.schemes[1].measured_ms = 0.025, checked.schemes[1].machine_share = 0.97,
  checked.schemes[1].step_list[0].measured_ms = 0.021;
  EXPECT_EQ(ToJson(checked)["schemes"][1]["measured_ms"], 0.025);
  EXPECT_EQ(ToJson(checked)["schemes"][1]["machine_share"], 0.97);
  EXPECT_EQ(ToJson(checked)["schemes"][1]["steps"][0]["measured_ms"], 0.021);
}

}  // namespace
}  // namespace evoq
