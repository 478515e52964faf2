#include <gtest/gtest.h>

#include <set>

#include "base/file.h"
#include "base/json_file.h"
#include "base/text.h"
#include "foreign/profiles/diagnosis_text.h"
#include "foreign/profiles/test_files.h"

namespace evoq {
namespace {

using nlohmann::json;

using Diagnoses = ProfileFiles;

std::string DataFolder() {
  const char* set = std::getenv("EVOQ_DATA");
  return std::string(set ? set : EVOQ_SOURCE_DIR "/../shared/data") + "/trtexec";
}

TEST_F(Diagnoses, ResNet18OnAnA100) {
  const std::string data = DataFolder();
  if (!std::filesystem::exists(data)) GTEST_SKIP() << "no " << data;
  auto fp16 = Source("trtexec").read(data + "/resnet18-a100-fp16");
  auto int8 = Source("trtexec").read(data + "/resnet18-a100-qat");
  ASSERT_TRUE(fp16) << fp16.error().message();
  ASSERT_TRUE(int8) << int8.error().message();
  const auto delta = [&](LayerGroup group) { return int8->GroupMs(group) - fp16->GroupMs(group); };
  EXPECT_NEAR(delta(LayerGroup::kConv), -0.146, 5e-4);
  EXPECT_NEAR(delta(LayerGroup::kReformatQdq), 0.190, 5e-4);
  EXPECT_NEAR(delta(LayerGroup::kPooling), 0.035, 5e-4);
  EXPECT_NEAR(int8->layer_sum_ms - fp16->layer_sum_ms, 0.079, 5e-4);
  EXPECT_NEAR(fp16->end_to_end_ms, 0.862, 5e-4);
  EXPECT_NEAR(int8->end_to_end_ms, 0.883, 5e-4);
  EXPECT_EQ(int8->device, "NVIDIA A100 80GB PCIe");

  const Diagnosis diagnosis = Diagnose(*int8, &*fp16);
  const auto lost = LostBy(diagnosis);
  // The quantize layers behind the seven residual sums that a convolution follows.
  EXPECT_NEAR(lost.at("residual-not-quantized"),
              0.0276 + 0.0276 + 0.0276 + 0.0184 + 0.0184 + 0.0143 + 0.0154 + 0.0143 - 0.0276, 1e-3);
  EXPECT_GT(lost.at("pooling-in-float"), 0.1);
  EXPECT_GT(lost.at("int8-layer-slower"), 0.08);
  double sum = diagnosis.ideal_ms + diagnosis.below_ideal_ms;
  for (const auto& [code, ms] : lost) sum += ms;
  EXPECT_NEAR(sum, int8->layer_sum_ms, 1e-9);
  EXPECT_TRUE(Diagnose(*fp16, nullptr).findings.size() <=
              2);  // its input's reformat and its output's
}

TEST_F(Diagnoses, NamesAloneTellTheSameGroups) {
  const std::string data = DataFolder() + "/resnet18-a100-qat";
  if (!std::filesystem::exists(data)) GTEST_SKIP() << "no " << data;
  json info = *ReadJsonFile(data + "/engine.graph.json");
  for (json& layer : info["Layers"]) layer = layer["Name"];
  Write("layers.json", info);
  Write("profile.json", *ReadJsonFile(data + "/engine.profile.json"));
  auto names = Source("trtexec").read(folder_.string());
  auto detailed = Source("trtexec").read(data);
  ASSERT_TRUE(names) << names.error().message();
  EXPECT_FALSE(names->detailed);
  EXPECT_EQ(names->end_to_end_ms, 0);
  for (LayerGroup group : {LayerGroup::kConv, LayerGroup::kReformatQdq, LayerGroup::kPooling}) {
    // The classifier is a convolution to the engine and a Gemm by its name.
    const double gemm = group == LayerGroup::kConv ? names->GroupMs(LayerGroup::kMatMul) : 0;
    EXPECT_NEAR(names->GroupMs(group) + gemm, detailed->GroupMs(group), 1e-9)
        << LayerGroupName(group);
  }
  const auto lost = LostBy(Diagnose(*names, nullptr));
  EXPECT_NEAR(lost.at("residual-not-quantized"), 0.136, 1e-3);
  EXPECT_TRUE(lost.count("pooling-in-float"));
}

TEST_F(Diagnoses, NamesOfFusedLayers) {
  EXPECT_EQ(GroupOf("", "resnetv15_conv0_fwd + resnetv15_relu0_fwd + resnetv15_pool0_fwd"),
            LayerGroup::kConv);
  EXPECT_EQ(GroupOf("", "/layer1/conv1/_input_quantizer/QuantizeLinear"), LayerGroup::kReformatQdq);
  EXPECT_EQ(GroupOf("", "conv1.weight + QuantizeLinear_7 + Conv_9"), LayerGroup::kConv);
  EXPECT_EQ(GroupOf("", "conv1.weight + QuantizeLinear_7"), LayerGroup::kReformatQdq)
      << "weights that are quantized, of whatever";
  EXPECT_EQ(GroupOf("", "conv1.bias"), LayerGroup::kOther);
  EXPECT_EQ(GroupOf("", "/avgpool/GlobalAveragePool"), LayerGroup::kPooling);
  EXPECT_EQ(GroupOf("", "Reformatting CopyNode for Input Tensor 0 to Conv_5"),
            LayerGroup::kReformatQdq);
  EXPECT_EQ(GroupOf("", "PWN(PWN(/act/Sigmoid), /act/Mul)"), LayerGroup::kElementwise);
  EXPECT_EQ(GroupOf("CaskPooling", "conv_pool"), LayerGroup::kPooling);
  EXPECT_EQ(GroupOf("QLinearConv", "x"), LayerGroup::kConv);
  EXPECT_EQ(GroupOf("Myelin", "{ForeignNode[a...b]}"), LayerGroup::kOther);
  EXPECT_EQ(PrecisionIn("Channel major FP16 format where channel % 8 == 0"), "fp16");
  EXPECT_EQ(PrecisionIn("brgconv_avx512_core_vnni_U8"), "int8");
  EXPECT_EQ(PrecisionIn("bfloat16"), "bf16");
  EXPECT_EQ(PrecisionIn("Half"), "fp16");
  const std::map<std::string, int> bits = {{"fp32", 32}, {"int32", 32}, {"fp16", 16},
                                           {"bf16", 16}, {"int8", 8},   {"fp8", 8},
                                           {"int4", 4},  {"int64", 64}, {"", 0}};
  for (const auto& [precision, count] : bits) EXPECT_EQ(BitsOf(precision), count) << precision;
  for (const char* words : {"int64", "Row major linear INT32", "FP8 E4M3", "uint4", "Int8", "bool"})
    EXPECT_EQ(PrecisionIn(words),
              (std::map<std::string, std::string>{{"int64", "int64"},
                                                  {"Row major linear INT32", "int32"},
                                                  {"FP8 E4M3", "fp8"},
                                                  {"uint4", "int4"},
                                                  {"Int8", "int8"},
                                                  {"bool", ""}})[words])
        << words;
}

// One executed node of an ONNX Runtime profile.
json Node(const std::string& op, double us, const std::string& type,
          std::vector<int64_t> dims = {1, 8, 4, 4}, int parameters = 0,
          const std::string& provider = "CPUExecutionProvider") {
  static int index = 0;
  const std::string name = op + std::to_string(++index);
  return {{"cat", "Node"},
          {"ph", "X"},
          {"name", name + "_kernel_time"},
          {"dur", us},
          {"ts", 0},
          {"args",
           {{"op_name", op},
            {"provider", provider},
            {"node_index", std::to_string(index)},
            {"parameter_size", std::to_string(parameters)},
            {"input_type_shape", {{{type, dims}}}},
            {"output_type_shape", {{{type, dims}}}}}}};
}

json Layer(const std::string& name, double ms, const std::string& type, const std::string& exec) {
  return {{"name", name},      {"status", "EXECUTED"}, {"node_type", type},
          {"exec_type", exec}, {"real_time", ms},      {"cpu_time", ms}};
}

// For each rule a run in which it alone finds something, and what that costs: the whole time of
// what goes away, and of what stays the share that the rule's source gives. The completeness test
// below fails for a rule without one.
TEST_F(Diagnoses, EveryRuleFindsItsFault) {
  const auto conv = [] { return Node("QLinearConv", 100, "uint8"); };
  const auto ort = [&](const std::vector<json>& nodes) {
    return *Source("onnxruntime").read(Write("ort.json", nodes));
  };
  const auto vino = [&](const std::vector<json>& nodes) {
    return *Source("benchmark_app")
                .read(Write("vino.json", {{"avg_performance", {{"nodes", nodes}}}}));
  };
  const json quantize = Node("QuantizeLinear", 30, "float");
  const auto weights = [](const char* type) {
    json node = Node("QLinearConv", 90, "uint8");
    node["args"]["input_type_shape"] = {
        {{"uint8", {1, 8, 4, 4}}}, {{"float", {1}}}, {{"uint8", {1}}}, {{type, {8, 8, 3, 3}}}};
    return node;
  };
  json residual = Node("FusedConv", 50, "float");
  for (int i = 0; i < 3; ++i) residual["args"]["input_type_shape"].push_back({{"float", {8}}});
  const json copy = Node("MemcpyToHost", 20, "float"),
             fallback = Node("ScatterND", 80, "float", {1}, 0);
  struct Case {
    std::string code;
    ForeignRun run;
    double ms;
    size_t layers;
  };
  const std::vector<Case> cases = {
      {"residual-not-quantized", ort({conv(), residual, quantize}), 0.030,
       1},  // the QuantizeLinear
      {"pooling-in-float", ort({conv(), Node("AveragePool", 40, "float"), quantize}),
       0.75 * 0.040 + 0.030, 2},
      {"device-copies", ort({copy, conv()}), 0.020, 1},
      {"weights-dequantized-each-run",
       ort({Node("DequantizeLinear", 25, "int8", {8, 8, 3, 3}, 576), conv()}), 0.025, 1},
      {"no-fast-convinteger", ort({Node("ConvInteger", 90, "uint8"), conv()}), 0.045, 1},
      {"signed-activations", ort({Node("QLinearConv", 90, "int8"), conv()}), 0.045, 1},
      {"unsigned-weights", ort({weights("uint8"), weights("int8"), conv()}), 0.045, 1},
      {"dynamic-ranges", ort({Node("DynamicQuantizeLinear", 10, "float"), conv()}), 0.010, 1},
      {"input-conversion", ort({quantize, conv()}), 0.030, 1},
      {"unfused-qdq", ort({conv(), conv(), Node("DequantizeLinear", 10, "uint8")}), 0.010, 1},
      {"reformat-copies",
       vino({Layer("a", 1, "Convolution", "brgconv_I8"),
             Layer("b", 0.2, "Reorder", "reorder_FP32")}),
       0.2, 1},
      {"reference-kernel",
       vino({Layer("a", 1, "Convolution", "brgconv_I8"), Layer("b", 3, "MVN", "ref_any_I8")}), 1.5,
       1},
      {"stays-float",
       vino({Layer("a", 1, "Convolution", "brgconv_I8"),
             Layer("b", 2, "Convolution", "brgconv_FP32")}),
       1.5, 1},
      {"cpu-fallback",
       ort({conv(), fallback, Node("QLinearConv", 9, "uint8", {1}, 0, "CUDAExecutionProvider")}),
       0.180, 2},
  };
  // Those that need a baseline: below.
  std::set<std::string> found = {"int8-layer-slower", "int8-layer-unpaired",
                                 "int8-elementwise-slower",
                                 // torch_trace_test.cc
                                 "host-bound", "copies-each-run",
                                 // openvino_graph_test.cc
                                 "integer-weights-in-float", "zero-points-between",
                                 // tflite_profile_test.cc
                                 "outside-delegate",
                                 // msprof_test.cc
                                 "ai-cpu"};
  for (const Case& c : cases) {
    auto findings = Diagnose(c.run, nullptr).findings;
    if (c.code == "residual-not-quantized") {  // the convolution that adds it is itself in float
      EXPECT_NEAR(LostBy(Diagnose(c.run, nullptr))["stays-float"], 0.75 * 0.050, 1e-12);
      std::erase_if(findings,
                    [](const Finding& f) { return f.rule->code == std::string("stays-float"); });
    }
    ASSERT_EQ(findings.size(), 1u) << c.code;
    EXPECT_EQ(findings[0].rule->code, c.code);
    EXPECT_NEAR(findings[0].ms, c.ms, 1e-12) << c.code;
    EXPECT_EQ(findings[0].layers.size(), c.layers) << c.code;
    found.insert(c.code);
  }
  const std::string docs = ReadTextFile(EVOQ_SOURCE_DIR "/docs/foreign-profiles.md").value();
  for (const ProfileRule* rule : AllProfileRules()) {
    EXPECT_TRUE(found.count(rule->code)) << rule->code << " has no case";
    EXPECT_NE(docs.find("\n| " + std::string(rule->code) + " | "), std::string::npos)
        << rule->code << " has no row in docs/foreign-profiles.md";
    for (const char* text : {rule->sentence, rule->fix, rule->source})
      EXPECT_NE(*text, '\0') << rule->code;
  }
  const ForeignRun slow = vino({Layer("a", 2, "Convolution", "x_I8")}),
                   fast = vino({Layer("a", 1, "Convolution", "x_FP32")});
  EXPECT_NEAR(LostBy(Diagnose(slow, &fast)).at("int8-layer-slower"), 1, 1e-9);
  EXPECT_EQ(LostBy(Diagnose(fast, &slow)).count("int8-layer-slower"), 0);
  const ForeignRun two = vino({Layer("b", 2, "Convolution", "x_I8"),
                               Layer("c", 3, "Convolution", "x_I8")}),
                   before = vino({Layer("d", 1, "Convolution", "x_FP32"),
                                  Layer("e", 2.5, "Convolution", "x_FP32")});
  EXPECT_EQ(LostBy(Diagnose(two, &before)),
            (std::map<std::string, double>{{"int8-layer-slower", 0.5}, {"int8-layer-unpaired", 0}}))
      << "3 is more than both, 2 more than one of them";
}

// Signed activations in Q/DQ form, as ONNX Runtime leaves them: no QLinearConv, but float layers
// beside conversions of int8 of their sizes. The model's input is quantized anyway.
TEST_F(Diagnoses, SignedActivationsBehindPairs) {
  const auto quantize = [](double us, const char* to) {
    json node = Node("QuantizeLinear", us, "float");
    node["args"]["output_type_shape"] = {{{to, {1, 8, 4, 4}}}};
    return node;
  };
  const auto lost = [&](const char* type, const std::vector<int64_t>& dims) {
    const json nodes = {quantize(5, type),
                        Node("DequantizeLinear", 6, type, {1, 8, 4, 4}),
                        Node("DequantizeLinear", 3, type, {8, 8, 3, 3}, 576),
                        Node("Conv", 100, "float", dims),
                        quantize(7, type),
                        Node("DequantizeLinear", 9, type, {1, 8, 4, 4})};
    return LostBy(Diagnose(*Source("onnxruntime").read(Write("ort.json", nodes)), nullptr));
  };
  const auto is_signed = lost("int8", {1, 8, 4, 4});
  EXPECT_NEAR(is_signed.at("signed-activations"), 0.75 * 0.100 + 0.006 + 0.007 + 0.009, 1e-12);
  EXPECT_NEAR(is_signed.at("input-conversion"), 0.005, 1e-12);
  EXPECT_EQ(is_signed.count("stays-float") + is_signed.count("unfused-qdq"), 0u);
  EXPECT_EQ(lost("uint8", {1, 8, 4, 4}).count("signed-activations"), 0u);
  EXPECT_EQ(lost("int8", {1, 8, 2, 2}).count("signed-activations"), 0u) << "it reads another value";
}

// With a baseline, dynamic quantization is still the cause, of all that it costs.
TEST_F(Diagnoses, ConvIntegerBesideABaseline) {
  const auto run = [&](const char* op, double us, const char* type) {
    json node = Node(op, us, type);
    node["name"] = "c_kernel_time";
    return *Source("onnxruntime").read(Write("ort.json", json::array({node})));
  };
  const ForeignRun before = run("Conv", 20, "float");
  const auto lost = [&](double us) {
    return LostBy(Diagnose(run("ConvInteger", us, "uint8"), &before));
  };
  EXPECT_EQ(lost(90).size(), 1u);
  EXPECT_NEAR(lost(90).at("no-fast-convinteger"), 0.070, 1e-12);
  EXPECT_NEAR(lost(30).at("no-fast-convinteger"), 0.015, 1e-12) << "half, where that is more";
}

// Integer activations against all elementwise layers of the baseline, by their shares.
TEST_F(Diagnoses, SlowIntegerActivations) {
  const auto run = [&](const std::vector<json>& nodes) {
    return *Source("onnxruntime").read(Write("ort.json", nodes));
  };
  const ForeignRun slow =
      run({Node("QLinearConv", 10, "uint8"), Node("QLinearSigmoid", 60, "uint8"),
           Node("QLinearMul", 40, "uint8"), Node("Add", 7, "float")});
  const ForeignRun before =
      run({Node("Conv", 40, "float"), Node("QuickGelu", 15, "float"), Node("Add", 5, "float")});
  const Diagnosis d = Diagnose(slow, &before);
  EXPECT_NEAR(LostBy(d).at("int8-elementwise-slower"), 0.080, 1e-12);
  EXPECT_EQ(d.findings[0].layers.size(), 2u);
  EXPECT_EQ(LostBy(Diagnose(slow, nullptr)).count("int8-elementwise-slower"), 0u);
  EXPECT_EQ(LostBy(Diagnose(slow, &slow)).count("int8-elementwise-slower"), 0u);
}

// What two rules claim is counted once, under the first of rules.inc; what is too little to report
// leaves its layers to the others.
TEST_F(Diagnoses, ALayerIsCountedOnce) {
  // The pooling's rule takes the QuantizeLinear behind it, which is an unfused Q/DQ as well; the
  // other one is left to that.
  const json nodes = {Node("QLinearConv", 100, "uint8"), Node("AveragePool", 40, "float"),
                      Node("QuantizeLinear", 30, "float"), Node("QLinearConv", 100, "uint8"),
                      Node("DequantizeLinear", 7, "uint8")};
  const ForeignRun run = *Source("onnxruntime").read(Write("ort.json", nodes));
  EXPECT_EQ(LostBy(Diagnose(run, nullptr)).size(), 2u);
  EXPECT_NEAR(LostBy(Diagnose(run, nullptr))["pooling-in-float"], 0.060, 1e-12);
  EXPECT_NEAR(LostBy(Diagnose(run, nullptr))["unfused-qdq"], 0.007, 1e-12);
  // The residual's rule and the input's: half a microsecond each is not told, and belongs to the
  // conversions of which 1.2 are.
  json residual = Node("FusedConv", 50, "float");
  for (int i = 0; i < 3; ++i) residual["args"]["input_type_shape"].push_back({{"float", {8}}});
  const json small = {Node("QLinearConv", 100, "uint8"), residual,
                      Node("QuantizeLinear", 0.5, "float"), Node("DequantizeLinear", 0.7, "uint8")};
  const Diagnosis d = Diagnose(*Source("onnxruntime").read(Write("ort.json", small)), nullptr);
  ASSERT_EQ(d.findings.size(), 2u);
  EXPECT_STREQ(d.findings[0].rule->code, "stays-float");
  EXPECT_NEAR(d.findings[0].ms, 0.75 * 0.050, 1e-12);
  EXPECT_STREQ(d.findings[1].rule->code, "unfused-qdq");
  EXPECT_NEAR(d.findings[1].ms, 0.0012, 1e-12);
  EXPECT_EQ(d.findings[1].layers.size(), 2u);
}

// The largest loss comes first; losses that are equal, by name. Exactly a microsecond is told.
TEST_F(Diagnoses, FindingsByWhatTheyCost) {
  const json nodes = {Node("QuantizeLinear", 5, "float"), Node("QLinearConv", 100, "uint8"),
                      Node("DequantizeLinear", 9, "uint8"), Node("QLinearConv", 10, "int8"),
                      Node("ConvInteger", 2, "uint8")};
  const Diagnosis d = Diagnose(*Source("onnxruntime").read(Write("ort.json", nodes)), nullptr);
  std::vector<std::string> codes;
  for (const Finding& f : d.findings) codes.push_back(f.rule->code);
  // 9; 5 and half of 10; half of 2 microseconds.
  EXPECT_EQ(codes, (std::vector<std::string>{"unfused-qdq", "input-conversion",
                                             "signed-activations", "no-fast-convinteger"}));
}

// What stands close to a fault and is none.
TEST_F(Diagnoses, LimitsOfTheRules) {
  const auto vino = [&](const std::vector<json>& nodes) {
    return LostBy(
        Diagnose(*Source("benchmark_app")
                      .read(Write("vino.json", {{"avg_performance", {{"nodes", nodes}}}})),
                 nullptr));
  };
  const auto ort = [&](const std::vector<json>& nodes) {
    return LostBy(Diagnose(*Source("onnxruntime").read(Write("ort.json", nodes)), nullptr));
  };
  // A reference kernel counts from 1% of the run on.
  EXPECT_EQ(
      vino({Layer("a", 99.1, "Convolution", "brgconv_I8"), Layer("b", 0.9, "MVN", "ref_any_I8")})
          .count("reference-kernel"),
      0u);
  EXPECT_NEAR(
      vino({Layer("a", 98.9, "Convolution", "brgconv_I8"), Layer("b", 1.1, "MVN", "ref_any_I8")})
          .at("reference-kernel"),
      0.55, 1e-12);
  // The first layer's reorder is the input's, a later one is not.
  const auto reorders =
      vino({Layer("in", 0.25, "Reorder", "r_FP32"), Layer("a", 1, "Convolution", "brgconv_I8"),
            Layer("b", 0.5, "Reorder", "r_FP32")});
  EXPECT_EQ(reorders,
            (std::map<std::string, double>{{"input-conversion", 0.25}, {"reformat-copies", 0.5}}));
  // An integer pooling is none in float, and its neighbours are conversions like others; nor is an
  // integer sum behind a convolution left in float.
  const auto pool = ort({Node("QLinearConv", 100, "uint8"), Node("MaxPool", 40, "uint8"),
                         Node("DequantizeLinear", 30, "uint8")});
  EXPECT_EQ(pool, (std::map<std::string, double>{{"unfused-qdq", 0.030}}));
  json residual = Node("FusedConv", 50, "uint8");
  for (int i = 0; i < 3; ++i) residual["args"]["input_type_shape"].push_back({{"uint8", {8}}});
  EXPECT_EQ(
      ort({Node("QLinearConv", 100, "uint8"), residual, Node("DequantizeLinear", 30, "uint8")}),
      (std::map<std::string, double>{{"unfused-qdq", 0.030}}));
  // Nodes whose provider is not told are not elsewhere.
  EXPECT_TRUE(
      ort({Node("QLinearConv", 100, "uint8"), Node("QLinearConv", 100, "uint8", {1}, 0, "")})
          .empty());
}

TEST_F(Diagnoses, AHealthyRunHasNoFindings) {
  const json nodes = {Node("QLinearConv", 100, "uint8"), Node("QLinearAdd", 10, "uint8"),
                      Node("MaxPool", 10, "uint8"), Node("QGemm", 10, "uint8")};
  EXPECT_TRUE(
      Diagnose(*Source("onnxruntime").read(Write("ort.json", nodes)), nullptr).findings.empty());
  const json floats = {Node("Conv", 100, "float"), Node("Add", 10, "float"),
                       Node("MaxPool", 10, "float")};
  EXPECT_TRUE(
      Diagnose(*Source("onnxruntime").read(Write("ort.json", floats)), nullptr).findings.empty());
}

// Five runs of a profile that ONNX Runtime writes, by hand: the first one, of 3000 us with conv
// 2500, is no measure; conv 100 and 300 us in two of the others, gemm 40 in one (branches), runs of
// 500, 700, 900 and 600 us; an event of another kind and one that never ended do not count.
TEST_F(Diagnoses, AnOrtProfileByHand) {
  constexpr char kProfile[] = R"([
    {"cat": "Session", "pid": 1, "dur": 9000, "ts": 1, "ph": "X",
     "name": "model_loading_uri", "args": {}},
    {"cat": "Node", "dur": 5, "ts": 2, "ph": "X", "name": "/c/Conv_fence_before",
     "args": {"op_name": "Conv"}},
    {"cat": "Node", "dur": 2500, "ts": 3, "ph": "X", "name": "/c/Conv_kernel_time",
     "args": {"op_name": "Conv", "provider": "CPUExecutionProvider",
     "node_index": "0", "parameter_size": "1856",
     "input_type_shape": [{"float": [1, 3, 8, 8]}, {"float": [16, 3, 3, 3]}, {"float": [16]}],
     "output_type_shape": [{"float": [1, 16, 6, 6]}]}},
    {"cat": "Session", "dur": 3000, "ts": 3, "ph": "X", "name": "model_run", "args": {}},
    {"cat": "Node", "dur": 100, "ts": 3, "ph": "X", "name": "/c/Conv_kernel_time",
     "args": {"op_name": "Conv", "node_index": "0"}},
    {"cat": "Node", "dur": 40, "ts": 4, "ph": "X", "name": "_kernel_time",
     "args": {"op_name": "QGemm", "provider": "CUDAExecutionProvider",
     "node_index": "7", "parameter_size": "x",
     "input_type_shape": [{"uint8": [1, 576]}, {"float": []}, {"uint8": []}, {"int8": [576, 10]}],
     "output_type_shape": [{"uint8": [1, 10]}]}},
    {"cat": "Node", "dur": -3, "ts": 5, "ph": "X", "name": "late_kernel_time",
     "args": {"op_name": "Relu"}},
    {"cat": "Session", "dur": 500, "ts": 6, "ph": "X", "name": "model_run", "args": {}},
    {"cat": "Node", "dur": 300, "ts": 7, "ph": "X", "name": "/c/Conv_kernel_time",
     "args": {"op_name": "Conv", "node_index": "0"}},
    {"cat": "Session", "dur": 700, "ts": 8, "ph": "X", "name": "model_run", "args": {}},
    {"cat": "Session", "dur": 900, "ts": 9, "ph": "X", "name": "model_run", "args": {}},
    {"cat": "Session", "dur": 600, "ts": 10, "ph": "X", "name": "model_run", "args": {}}])";
  ASSERT_TRUE(WriteFileAtomic(At("ort.json"), std::string_view(kProfile)));
  ASSERT_TRUE(
      WriteFileAtomic(At("events.json"), std::string("{\"traceEvents\": ") + kProfile + "}"));
  for (const char* file : {"ort.json", "events.json"}) {
    const auto run = Source("onnxruntime").read(At(file));
    ASSERT_TRUE(run) << run.error().message();
    ASSERT_EQ(run->layers.size(), 2u);
    const ForeignLayer &conv = run->layers[0], &gemm = run->layers[1];
    EXPECT_EQ(conv.name, "/c/Conv");
    EXPECT_EQ(conv.where, "CPUExecutionProvider");
    EXPECT_EQ(conv.group, LayerGroup::kConv);
    EXPECT_EQ(conv.precision, "fp32");
    EXPECT_NEAR(conv.ms, (0.1 + 0.3) / 4, 1e-12);
    EXPECT_EQ(conv.weight_bytes, 1856);
    EXPECT_EQ(conv.weight_count, 16 * 3 * 3 * 3);
    EXPECT_EQ(conv.kernel, (std::vector<int64_t>{3, 3}));
    EXPECT_EQ(conv.inputs[0].dims, (std::vector<int64_t>{1, 3, 8, 8}));
    EXPECT_EQ(conv.outputs[0].dims, (std::vector<int64_t>{1, 16, 6, 6}));
    EXPECT_EQ(gemm.name, "QGemm_7") << "a node without a name";
    EXPECT_EQ(conv.operators, (std::vector<std::string>{"/c/Conv"})) << "to pair layers by";
    EXPECT_EQ(gemm.operators, (std::vector<std::string>{"QGemm_7"}));
    EXPECT_EQ(gemm.group, LayerGroup::kMatMul);
    EXPECT_EQ(gemm.precision, "int8");
    EXPECT_NEAR(gemm.ms, 0.04 / 4, 1e-12) << "per run, though it ran in one";
    EXPECT_EQ(gemm.weight_count, 5760);
    EXPECT_TRUE(gemm.kernel.empty());
    EXPECT_NEAR(run->layer_sum_ms, 0.11, 1e-12);
    EXPECT_NEAR(run->end_to_end_ms, (0.5 + 0.7 + 0.9 + 0.6) / 4, 1e-12);
    EXPECT_EQ(run->weight_bytes, 1856);
    EXPECT_TRUE(run->quantized());
    EXPECT_NEAR(run->GroupMs(LayerGroup::kConv), 0.1, 1e-12);
  }
}

