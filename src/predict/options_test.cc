// What a forecast tells beside times, and what it needs.
#include <gtest/gtest.h>

#include "models/models.h"
#include "predict/predict.h"
#include "predict/test_forecast.h"

namespace evoq {
namespace {

TEST(Predict, TellsHowMuchIsDone) {
  PredictOptions options;
  options.limits = SomeMachine();
  options.schemes = {"int8", "bf16", "float32"};
  std::vector<double> done;
  options.progress = [&](double fraction) {
    done.push_back(fraction);
    return Status();
  };
  ASSERT_TRUE(Predict(Convolutions(16, 16), "m.onnx", options));
  EXPECT_EQ(done, (std::vector<double>{1.0 / 3, 2.0 / 3, 1}));
  options.progress = [](double fraction) -> Status {
    if (fraction < 0.5) return {};
    return Fail(ErrorCode::kConditionFailed, "stop");
  };
  const auto stopped = Predict(Convolutions(16, 16), "m.onnx", options);
  ASSERT_FALSE(stopped);
  EXPECT_EQ(stopped.error().message(), "stop");
}

// The file's and the program's figures, and the name, are those of the model that quantize writes.
TEST(Predict, SizesAreThoseOfTheEngine) {
  PredictOptions options;
  options.limits = SomeMachine();
  options.schemes = {"float32"};
  options.float_weight_bytes = 2 * 32 * 32 * 9 * 4;
  const auto forecast = Predict(Convolutions(32, 32), "m.onnx", options);
  ASSERT_TRUE(forecast) << forecast.error().message();
  EXPECT_EQ(forecast->model, "m.onnx");
  EXPECT_EQ(forecast->limits.cpu, "a machine");
  EXPECT_EQ(forecast->float_weight_bytes, options.float_weight_bytes);
  const auto engine = EngineFromGraph(Convolutions(32, 32), {1, {}, false});
  ASSERT_TRUE(engine) << engine.error().message();
  const auto executor = (*engine)->Default();
  ASSERT_TRUE(executor) << executor.error().message();
  EXPECT_EQ(forecast->schemes[0].weight_bytes, (*executor)->program().weight_bytes);
  EXPECT_EQ(forecast->schemes[0].arena_bytes, (*executor)->arena_bytes());
}

// Each model is run and its steps are measured; how fast they are is the machine's affair.
TEST(Predict, CheckMeasuresEveryScheme) {
  PredictOptions options;
  options.limits = SomeMachine();
  options.limits.isa = SelectIsa().value_or(Isa::kScalar);
  options.schemes = {"int8"};
  options.check = true;
  const auto forecast = Predict(Convolutions(16, 16), "m.onnx", options);
  ASSERT_TRUE(forecast) << forecast.error().message();
  for (const SchemeForecast& s : forecast->schemes) {
    EXPECT_GT(s.measured_ms, 0) << s.scheme;
    EXPECT_GT(s.machine_share, 0) << s.scheme;
    for (const StepForecast& step : s.step_list) EXPECT_GT(step.measured_ms, 0) << step.name;
  }
}

// What cannot be run cannot be forecast: steps that depend on data need inputs.
TEST(Predict, StepsThatDependOnDataNeedInputs) {
  const Graph graph = Parsed(R"(
    input %x: float32[8]
    n: %i: int64[1, K] = NonZero(%x)
    t: %y: float32[1, K] = Cast{to=1}(%i)
    output %y
  )");
  PredictOptions options;
  options.limits = SomeMachine();
  options.schemes = {"float32"};
  const auto refused = Predict(graph, "m.onnx", options);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), ErrorCode::kUsage);
  EXPECT_EQ(refused.error().message().find("its steps depend on data ("), 0u)
      << refused.error().message();
  EXPECT_NE(refused.error().message().find("): name inputs to run it on"), std::string::npos);
  options.sample = {Tensor::FromValues<float>(Shape{8}, {0, 1, 0, 2, 0, 0, 3, 0})};
  const auto forecast = Predict(graph, "m.onnx", options);
  ASSERT_TRUE(forecast) << forecast.error().message();
  for (const StepForecast& s : forecast->schemes[0].step_list) {
    if (s.name == "t") EXPECT_EQ(s.shape, "[1, 3]") << "three are not zero";
  }
  // The sample has to be one.
  options.sample = {Tensor::FromValues<float>(Shape{2}, {0, 1})};
  const auto wrong = Predict(graph, "m.onnx", options);
  ASSERT_FALSE(wrong);
  EXPECT_EQ(wrong.error().message().find("on the given or made-up inputs (--input NAME=F.npy"), 0u)
      << wrong.error().message();
}

}  // namespace
}  // namespace evoq
