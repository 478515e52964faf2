// Executors of many shapes: found again, shared, bounded.

#include <gtest/gtest.h>

#include "base/memory.h"
#include "models/models.h"
#include "reference/reference.h"

namespace evoq {
namespace {

std::unique_ptr<Engine> EngineOf(const std::string& text, int threads = 1) {
  auto graph = ParseGraph(text);
  EXPECT_TRUE(graph) << graph.error().message();
  EXPECT_TRUE(InferTypes(*graph));
  auto engine = EngineFromGraph(std::move(*graph), {.threads = threads});
  EXPECT_TRUE(engine) << engine.error().message();
  return std::move(*engine);
}

// A product whose weights, 40 columns in panels of 16, grow by a fifth when they are packed: files
// keep them plain.
constexpr char kProduct[] = R"(input %x: float32["N", 64]
const %w: float32[64, 40]
p: %p: float32["N", 40] = MatMul(%x, %w)
output %p
)";

std::vector<Tensor> Rows(int64_t rows) {
  return {Tensor::Allocate(TensorType(DType::kFloat32, Shape{rows, 64}))};
}

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
  const std::weak_ptr<Executor> first = engine->For(Rows(1)).value(),
                                second = engine->For(Rows(2)).value();
  for (int64_t rows = 3; rows <= static_cast<int64_t>(Engine::kMaxExecutors); ++rows)
    ASSERT_TRUE(engine->For(Rows(rows)));
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

// A model of free sizes gets its first plan from the first sizes that work: those that fail leave
// nothing.
TEST(Engine, KeepsNothingOfSizesThatFail) {
  const std::string text =
      "input %x: float32[N, M]\nconst %b: float32[2] = [1.0, -1.0]\nadd: %y = Add(%x, %b)\noutput "
      "%y\n";
  const Tensor good = Tensor::FromValues<float>(Shape{1, 2}, {3, 4});
  for (const bool settle : {false, true}) {
    const auto engine = EngineOf(text);
    ASSERT_TRUE(engine->model().plans.empty());
    // No broadcasting, no such input, more than a value may have, and (in and out) more than the
    // machine has.
    const InputShapes cases[] = {{{"x", {1, 3}}},
                                 {{"y", {1, 2}}},
                                 {{"x", {int64_t{1} << 40, 2}}},
                                 {{"x", {MemoryLimitBytes() / 16, 2}}}};
    for (int again = 0; again < 2; ++again) {
      for (const InputShapes& shapes : cases) {
        if (settle) (void)engine->Settle(shapes);
        EXPECT_FALSE(engine->At(shapes));
        EXPECT_FALSE(engine->Tune({{"x", {1, 3}}}));
        EXPECT_TRUE(engine->model().plans.empty());
        EXPECT_EQ(engine->in_regions(), "");
        EXPECT_EQ(engine->prepared().count, 0);
      }
    }
    const auto y = engine->Run(std::span(&good, 1));
    ASSERT_TRUE(y) << y.error().message();
    EXPECT_EQ((*y)[0].data<float>()[0], 4);
    EXPECT_EQ((*y)[0].data<float>()[1], 3);
    ASSERT_EQ(engine->model().plans.size(), 1u);
    EXPECT_EQ(engine->model().plans[0].shapes, (InputShapes{{"x", {1, 2}}}));
    EXPECT_FALSE(engine->At(cases[0]));
    EXPECT_EQ(engine->prepared().count, 1);
  }
}

// What Settle has packed is used for its sizes, and for no others.
TEST(Engine, SettlesForTheSizesAtHand) {
  const std::string text = "input %x: float32[N, M]\na: %y = Add(%x, %x)\noutput %y\n";
  for (const InputShapes& at : {InputShapes{{"x", {2, 3}}}, InputShapes{{"x", {4, 5}}}}) {
    const auto engine = EngineOf(text);
    ASSERT_TRUE(engine->Settle({{"x", {2, 3}}}));
    EXPECT_EQ(engine->in_regions(), "");
    const auto executor = engine->At(at);
    ASSERT_TRUE(executor) << executor.error().message();
    EXPECT_EQ((*executor)->input_types()[0].shape.sizes(), at.at("x"));
    EXPECT_EQ(engine->model().plans.at(0).shapes, at);
  }
}

TEST(WhyNoProgram, NamesTheNode) {
  const auto why = [](const std::string& text) {
    auto graph = ParseGraph(text);
    EXPECT_TRUE(graph && InferTypes(*graph));
    return WhyNoProgram(Bound(*graph, {}, kReference).value()).value_or("");
  };
  EXPECT_EQ(why(kProduct), "");
  EXPECT_NE(why("input %x: float32[3]\nnz: %y = NonZero(%x)\noutput %y\n")
                .find("node nz (NonZero): output y has the type int64[1, "),
            std::string::npos);
  EXPECT_EQ(why("input %x: string[3]\ni: %y = Identity(%x)\noutput %y\n"),
            "x is string[3], expected a tensor of numbers");
  EXPECT_EQ(
      why("input %x: float32[3]\ns: %s = SequenceConstruct(%x)\nl: %n = SequenceLength(%s)\noutput "
          "%n\n"),
      "node s (SequenceConstruct): output s is sequence(float32[3]), expected a tensor of numbers");
}

}  // namespace
}  // namespace evoq