// Without model_run there are as many runs as a node has events at most, and what a run takes in
// all is not known.
// What runs in the subgraphs of an If, Loop or Scan is told before it and within its time: the
// layers of a thread cannot take longer in sum than the run.
TEST_F(Diagnoses, SubgraphsOfAnOrtProfileCountOnce) {
  const auto event = [](const char* name, const char* op, int thread, int ts, int dur) {
    json args = {{"op_name", op}, {"node_index", "0"}};
    return json{{"name", name}, {"tid", thread}, {"ts", ts}, {"dur", dur}, {"args", args}};
  };
  const json profile = {event("a_kernel_time", "Add", 1, 10, 5),
                        event("b_kernel_time", "Conv", 1, 22, 20),  // in the inner Loop, twice
                        event("b_kernel_time", "Conv", 1, 43, 30),
                        event("x_kernel_time", "Relu", 2, 30, 20),  // beside it
                        event("inner_kernel_time", "Loop", 1, 20, 60),
                        event("c_kernel_time", "Mul", 1, 85, 10),
                        event("outer_kernel_time", "If", 1, 15, 100),
                        event("d_kernel_time", "Add", 1, 115, 7),
                        event("model_run", "", 1, 9, 115),
                        event("a_kernel_time", "Add", 1, 210, 5),
                        event("model_run", "", 1, 209, 115)};
  const ForeignRun run = *Source("onnxruntime").read(Write("ort.json", profile));
  std::map<std::string, double> us;
  for (const ForeignLayer& layer : run.layers) us[layer.name] = layer.ms * 2e3;  // of two runs
  const std::map<std::string, double> expected = {
      {"a", 10}, {"b", 50}, {"x", 20}, {"inner", 10}, {"outer", 30}, {"c", 10}, {"d", 7}};
  ASSERT_EQ(us.size(), expected.size());
  for (const auto& [name, own] : expected) EXPECT_NEAR(us[name], own, 1e-9) << name;
}

