// Executors of many shapes: found again, shared, bounded.
#include "engine/engine.h"

#include <gtest/gtest.h>

#include "ops/op.h"

namespace evoq {
namespace {

std::unique_ptr<Engine> EngineOf(const std::string& text, int threads = 1) {
  auto graph = ParseGraph(text);
  EXPECT_TRUE(graph) << graph.error().message();
  EXPECT_TRUE(InferTypes(*graph));
  auto engine = Engine::FromGraph(std::move(*graph), {.threads = threads});
  EXPECT_TRUE(engine) << engine.error().message();
  return std::move(*engine);
}

// A product whose weights, 40 columns in panels of 16, grow by a fifth when they are packed: files keep them plain.
constexpr char kProduct[] = R"(input %x: float32["N", 64]
const %w: float32[64, 40]
p: %p: float32["N", 40] = MatMul(%x, %w)
output %p
)";

std::vector<Tensor> Rows(int64_t rows) { return {Tensor::Allocate(TensorType(DType::kFloat32, Shape{rows, 64}))}; }

TEST(Engine, FindsItsExecutorsByTheInputs) {
  const auto engine = EngineOf(kProduct);
  const auto two = engine->For(Rows(2)), three = engine->For(Rows(3));
  ASSERT_TRUE(two && three);
  EXPECT_NE(*two, *three);
  EXPECT_EQ(engine->For(Rows(2)).value(), *two);
  EXPECT_EQ(engine->At({{"x", {3, 64}}}).value(), *three);
  const auto named = engine->Default();  // a batch of 1
  ASSERT_TRUE(named);
  EXPECT_EQ(engine->For(Rows(1)).value(), *named);
  EXPECT_EQ(engine->prepared().count, 3);
}

TEST(Engine, KeepsTheExecutorsThatWereUsedLast) {
  const auto engine = EngineOf(kProduct);
  const std::weak_ptr<Executor> first = engine->For(Rows(1)).value(), second = engine->For(Rows(2)).value();
  for (int64_t rows = 3; rows <= static_cast<int64_t>(Engine::kMaxExecutors); ++rows) ASSERT_TRUE(engine->For(Rows(rows)));
  ASSERT_TRUE(engine->For(Rows(1)));
  ASSERT_TRUE(engine->For(Rows(1000)));
  EXPECT_FALSE(first.expired());
  EXPECT_TRUE(second.expired());
  EXPECT_EQ(engine->prepared().count, static_cast<int64_t>(Engine::kMaxExecutors) + 1);
  const auto again = engine->Run(Rows(2));
  ASSERT_TRUE(again) << again.error().message();
}

const std::byte* WeightsOf(const Executor& executor) {
  const Graph& graph = *executor.program().graph;
  return graph.ConstantInput(graph.node(executor.program().steps[0].node), 1)->raw();
}

TEST(Engine, PacksWeightsOnceForAllShapes) {
  const auto engine = EngineOf(kProduct);
  const auto two = engine->For(Rows(2)), many = engine->For(Rows(300));
  ASSERT_TRUE(two && many);
  const Graph& graph = *(*two)->program().graph;
  EXPECT_NE(graph.ConstantInput(graph.node((*two)->program().steps[0].node), 1)->layout(), "");
  EXPECT_EQ(WeightsOf(**two), WeightsOf(**many));
}

TEST(WhyNoProgram, NamesTheNode) {
  const auto why = [](const std::string& text) {
    auto graph = ParseGraph(text);
    EXPECT_TRUE(graph && InferTypes(*graph));
    return WhyNoProgram(Bound(*graph, {}).value()).value_or("");
  };
  EXPECT_EQ(why(kProduct), "");
  EXPECT_NE(why("input %x: float32[3]\nnz: %y = NonZero(%x)\noutput %y\n").find("node nz (NonZero): output y has the type int64[1, "), std::string::npos);
  EXPECT_EQ(why("input %x: string[3]\ni: %y = Identity(%x)\noutput %y\n"), "x is string[3], expected a tensor of numbers");
  EXPECT_EQ(why("input %x: float32[3]\ns: %s = SequenceConstruct(%x)\nl: %n = SequenceLength(%s)\noutput %n\n"),
            "node s (SequenceConstruct): output s is sequence(float32[3]), expected a tensor of numbers");
}

}  // namespace
}  // namespace evoq
