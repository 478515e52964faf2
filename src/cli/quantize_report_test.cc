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

// Options that a scheme, an observer or the model has no use for are named.
TEST_F(QuantizeReportTest, OptionsWithoutEffect) {
  const std::string model = Model("two.onnx", Between("r: %b: float32[1, 2, 2, 2] = Relu(%a)\n"));
  const auto told = [&](const std::string& of, std::vector<std::string> options) {
    std::vector<std::string> words = {"quantize", of, "--calib-random", "2", "-o", At("t.onnx")};
    words.insert(words.end(), options.begin(), options.end());
    std::string log = Run(words).log;
    std::string effects;
    for (size_t at = 0; (at = log.find("warning: --", at)) != std::string::npos;) {
      const size_t end = log.find('\n', at);
      const std::string line = log.substr(at + 9, end - at - 9);
      if (line.find("without effect") != std::string::npos) effects += line + "\n";
      at = end;
    }
    return effects;
  };
  EXPECT_EQ(told(model, {"--percentile", "99.9"}),
            "--percentile: without effect: the observer is sqnr\n");
  EXPECT_EQ(told(model, {"--percentile", "99.9", "--observer", "percentile"}), "");
  EXPECT_EQ(told(model, {"--scheme", "int8-dynamic", "--observer", "entropy", "--signed",
                         "--symmetric", "--percentile", "3"}),
            "--observer, --signed, --symmetric: without effect: int8-dynamic has no ranges of "
            "samples\n--percentile: without effect: int8-dynamic has no ranges of samples\n");
  EXPECT_EQ(told(model, {"--block", "64"}),
            "--block: without effect: weights of int8 have no blocks\n");
  EXPECT_EQ(told(model, {"--scheme", "int4-weights", "--block", "64"}), "");
  EXPECT_EQ(told(model, {"--weight-bits", "4", "--signed", "--observer", "minmax"}), "");
  ASSERT_EQ(Run({"quantize", model, "--calib-random", "2", "-o", At("q.onnx")}).code, 0);
  EXPECT_EQ(told(At("q.onnx"), {"--weight-bits", "4", "--method", "gptq", "--exclude", "second"}),
            "--weight-bits, --method, --exclude: without effect: 2 layers compute with integers in "
            "the model already and stay as they are\n");
  EXPECT_EQ(told(At("q.onnx"), {}), "");
}

// Ranges that suit none of the samples are seen in the outputs of a few of them.
TEST_F(QuantizeReportTest, OutputsThatLoseMuch) {
  const std::string model = Model("two.onnx", Between("r: %b: float32[1, 2, 2, 2] = Relu(%a)\n"));
  const auto told = [&](float last) {
    std::vector<float> x(6 * 32);
    for (size_t i = 0; i < x.size(); ++i) x[i] = std::cos(static_cast<float>(i));
    x.back() = last;
    const std::string data = Values("x.npy", Shape{6, 2, 4, 4}, x);
    return Run({"quantize", model, "--calib", data, "--observer", "minmax", "-o", At("t.etm")}).log;
  };
  EXPECT_EQ(told(1).find("signal to noise"), std::string::npos);
  const std::string log = told(1e5);
  EXPECT_NE(log.find("on 4 of the calibration samples"), std::string::npos) << log;
  EXPECT_NE(log.find("warning: output y keeps "), std::string::npos) << log;
}

// What stays float32 gets no scale, whatever its range.
TEST_F(QuantizeReportTest, DeadValuesThatStayFloat) {
  const std::string model =
      Model("dead.onnx", Between("const %axis: int64[] = [3]\nconst %from: int64[2] = [0, 0]\n"
                                 "const %to: int64[2] = [2, 2]\nconst %axes: int64[2] = [2, 3]\n"
                                 "z: %z: float32[1, 2, 4, 4] = CumSum(%x, %axis)\n"
                                 "k: %k: float32[1, 2, 4, 4] = Sub(%z, %z)\n"
                                 "s: %s: float32[1, 2, 2, 2] = Slice(%k, %from, %to, %axes)\n"
                                 "r: %b: float32[1, 2, 2, 2] = Max(%a, %s)\n"));
  const auto out = Json({"quantize", model, "--calib-random", "3", "-o", At("t.etm")});
  for (const auto& warning : out["warnings"])
    EXPECT_EQ(warning.get<std::string>().find("dead"), std::string::npos) << warning;
}

}  // namespace
}  // namespace evoq