// On a GPU the host's times are those of launching; kernels behind a node's event are what it
// takes.
TEST_F(Diagnoses, KernelsOfAnOrtProfile) {
  const auto node = [](const char* name, const char* op, const char* provider, double us) {
    json args = {{"op_name", op}, {"provider", provider}, {"node_index", name}};
    return json{{"name", std::string(name) + "_kernel_time"}, {"dur", us}, {"args", args}};
  };
  const auto kernel = [](const char* op, double us) {
    return json{{"name", "sgemm_128"}, {"cat", "Kernel"}, {"dur", us}, {"args", {{"op_name", op}}}};
  };
  json profile = {node("c", "Conv", "CUDAExecutionProvider", 5),
                  kernel("Conv", 300),
                  kernel("Conv", 100),
                  node("r", "Reshape", "CUDAExecutionProvider", 3),
                  node("n", "NonZero", "CPUExecutionProvider", 50),
                  {{"name", "model_run"}, {"dur", 600}}};
  const auto read = [&] { return *Source("onnxruntime").read(Write("ort.json", profile)); };
  const ForeignRun device = read();
  ASSERT_EQ(device.layers.size(), 3u);
  EXPECT_NEAR(device.layers[0].ms, 0.4, 1e-12);
  EXPECT_EQ(device.layers[1].ms, 0) << "launches nothing";
  EXPECT_NEAR(device.layers[2].ms, 0.05, 1e-12);
  EXPECT_EQ(device.note, "");
  profile[1] = kernel("MatMul", 300);  // whose is it?
  const ForeignRun strays = read();
  EXPECT_NEAR(strays.layers[0].ms, 0.005, 1e-12);
  EXPECT_NE(strays.note.find("not what they take"), std::string::npos);
  profile.erase(profile.begin() + 1, profile.begin() + 3);
  EXPECT_NE(read().note, "");
  EXPECT_NE(ToText(strays, nullptr, {}).find("in sum\n  note: of nodes on a GPU "),
            std::string::npos);
  EXPECT_EQ(ToJson(strays, nullptr, {})["note"], strays.note);
  profile[0] = node("c", "Conv", "CPUExecutionProvider", 5);
  profile[1] = node("r", "Reshape", "CPUExecutionProvider", 3);
  EXPECT_EQ(read().note, "");
}

