// What quantize says of the steps that stay float.
#include <gtest/gtest.h>

#include "cli/tiny_testing.h"

namespace evoq {
namespace {

class QuantizeReportTest : public TinyModels {};

// A convolution, `middle` from %a to %b, and another convolution.
std::string Between(const std::string& middle) {
  std::vector<float> w(36);
  for (size_t i = 0; i < w.size(); ++i) w[i] = std::sin(static_cast<float>(i));
  return fmt::format(
      "graph g\ninput %x: float32[1, 2, 4, 4]\nconst %w: float32[2, 2, 3, 3] = [{}]\n"
      "c: %a: float32[1, 2, 2, 2] = Conv(%x, %w)\n{}second: %y = Conv{{pads=[1, 1, 1, 1]}}(%b, "
      "%w)\n"
      "output %y\n",
      fmt::join(w, ", "), middle);
}

// A step that is counted as float has a reason, whoever decided on it.
TEST_F(QuantizeReportTest, EveryFloatStepHasAReason) {
  const std::string model =
      Model("reverse.onnx", Between("const %l: int64[1] = [2]\n"
                                    "g: %b: float32[1, 2, 2, 2] = ReverseSequence{batch_axis=0, "
                                    "time_axis=1}(%a, %l)\n"));
  const auto out = Json({"quantize", model, "--calib-random", "2", "-o", At("g.etm")});
  EXPECT_EQ(out["steps_float"], 1);
  ASSERT_EQ(out["float_reasons"].size(), 1) << out["float_reasons"];
  EXPECT_NE(out["float_reasons"]["g"].get<std::string>().find("reference evaluator"),
            std::string::npos);
}

// Options that select layers by name say which of their patterns name none.
TEST_F(QuantizeReportTest, PatternsThatNameNothing) {
  const std::string model = Model("two.onnx", Between("r: %b: float32[1, 2, 2, 2] = Relu(%a)\n"));
  const auto told = [&](const std::string& verb, const std::vector<std::string>& options) {
    std::vector<std::string> words = {verb, model};
    words.insert(words.end(), options.begin(), options.end());
    if (verb == "quantize") words.insert(words.end(), {"--calib-random", "2", "-o", At("t.etm")});
    if (verb == "sensitivity") words.insert(words.end(), {"--random", "2"});
    return Run(words).log;
  };
  constexpr const char* kNone = "no node of the optimized model has such a name";
  for (const char* verb : {"quantize", "sensitivity"}) {
    EXPECT_NE(told(verb, {"--exclude", "Nope*"}).find("--exclude Nope*: " + std::string(kNone)),
              std::string::npos);
    EXPECT_NE(
        told(verb, {"--exclude", "secnd"}).find(kNone + std::string("; the nearest is second")),
        std::string::npos);
    EXPECT_EQ(told(verb, {"--exclude", "second"}).find(kNone), std::string::npos);
  }
  EXPECT_NE(told("quantize", {"--weight-bits", "Nope*=4"}).find("--weight-bits Nope*: "),
            std::string::npos);
  EXPECT_NE(told("quantize", {"--activation-bits", "Nope*=4"}).find("--activation-bits Nope*: "),
            std::string::npos);
  EXPECT_EQ(told("quantize", {"--weight-bits", "4"}).find(kNone), std::string::npos);
}

}  // namespace
}  // namespace evoq
