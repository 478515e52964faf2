// What explain tells of steps that stay float.
#include "workflow/explain.h"

#include <gtest/gtest.h>

#include "program/etm.h"
#include "quant/mixed.h"
#include "workflow/tiny_testing.h"

namespace evoq {
namespace {

using Explains = TinyFolder;

// A plan with both narrow types is one of integers, as in the ledger of time.
TEST_F(Explains, TheNarrowTypeOfAMixedModel) {
  const Graph net = Parsed(
      "graph g\ninput %x: float32[2, 16]\nconst %v: float32[16, 16]\nconst %w: float32[16, 16]\n"
      "a: %a: float32[2, 16] = MatMul(%x, %v)\nb: %y: float32[2, 16] = MatMul(%a, %w)\n"
      "output %y\n");
  const std::pair<const char*, const char*> rows[] = {
      {"int8-dynamic", "int8"}, {"bf16", "bf16"}, {"float32", "bf16"}};
  for (const auto& [scheme, narrow] : rows) {
    Graph graph = net;
    ASSERT_TRUE(QuantizeMixed(graph, {}, {}, {{"a", {scheme, {}}}, {"b", {"bf16", {}}}}));
    const auto model = LowerAndPack(std::move(graph));
    ASSERT_TRUE(model) << model.error().message();
    ASSERT_TRUE(WriteEtm(*model, At("mixed.etm")));
    ExplainJob job;
    job.model = At("mixed.etm");
    job.threads = 1;
    job.duration_s = 0.02;
    const auto explained = Explain(job);
    ASSERT_TRUE(explained) << explained.error().message();
    const std::string text = Tell(*explained).text;
    EXPECT_NE(text.find(fmt::format("that could be {} ", narrow)), std::string::npos) << text;
  }
}

}  // namespace
}  // namespace evoq