// What a process wrote that was stopped: no bracket closes it, and its last event may be cut.
TEST_F(Diagnoses, AnOrtProfileThatIsNotClosed) {
  const std::string event = R"({"name": "a_kernel_time", "dur": 3, "args": {"op_name": "Conv"}})";
  const auto read = [&](const std::string& text) {
    EXPECT_TRUE(WriteFileAtomic(At("ort.json"), text));
    return Source("onnxruntime").read(At("ort.json"));
  };
  for (const char* end : {"", ",", ",\n", ",\n{\"name\": \"a_ker"}) {
    const auto run = read("[\n" + event + ",\n" + event + end);
    ASSERT_TRUE(run) << run.error().message();
    ASSERT_EQ(run->layers.size(), 1u);
    EXPECT_NE(run->note.find("not closed"), std::string::npos);
    EXPECT_EQ(ToText(*run, nullptr, {}).find("1 layers"), std::string::npos);
  }
  EXPECT_EQ(read("[" + event + "]")->note, "");
  for (const char* text : {"[", "", "{\"a\": {},", "[{\"name\""}) EXPECT_FALSE(read(text)) << text;
}

// Old versions: an index under another name, or nothing but the operator.
TEST_F(Diagnoses, NamelessNodesOfOldOrtProfiles) {
  const auto layers = [&](const json& first, const json& second) {
    const auto node = [](const json& args, int us) {
      return json{{"name", "_kernel_time"}, {"dur", us}, {"args", args}};
    };
    const json run = {{"name", "model_run"}, {"dur", 400}};
    const json profile = {node(first, 100), node(second, 200), run,
                          node(first, 100), node(second, 200), run};
    const ForeignRun read = *Source("onnxruntime").read(Write("ort.json", profile));
    std::map<std::string, double> ms;
    for (const ForeignLayer& layer : read.layers) ms[layer.name] = layer.ms;
    return ms;
  };
  EXPECT_EQ(layers({{"op_name", "Conv"}, {"graph_index", "4"}},
                   {{"op_name", "Conv"}, {"graph_index", "9"}}),
            (std::map<std::string, double>{{"Conv_4", 0.1}, {"Conv_9", 0.2}}));
  EXPECT_EQ(layers({{"op_name", "Conv"}}, {{"op_name", "Conv"}}),
            (std::map<std::string, double>{{"Conv_0", 0.1}, {"Conv_1", 0.2}}));
}

