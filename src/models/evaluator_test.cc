// Models that no plan can hold run in dynamic partitions, as they are and from an .etm.
#include <gtest/gtest.h>

#include <filesystem>

#include "models/models.h"
#include "program/etm.h"
#include "reference/reference.h"

namespace evoq {
namespace {

void ExpectRuns(Graph graph, const std::vector<Tensor>& inputs, const Tensor& wanted) {
  ASSERT_TRUE(InferTypes(graph));
  const auto direct = EngineFromGraph(graph, {.threads = 1});
  ASSERT_TRUE(direct) << direct.error().message();
  const auto model = LowerAndPack(graph);
  ASSERT_TRUE(model) << model.error().message();
  EXPECT_TRUE(model->plans.empty());
  const std::string path = testing::TempDir() + "/evoq_evaluator.etm";
  ASSERT_TRUE(WriteEtm(*model, path));
  const auto loaded = LoadEngine(path, {.threads = 1});
  ASSERT_TRUE(loaded) << loaded.error().message();
  for (Engine* engine : {direct->get(), loaded->get()}) {
    const auto outputs = engine->Run(inputs);
    ASSERT_TRUE(outputs) << outputs.error().message();
    EXPECT_TRUE(BitEqual((*outputs)[0], wanted));
    EXPECT_FALSE(engine->in_regions().empty());
  }
  std::filesystem::remove(path);
}

TEST(Evaluator, AConstantOfStringsIsAnOutput) {
  Graph graph;
  const Tensor words = Tensor::FromValues<std::string>(Shape{2}, {"yes", "no"});
  graph.MarkOutput(graph.AddConstant("words", words));
  ExpectRuns(graph, {}, words);
}

TEST(Evaluator, SizesDependOnData) {
  auto graph = ParseGraph("input %x: float32[3]\nnz: %y = NonZero(%x)\noutput %y\n");
  ASSERT_TRUE(graph);
  ExpectRuns(*graph, {Tensor::FromValues<float>(Shape{3}, {0, 2, 3})},
             Tensor::FromValues<int64_t>(Shape{1, 2}, {1, 2}));
}

}  // namespace
}  // namespace evoq
