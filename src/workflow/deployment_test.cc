// Each key of an optimization_config.json does something that is seen, and a wrong one is named.
#include "workflow/deployment.h"

#include "graph/run_choices.h"
#include "workflow/deployment_testing.h"
#include "workflow/quantize.h"

namespace evoq {
namespace {

using nlohmann::json;

TEST_F(DeploymentTest, ModelsOfTheFile) {
  OptimizeJob job;
  const json config = {{"optimization_version", "2.0"},
                       {"model_info", {{"input_model", "a.onnx"}, {"output_model", "b.onnx"}}}};
  ASSERT_TRUE(ReadConfig(Text("c.json", config.dump()), job));
  EXPECT_EQ(job.model, "a.onnx");
  EXPECT_EQ(job.output, "b.onnx");
  job.model = "mine.onnx";
  ASSERT_TRUE(ReadConfig(At("c.json"), job));
  EXPECT_EQ(job.model, "mine.onnx");
  std::vector<std::string> notes;
  Optimized({{"optimization_version", "2.1"}}, &notes);
  ASSERT_EQ(notes.size(), 1);
  EXPECT_NE(notes[0].find("2.1"), std::string::npos);
}

TEST_F(DeploymentTest, FusionPatternsAreOffAndOn) {
  const auto patterns = [&](const char* name, bool on) {
    return Graphs({{"fusion_patterns", {{{"pattern_name", name}, {"enabled", on}}}}});
  };
  EXPECT_FALSE(OpsOf(Optimized(patterns("conv_bn_relu", true))).contains("BatchNormalization"));
  EXPECT_TRUE(OpsOf(Optimized(patterns("conv_bn_relu", false))).contains("BatchNormalization"));
  const auto steps = [&](const char* name, bool on) {
    return StepsOf(**Compiled(patterns(name, on))->Default());
  };
  EXPECT_FALSE(steps("conv_relu", true).contains("relu2"));
  EXPECT_TRUE(steps("conv_relu", false).contains("relu2"));
  EXPECT_TRUE(steps("conv_bn_relu", false).contains("norm"));
  EXPECT_FALSE(steps("matmul_add", true).contains("sum"));
  EXPECT_TRUE(steps("matmul_add", false).contains("sum"));
}

// Every pattern names passes and operators that there are.
TEST_F(DeploymentTest, FusionPatternsAreOfPasses) {
  for (const FusionPattern& pattern : FusionPatterns()) {
    Graph graph = Parsed(kDeployedModel);
    EXPECT_TRUE(ChoosePasses(graph, {.disable = pattern.passes})) << pattern.name;
  }
}

TEST_F(DeploymentTest, FusionAndFoldingAreOffAndOn) {
  const auto fusion = [&](bool on) {
    return StepsOf(**Compiled(Graphs({{"enable_operator_fusion", on}}))->Default());
  };
  EXPECT_FALSE(fusion(true).contains("relu"));
  for (const char* name : {"norm", "relu", "relu2", "sum"})
    EXPECT_TRUE(fusion(false).contains(name));
  const auto folding = [&](bool on) {
    return OpsOf(Optimized(Graphs({{"enable_constant_folding", on}}))).count("Add");
  };
  EXPECT_EQ(folding(true) + 1, folding(false));
}

TEST_F(DeploymentTest, MemoryIsReusedOrNot) {
  const auto arena = [&](bool on) {
    const auto engine = Compiled(Graphs({{"enable_memory_reuse", on}}));
    const Program& program = (*engine->Default())->program();
    EXPECT_EQ(program.arena_bytes() == program.value_bytes, !on);
    return program.arena_bytes();
  };
  EXPECT_LT(arena(true), arena(false));
}

TEST_F(DeploymentTest, FormsOfInputsAndOutputs) {
  const auto with = [&](const char* format, const char* type) {
    return Optimized({{"compilation_config", {{"input_format", format}, {"output_type", type}}}});
  };
  const Graph plain = with("NCHW", "float32");
  EXPECT_EQ(plain.value(plain.inputs()[0]).type.shape.ToString(), "[N, 8, 16, 16]");
  EXPECT_EQ(plain.value(plain.outputs()[0]).type.dtype, DType::kFloat32);
  const Graph other = with("NHWC", "float16");
  EXPECT_EQ(other.value(other.inputs()[0]).name, "x");
  EXPECT_EQ(other.value(other.inputs()[0]).type.shape.ToString(), "[N, 16, 16, 8]");
  EXPECT_EQ(other.value(other.outputs()[0]).name, "y");
  EXPECT_EQ(other.value(other.outputs()[0]).type.dtype, DType::kFloat16);

  // The same numbers, and no Transpose: the kernels want them so.
  const auto nhwc = Compiled({{"compilation_config", {{"input_format", "NHWC"}}}});
  EXPECT_FALSE(OpsOf(*(*nhwc->Default())->program().graph).contains("Transpose"));
  const auto nchw = Compiled({{"compilation_config", {{"input_format", "NCHW"}}}});
  Tensor x = Tensor::Allocate(TensorType(DType::kFloat32, Shape{1, 8, 16, 16})),
         z = Tensor::Allocate(TensorType(DType::kFloat32, Shape{1, 16, 16, 8}));
  for (int64_t c = 0; c < 8; ++c) {
    for (int64_t p = 0; p < 256; ++p)
      x.mutable_data<float>()[c * 256 + p] = z.mutable_data<float>()[p * 8 + c] =
          static_cast<float>((c * 31 + p * 7) % 19) / 9 - 1;
  }
  const auto a = nchw->Run({&x, 1}), b = nhwc->Run({&z, 1});
  ASSERT_TRUE(a && b);
  for (int64_t i = 0; i < 8; ++i)
    EXPECT_FLOAT_EQ((*a)[0].values<float>()[i], (*b)[0].values<float>()[i]);
}

TEST_F(DeploymentTest, WinogradIsOffAndOn) {
  const auto uses = [&](bool on) {
    const auto engine = Compiled(Convolution({{"enable_winograd", on}}));
    const auto executor = *engine->At({{"x", {1, 8, 16, 16}}});
    return std::ranges::any_of(executor->plans(), [](const KernelPlan& plan) {
      return plan.method.starts_with("winograd");
    });
  };
  EXPECT_TRUE(uses(true));
  EXPECT_FALSE(uses(false));
}

TEST_F(DeploymentTest, ConvolutionsTakeTilesOfTheSize) {
  std::vector<std::string> notes;
  const auto methods = [&](const json& keys) {
    const auto engine = Compiled(Convolution(keys));
    const auto executor = *engine->At({{"x", {1, 8, 16, 16}}});
    std::set<std::string> found;
    for (const KernelPlan& plan : executor->plans()) found.insert(plan.method);
    return found;
  };
  EXPECT_TRUE(methods({{"tile_size", 24}, {"enable_winograd", false}}).contains("24 rows"));
  EXPECT_FALSE(methods({{"enable_winograd", false}}).contains("24 rows"));
  Optimized(Convolution({{"tile_size", 64}}), &notes);
  EXPECT_TRUE(notes.empty());
  Optimized(Convolution({{"tile_size", 4096}}), &notes);
  ASSERT_EQ(notes.size(), 1);
  EXPECT_NE(notes[0].find("taken as 768"), std::string::npos);
}

// What was chosen for the float32 model holds for the integers that are made of it.
TEST_F(DeploymentTest, WinogradAndTilesOfIntegers) {
  const auto methods = [&](const json& keys) {
    Optimized(Convolution(keys));
    QuantizeJob job;
    job.model = At("out.onnx");
    job.output = At("int8.etm");
    job.calib_random = 2;
    const auto done = Quantize(job);
    EXPECT_TRUE(done) << done.error().message();
    const auto engine = LoadEngine(At("int8.etm"), {.threads = 1});
    EXPECT_TRUE(engine) << engine.error().message();
    const auto executor = *(*engine)->At({{"x", {1, 8, 16, 16}}});
    std::set<std::string> found;
    for (size_t i = 0; i < executor->plans().size(); ++i) {
      if (executor->program().steps[i].decision.precision == Precision::kInt8)
        found.insert(executor->plans()[i].method);
    }
    return found;
  };
  EXPECT_TRUE(methods({{"tile_size", 24}, {"enable_winograd", false}}).contains("24 rows"));
  for (const std::string& method : methods({{"enable_winograd", false}}))
    EXPECT_FALSE(method.starts_with("winograd")) << method;
}

// What computes on the weights is the processor's choice; their type is the file's.
TEST_F(DeploymentTest, ConvolutionsInSixteenBits) {
  std::vector<std::string> notes;
  const auto weights = [&](const char* mode) {
    std::map<std::string, DType> found;
    Optimized(Convolution({{"precision_mode", mode}}), &notes);
    const auto engine = Compiled(Convolution({{"precision_mode", mode}}));
    const Graph& graph = engine->model().graph;
    for (const NodeId id : graph.order()) {
      const Node& node = graph.node(id);
      if (node.op == "Conv" || node.op == "MatMul")
        found[node.name] = graph.value(node.inputs[1]).type.dtype;
    }
    return found;
  };
  EXPECT_EQ(weights("fp32").at("second"), DType::kFloat32);
  EXPECT_TRUE(notes.empty());
  const auto narrow = weights("fp16");
  EXPECT_EQ(narrow.at("second"), DType::kBfloat16);
  EXPECT_EQ(narrow.at("product"), DType::kFloat32);
  ASSERT_EQ(notes.size(), 1);
  EXPECT_NE(notes[0].find("bfloat16"), std::string::npos);
  Graph wrong = Parsed(kDeployedModel);
  wrong.metadata[kPrecisionChoice] = "int3";
  const auto refused = NarrowAsChosen(wrong);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().message(),
            "metadata evoq.choice.precision: expected 'bf16 Conv' or 'bf16', found 'int3'");
}

TEST_F(DeploymentTest, WhatChangesNothingSaysSo) {
  std::vector<std::string> notes;
  json config;
  config["compilation_config"] = {{"soc_version", "Ascend310P3"}, {"device", 0}};
  config["stream_config"] = {
      {"num_streams", 2}, {"stream_priority", {1, 2}}, {"enable_cross_stream_memory_reuse", true}};
  Optimized(config, &notes);
  ASSERT_EQ(notes.size(), 2);
  for (const char* about : {"soc_version Ascend310P3", "device 0"})
    EXPECT_TRUE(std::ranges::any_of(notes, [&](const std::string& note) {
      return note.starts_with(about);
    })) << about;
}

TEST_F(DeploymentTest, BatchesRunAtOnceOrApart) {
  const auto repeats = [&](bool merge) {
    const auto engine =
        Compiled({{"operator_tuning", {{"fully_connected", {{"enable_batch_merge", merge}}}}}});
    return (*engine->At({{"x", {4, 8, 16, 16}}}))->repeats();
  };
  EXPECT_EQ(repeats(true), 1);
  EXPECT_EQ(repeats(false), 4);
}

TEST_F(DeploymentTest, EveryShapeIsPrepared) {
  const json ranges = {{"x", {{1, 8, 16, 16}, {4, 8, 16, 16}, {2, 8, 32, 24}}}};
  const auto engine = Compiled({{"dynamic_shape_config",
                                 {{"enable_dynamic_shape", true},
                                  {"shape_ranges", ranges},
                                  {"optimization_strategy", "throughput"}}}});
  const evoq::Model& model = engine->model();
  ASSERT_EQ(model.plans.size(), 3);
  EXPECT_EQ(model.plans[2].shapes, (InputShapes{{"x", {2, 8, 32, 24}}}));
  EXPECT_EQ(model.plans[0].decisions.size(), model.plans[2].decisions.size());
  EXPECT_EQ(ChoiceOf(model.graph, kStrategyChoice), "throughput");
  // Sizes that differ became free.
  Tensor x = Tensor::Allocate(TensorType(DType::kFloat32, Shape{2, 8, 32, 24}));
  std::fill_n(x.mutable_data<float>(), x.elements(), 0.5f);
  EXPECT_TRUE(engine->Run({&x, 1}));
  // Sizes that are fixed later count.
  const CompileJob fixed{
      .model = At("out.onnx"), .output = At("fixed.etm"), .fixed = {{"x", {4, 8, 16, 16}}}};
  ASSERT_TRUE(Compile(fixed));
  const auto one = ReadEtm(At("fixed.etm"));
  ASSERT_TRUE(one);
  ASSERT_EQ(one->plans.size(), 1);
  EXPECT_EQ(one->plans[0].shapes, (InputShapes{{"x", {4, 8, 16, 16}}}));
  std::vector<std::string> notes;
  const Graph off = Optimized({{"dynamic_shape_config", {{"shape_ranges", ranges}}}}, &notes);
  EXPECT_EQ(ChoiceOf(off, kShapesChoice), "");
  EXPECT_EQ(notes.size(), 1);
}

TEST_F(DeploymentTest, StreamsAreKept) {
  const Graph graph = Optimized({{"stream_config",
                                  {{"num_streams", 3},
                                   {"stream_priority", {1, 0, 2}},
                                   {"enable_cross_stream_memory_reuse", false}}}});
  const StreamChoice chosen = ChosenStreams(graph).value();
  EXPECT_EQ(chosen.streams, 3);
  EXPECT_EQ(chosen.priorities, (std::vector<int>{1, 0, 2}));
  EXPECT_FALSE(chosen.share_arenas);
  const StreamChoice shared =
      ChosenStreams(Optimized({{"stream_config",
                                {{"num_streams", 2}, {"enable_cross_stream_memory_reuse", true}}}}))
          .value();
  EXPECT_TRUE(shared.share_arenas && shared.priorities.empty());
  Graph wrong;
  for (const char* fact : {"1", "[-1]", "[1.5]", "[1, \"x\"]", "["}) {
    wrong.metadata[kPrioritiesChoice] = fact;
    EXPECT_FALSE(ChosenStreams(wrong)) << fact;
  }
  wrong.metadata.clear();
  for (const char* fact : {"0", "x", "1000", "[1]"}) {
    wrong.metadata[kStreamsChoice] = fact;
    EXPECT_FALSE(ChosenStreams(wrong)) << fact;
  }
  for (const char* fact :
       {"{", "[]", R"({"x": []})", R"({"x": [[0]]})", R"({"x": [[1], [2]], "y": [[1]]})"}) {
    wrong.metadata[kShapesChoice] = fact;
    EXPECT_FALSE(ChosenShapes(wrong)) << fact;
  }
}

TEST_F(DeploymentTest, WrongKeysAreNamed) {
  EXPECT_EQ(Refusal(Graphs({{"enable_operator_fuson", true}})),
            "f.json: there is no key 'graph_optimization.enable_operator_fuson'; the nearest is "
            "graph_optimization.enable_operator_fusion");
  EXPECT_EQ(Refusal({{"stream_confg", json::object()}}),
            "f.json: there is no key 'stream_confg'; the nearest is stream_config");
  EXPECT_EQ(Refusal(json::array()), "f.json: expected a JSON object");
  EXPECT_EQ(Refusal({{"stream_config", 3}}), "f.json: stream_config: expected an object, found 3");
  EXPECT_NE(Refusal(Graphs({{"fusion_patterns",
                             {{{"pattern_name", "conv_bn_rleu"}, {"enabled", true}}}}}))
                .find("the nearest is conv_bn_relu"),
            std::string::npos);
  const std::pair<json, const char*> wrong[] = {
      {Graphs({{"enable_memory_reuse", 1}}), "expected true or false, found 1"},
      {Graphs({{"fusion_patterns", {{{"pattern", "conv_bn"}}}}}), "not 'pattern'"},
      {{{"compilation_config", {{"input_format", "CHWN"}}}}, "expected \"NCHW\""},
      {{{"compilation_config", {{"output_type", "float31"}}}}, "expected \"float32\""},
      {Convolution({{"tile_size", 0}}), "a number from 1"},
      {Convolution({{"precision_mode", "fp8"}}), "expected \"fp32\""},
      {{{"stream_config", {{"num_streams", 0}}}}, "from 1 to 256"},
      {{{"stream_config", {{"num_streams", 2}, {"stream_priority", {1}}}}}, "num_streams is 2"},
      {{{"dynamic_shape_config", {{"enable_dynamic_shape", true}}}}, "without shape_ranges"},
      {{{"dynamic_shape_config", {{"shape_ranges", {{"x", {{1, -2}}}}}}}}, "sizes from 1"},
      {{{"dynamic_shape_config", {{"optimization_strategy", "fast"}}}}, "\"latency\""}};
  for (const auto& [config, said] : wrong)
    EXPECT_NE(Refusal(config).find(said), std::string::npos) << Refusal(config);
  OptimizeJob job{.model = At("in.onnx"), .output = At("out.onnx")};
  job.deployment =
      ParseDeployment(
          {{"dynamic_shape_config",
            {{"enable_dynamic_shape", true}, {"shape_ranges", {{"xx", {{1, 8, 16, 16}}}}}}}},
          "f.json")
          .value();
  const auto done = Optimize(job);
  ASSERT_FALSE(done);
  EXPECT_NE(done.error().message().find("no input 'xx'; the nearest is 'x'"), std::string::npos);
}

}  // namespace
}  // namespace evoq