TEST_F(Diagnoses, AnOrtProfileWithoutRuns) {
  json nodes = json::array({Node("Conv", 100, "float"), Node("Relu", 30, "float")});
  nodes.push_back(nodes[0]);
  nodes[2]["dur"] = 300;
  const ForeignRun run = *Source("onnxruntime").read(Write("ort.json", nodes));
  ASSERT_EQ(run.layers.size(), 2u);
  EXPECT_NEAR(run.layers[0].ms, 0.2, 1e-12);
  EXPECT_NEAR(run.layers[1].ms, 0.015, 1e-12);
  EXPECT_EQ(run.end_to_end_ms, 0);
}

// benchmark_app's report of averages by hand, with what it writes beside it; one of two detailed
// runs counts half.
TEST_F(Diagnoses, ABenchmarkAppReportByHand) {
  constexpr char kNodes[] = R"([
    {"name": "conv1", "status": "EXECUTED", "node_type": "Convolution",
     "exec_type": "brgconv_avx512_core_vnni_I8", "real_time": 2.0, "cpu_time": 9},
    {"name": "const", "status": "NOT_RUN", "node_type": "Const",
     "exec_type": "unknown_FP32", "real_time": 7.0, "cpu_time": 7},
    {"name": "to_bf16", "status": "EXECUTED", "node_type": "Convert",
     "exec_type": "unknown_FP32", "real_time": 0.25, "cpu_time": 0.25},
    {"name": "conv_pool", "status": "EXECUTED", "node_type": "Transpose",
     "exec_type": "jit_BF16", "real_time": 0.5, "cpu_time": 0.5},
    {"name": "q", "status": "EXECUTED", "node_type": "FakeQuantize",
     "exec_type": "jit_FP32", "real_time": -1, "cpu_time": 0.5}])";
  const std::string average = At("average.json"), detailed = At("detailed.json");
  ASSERT_TRUE(WriteFileAtomic(
      average,
      fmt::format(R"({{"avg_performance": {{"nodes": {}, "total_real_time": 1}}}})", kNodes)));
  ASSERT_TRUE(WriteFileAtomic(
      detailed,
      fmt::format(R"({{"detailed_performance": [{{"nodes": {0}}}, {{"nodes": [{1}]}}]}})", kNodes,
                  R"({"name": "conv1", "status": "EXECUTED", "node_type": "Convolution", )"
                  R"("real_time": 4.0})")));
  auto run = Source("benchmark_app").read(average);
  ASSERT_TRUE(run) << run.error().message();
  EXPECT_EQ(run->end_to_end_ms, 0) << "nothing beside it says so";
  ASSERT_TRUE(WriteFileAtomic(At("benchmark_report.json"),
                              std::string_view(
                                  R"({"execution_results": {"latency_median": "3.75"},
              "configuration_setup": {"target_device": "CPU"}})")));
  run = Source("benchmark_app").read(average);
  ASSERT_TRUE(run) << run.error().message();
  ASSERT_EQ(run->layers.size(), 4u);
  const char* const names[] = {"conv1", "to_bf16", "conv_pool", "q"};
  const char* const precisions[] = {"int8", "fp32", "bf16", "fp32"};
  const LayerGroup groups[] = {LayerGroup::kConv, LayerGroup::kReformatQdq, LayerGroup::kOther,
                               LayerGroup::kReformatQdq};
  const Conversion conversions[] = {Conversion::kNone, Conversion::kReformat, Conversion::kNone,
                                    Conversion::kQuantize};
  const double ms[] = {2.0, 0.25, 0.5, 0};
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(run->layers[i].precision, precisions[i]) << i;
    EXPECT_EQ(run->layers[i].group, groups[i]) << i;
    EXPECT_EQ(run->layers[i].conversion, conversions[i]) << i;
    EXPECT_NEAR(run->layers[i].ms, ms[i], 1e-12) << i;
    EXPECT_EQ(run->layers[i].operators, (std::vector<std::string>{names[i]})) << "to pair by";
  }
  EXPECT_NEAR(run->layer_sum_ms, 2.75, 1e-12);
  EXPECT_NEAR(run->end_to_end_ms, 3.75, 1e-12);
  EXPECT_EQ(run->device, "CPU");
  run = Source("benchmark_app").read(detailed);
  ASSERT_TRUE(run) << run.error().message();
  EXPECT_NEAR(run->layers[0].ms, 0.5 * 2 + 0.5 * 4, 1e-12);
  EXPECT_NEAR(run->layers[1].ms, 0.5 * 0.25, 1e-12);
  ASSERT_TRUE(WriteFileAtomic(At("benchmark_report.json"), std::string_view("{")));
  EXPECT_FALSE(Source("benchmark_app").read(average));
}

