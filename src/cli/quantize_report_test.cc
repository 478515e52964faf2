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
      "c: %a: float32[1, 2, 2, 2] = Conv(%x, %w)\n{}d: %y = Conv{{pads=[1, 1, 1, 1]}}(%b, %w)\n"
      "output %y\n",
      fmt::join(w, ", "), middle);
}

// A step that is counted as float has a reason, whoever decided on it.
TEST_F(QuantizeReportTest, EveryFloatStepHasAReason) {
  const std::string model = Model(
      "gather.onnx", Between("const %i: int64[1, 2, 2, 2] = [0, 1, 0, 1, 0, 1, 0, 1]\n"
                             "g: %b: float32[1, 2, 2, 2] = GatherElements{axis=3}(%a, %i)\n"));
  const auto out = Json({"quantize", model, "--calib-random", "2", "-o", At("g.etm")});
  EXPECT_EQ(out["steps_float"], 1);
  ASSERT_EQ(out["float_reasons"].size(), 1) << out["float_reasons"];
  EXPECT_NE(out["float_reasons"]["g"].get<std::string>().find("reference evaluator"),
            std::string::npos);
}

}  // namespace
}  // namespace evoq
