#include "onnx/conformance.h"

#include <gtest/gtest.h>

#include "onnx/test_data.h"
#include "ops/op.h"

namespace evoq {
namespace {

TEST(Conformance, Reference) {
  const std::string data = DataFolder();
  if (data.empty()) GTEST_SKIP() << "no data folder: set EVOQ_DATA";
  const auto report = RunConformance(data, std::string(EVOQ_SOURCE_DIR) + "/tests/conformance/reference.txt",
                                     [](const Graph& graph, std::span<const Tensor> inputs) {
                                       return EvaluateGraph(graph, inputs);
                                     });
  ASSERT_TRUE(report) << report.error().message();
  fmt::print("{}\n", report->ToString());
  EXPECT_TRUE(report->problems.empty());
  EXPECT_GT(report->passed, 0);
}

}  // namespace
}  // namespace evoq