TEST_F(Diagnoses, BadFilesSayWhatWasExpected) {
  const auto error = [](const ForeignSource& source, const std::string& path) {
    auto run = source.read(path);
    return run ? std::string("read") : run.error().message();
  };
  ASSERT_TRUE(WriteFileAtomic(At("text.json"), "no json"));
  EXPECT_NE(error(Source("trtexec"), folder_.string()).find("text.json: not JSON"),
            std::string::npos);
  std::filesystem::remove(At("text.json"));
  EXPECT_NE(error(Source("trtexec"), folder_.string()).find("no profile among 0 JSON files"),
            std::string::npos);
  const std::string bad =
      Write("p.json", {{{"count", 1}}, {{"name", "Conv"}, {"averageMs", "fast"}}});
  EXPECT_NE(error(Source("trtexec"), bad).find("entry 1 (Conv): averageMs is missing or negative"),
            std::string::npos);
  EXPECT_NE(error(Source("onnxruntime"), bad).find("no node events"), std::string::npos);
  EXPECT_NE(error(Source("benchmark_app"), bad).find("no executed nodes"), std::string::npos);
  ASSERT_TRUE(WriteFileAtomic(At("deep.json"), std::string(100000, '[')));
  EXPECT_NE(error(Source("onnxruntime"), At("deep.json")).find("nested deeper"), std::string::npos);
  for (const ForeignSource* source : AllForeignSources()) {
    const auto none = source->read(At("nosuch"));
    ASSERT_FALSE(none) << source->tool;
    EXPECT_EQ(none.error().code(), ErrorCode::kNotFound) << source->tool;
    EXPECT_NE(none.error().message().find("nosuch"), std::string::npos) << none.error().message();
    EXPECT_EQ(none.error().message().find("JSON files"), std::string::npos)
        << none.error().message();
  }
  // Of a file that is named itself, whatever its name: what is wrong with it. In a folder, files of
  // other kinds are passed over and not counted.
  ASSERT_TRUE(WriteFileAtomic(At("profile.txt"), std::string("no json")));
  EXPECT_NE(error(Source("trtexec"), At("profile.txt")).find("profile.txt: not JSON"),
            std::string::npos);
  std::filesystem::remove(At("deep.json"));
  std::filesystem::remove(bad);
  Write("times.json", {{{"latencyMs", 1}}});
  EXPECT_NE(error(Source("trtexec"), folder_.string()).find("no profile among 1 JSON file;"),
            std::string::npos)
      << error(Source("trtexec"), folder_.string());
}

}  // namespace
}  // namespace evoq
