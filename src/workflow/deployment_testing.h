// A small model, and what optimization_config.json and atc make of it.
#pragma once

#include <algorithm>
#include <random>
#include <set>

#include "models/models.h"
#include "program/etm.h"
#include "workflow/compile.h"
#include "workflow/config.h"
#include "workflow/tiny_testing.h"

namespace evoq {

inline constexpr char kDeployedModel[] = R"(graph net
input %x: float32["N", 8, 16, 16]
const %w0: float32[32, 8, 3, 3]
const %s: float32[32]
const %o: float32[32]
const %m: float32[32]
const %v: float32[32]
conv: %a: float32["N", 32, 16, 16] = Conv{pads=[1, 1, 1, 1]}(%x, %w0)
norm: %b: float32["N", 32, 16, 16] = BatchNormalization(%a, %s, %o, %m, %v)
relu: %c: float32["N", 32, 16, 16] = Relu(%b)
const %w1: float32[32, 32, 3, 3]
second: %d: float32["N", 32, 16, 16] = Conv{pads=[1, 1, 1, 1]}(%c, %w1)
relu2: %e: float32["N", 32, 16, 16] = Relu(%d)
pool: %f: float32["N", 32, 1, 1] = GlobalAveragePool(%e)
flat: %g: float32["N", 32] = Flatten(%f)
const %w2: float32[32, 8]
product: %h: float32["N", 8] = MatMul(%g, %w2)
const %p: float32[8]
const %q: float32[8]
fold: %r: float32[8] = Add(%p, %q)
sum: %y: float32["N", 8] = Add(%h, %r)
output %y
)";

class DeploymentTest : public TinyFolder {
 protected:
  void SetUp() override {
    TinyFolder::SetUp();
    Graph graph = Parsed(kDeployedModel);
    std::mt19937 random(3);
    std::uniform_real_distribution<float> real(0.1f, 1);
    for (int i = 0; i < graph.value_count(); ++i) {
      const Value& value = graph.value(ValueId{i});
      if (!value.is_constant()) continue;
      Tensor t = Tensor::Allocate(value.type);
      for (int64_t k = 0; k < t.elements(); ++k)
        t.mutable_data<float>()[k] = real(random) - (t.shape().rank() > 1 ? 0.5f : 0);
      graph.SetConstant(ValueId{i}, t);
    }
    ASSERT_TRUE(ExportOnnx(graph, At("in.onnx")));
  }

  // The model that `graph_opt` writes by this file, read back.
  Graph Optimized(const nlohmann::json& config, std::vector<std::string>* notes = nullptr) {
    OptimizeJob job;
    const Status read = ReadConfig(Text("config.json", config.dump()), job);
    EXPECT_TRUE(read) << read.error().message();
    job.model = At("in.onnx");
    job.output = At("out.onnx");
    const auto done = Optimize(job);
    EXPECT_TRUE(done) << done.error().message();
    if (!done) return Graph();
    if (notes != nullptr) *notes = done->notes;
    auto graph = ImportModel(At("out.onnx"));
    EXPECT_TRUE(graph) << graph.error().message();
    return std::move(*graph);
  }
  // What compile makes of it, one thread.
  std::unique_ptr<Engine> Compiled(const nlohmann::json& config) {
    Optimized(config);
    CompileJob job{.model = At("out.onnx"), .output = At("out.etm")};
    const auto done = Compile(job);
    EXPECT_TRUE(done) << done.error().message();
    auto engine = LoadEngine(At("out.etm"), {.threads = 1});
    EXPECT_TRUE(engine) << engine.error().message();
    return std::move(*engine);
  }
  std::string Refusal(const nlohmann::json& config) {
    const auto parsed = ParseDeployment(config, "f.json");
    EXPECT_FALSE(parsed) << config;
    if (parsed) return "";
    EXPECT_EQ(parsed.error().code(), ErrorCode::kInvalidInput);
    return parsed.error().message();
  }
  static nlohmann::json Graphs(const nlohmann::json& keys) {
    return {{"graph_optimization", keys}};
  }
  static nlohmann::json Convolution(const nlohmann::json& keys) {
    return {{"operator_tuning", {{"convolution", keys}}}};
  }
};

inline std::multiset<std::string> OpsOf(const Graph& graph) {
  std::multiset<std::string> ops;
  for (const NodeId id : graph.order()) ops.insert(graph.node(id).op);
  return ops;
}
// The names of the nodes that compute something.
inline std::set<std::string> StepsOf(const Executor& executor) {
  std::set<std::string> names;
  for (const Step& step : executor.program().steps)
    names.insert(executor.program().graph->node(step.node).name);
  return names;
}

}  // namespace evoq
