#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <map>
#include <set>

#include "base/file.h"
#include "base/json_file.h"
#include "doctor/rule.h"
#include "doctor/source.h"

namespace evoq {
namespace {

using nlohmann::json;

class Doctor : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::temp_directory_path() / ("evoq_doctor_" + std::to_string(getpid()));
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  std::string At(const std::string& name) const { return (folder_ / name).string(); }
  std::string Write(const std::string& name, const json& value) const {
    EXPECT_TRUE(WriteFileAtomic(At(name), value.dump()));
    return At(name);
  }
  std::filesystem::path folder_;
};

const ForeignSource& Source(const std::string& tool) {
  for (const ForeignSource* source : AllForeignSources()) {
    if (tool == source->tool) return *source;
  }
  std::abort();
}

std::string DataFolder() {
  const char* set = std::getenv("EVOQ_DATA");
  return std::string(set ? set : EVOQ_SOURCE_DIR "/../shared/data") + "/trtexec";
}

std::map<std::string, double> LostBy(const Diagnosis& diagnosis) {
  std::map<std::string, double> lost;
  for (const Finding& f : diagnosis.findings) lost[f.rule->code] = f.ms;
  return lost;
}

TEST_F(Doctor, ResNet18OnAnA100) {
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
  EXPECT_NEAR(lost.at("residual-not-quantized"), 0.0276 + 0.0276 + 0.0276 + 0.0184 + 0.0184 + 0.0143 + 0.0154 + 0.0143 - 0.0276, 1e-3);
  EXPECT_GT(lost.at("pooling-in-float"), 0.1);
  EXPECT_GT(lost.at("int8-layer-slower"), 0.08);
  double sum = diagnosis.ideal_ms + diagnosis.below_ideal_ms;
  for (const auto& [code, ms] : lost) sum += ms;
  EXPECT_NEAR(sum, int8->layer_sum_ms, 1e-9);
  EXPECT_TRUE(Diagnose(*fp16, nullptr).findings.size() <= 2);  // its input's reformat and its output's
}

TEST_F(Doctor, NamesAloneTellTheSameGroups) {
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
    EXPECT_NEAR(names->GroupMs(group) + gemm, detailed->GroupMs(group), 1e-9) << LayerGroupName(group);
  }
  const auto lost = LostBy(Diagnose(*names, nullptr));
  EXPECT_NEAR(lost.at("residual-not-quantized"), 0.136, 1e-3);
  EXPECT_TRUE(lost.count("pooling-in-float"));
}

TEST_F(Doctor, NamesOfFusedLayers) {
  EXPECT_EQ(GroupOf("", "resnetv15_conv0_fwd + resnetv15_relu0_fwd + resnetv15_pool0_fwd"), LayerGroup::kConv);
  EXPECT_EQ(GroupOf("", "/layer1/conv1/_input_quantizer/QuantizeLinear"), LayerGroup::kReformatQdq);
  EXPECT_EQ(GroupOf("", "conv1.weight + QuantizeLinear_7 + Conv_9"), LayerGroup::kConv);
  EXPECT_EQ(GroupOf("", "/avgpool/GlobalAveragePool"), LayerGroup::kPooling);
  EXPECT_EQ(GroupOf("", "Reformatting CopyNode for Input Tensor 0 to Conv_5"), LayerGroup::kReformatQdq);
  EXPECT_EQ(GroupOf("", "PWN(PWN(/act/Sigmoid), /act/Mul)"), LayerGroup::kElementwise);
  EXPECT_EQ(GroupOf("CaskPooling", "conv_pool"), LayerGroup::kPooling);
  EXPECT_EQ(GroupOf("QLinearConv", "x"), LayerGroup::kConv);
  EXPECT_EQ(GroupOf("Myelin", "{ForeignNode[a...b]}"), LayerGroup::kOther);
  EXPECT_EQ(PrecisionIn("Channel major FP16 format where channel % 8 == 0"), "fp16");
  EXPECT_EQ(PrecisionIn("brgconv_avx512_core_vnni_U8"), "int8");
  EXPECT_EQ(PrecisionIn("bfloat16"), "bf16");
  EXPECT_EQ(PrecisionIn("Half"), "fp16");
}

// One executed node of an ONNX Runtime profile.
json Node(const std::string& op, double us, const std::string& type, std::vector<int64_t> dims = {1, 8, 4, 4}, int parameters = 0,
          const std::string& provider = "CPUExecutionProvider") {
  static int index = 0;
  const std::string name = op + std::to_string(++index);
  return {{"cat", "Node"}, {"ph", "X"}, {"name", name + "_kernel_time"}, {"dur", us}, {"ts", 0},
          {"args", {{"op_name", op}, {"provider", provider}, {"node_index", std::to_string(index)}, {"parameter_size", std::to_string(parameters)},
                    {"input_type_shape", {{{type, dims}}}}, {"output_type_shape", {{{type, dims}}}}}}};
}

json Layer(const std::string& name, double ms, const std::string& type, const std::string& exec) {
  return {{"name", name}, {"status", "EXECUTED"}, {"node_type", type}, {"exec_type", exec}, {"real_time", ms}, {"cpu_time", ms}};
}

// For each rule a run in which it finds something. The completeness test below fails for a rule without one.
TEST_F(Doctor, EveryRuleFindsItsFault) {
  const json conv = Node("QLinearConv", 100, "uint8");
  const auto ort = [&](std::vector<json> nodes) {
    nodes.push_back(conv);
    return *Source("onnxruntime").read(Write("ort.json", nodes));
  };
  const auto vino = [&](std::vector<json> nodes) {
    return *Source("benchmark_app").read(Write("vino.json", {{"avg_performance", {{"nodes", nodes}}}}));
  };
  const json quantize = Node("QuantizeLinear", 30, "float");
  json residual = Node("FusedConv", 50, "float");
  for (int i = 0; i < 3; ++i) residual["args"]["input_type_shape"].push_back({{"float", {8}}});
  const std::map<std::string, ForeignRun> cases = {
      {"residual-not-quantized", ort({conv, residual, quantize})},
      {"pooling-in-float", ort({conv, Node("AveragePool", 40, "float"), quantize})},
      {"device-copies", ort({Node("MemcpyToHost", 20, "float"), conv})},
      {"weights-dequantized-each-run", ort({Node("DequantizeLinear", 25, "int8", {8, 8, 3, 3}, 576)})},
      {"no-fast-convinteger", ort({Node("ConvInteger", 90, "uint8")})},
      {"signed-activations", ort({Node("QLinearConv", 90, "int8")})},
      {"dynamic-ranges", ort({Node("DynamicQuantizeLinear", 10, "float")})},
      {"input-conversion", ort({quantize, conv})},
      {"unfused-qdq", ort({conv, conv, Node("DequantizeLinear", 10, "uint8")})},
      {"reformat-copies", vino({Layer("a", 1, "Convolution", "brgconv_I8"), Layer("b", 0.2, "Reorder", "reorder_FP32")})},
      {"reference-kernel", vino({Layer("a", 1, "Convolution", "brgconv_I8"), Layer("b", 3, "MVN", "ref_any_I8")})},
      {"stays-float", vino({Layer("a", 1, "Convolution", "brgconv_I8"), Layer("b", 2, "Convolution", "brgconv_FP32")})},
      {"cpu-fallback", ort({conv, Node("ScatterND", 80, "float", {1}, 0), Node("QLinearConv", 9, "uint8", {1}, 0, "CUDAExecutionProvider")})},
  };
  std::set<std::string> found = {"int8-layer-slower"};  // needs a baseline: below
  for (const auto& [code, run] : cases) {
    EXPECT_GT(LostBy(Diagnose(run, nullptr))[code], 0) << code;
    found.insert(code);
  }
  for (const DoctorRule* rule : AllDoctorRules()) {
    EXPECT_TRUE(found.count(rule->code)) << rule->code << " has no case";
    for (const char* text : {rule->sentence, rule->fix, rule->source}) EXPECT_NE(*text, '\0') << rule->code;
  }
  const ForeignRun slow = vino({Layer("a", 2, "Convolution", "x_I8")}), fast = vino({Layer("a", 1, "Convolution", "x_FP32")});
  EXPECT_NEAR(LostBy(Diagnose(slow, &fast)).at("int8-layer-slower"), 1, 1e-9);
  EXPECT_EQ(LostBy(Diagnose(fast, &slow)).count("int8-layer-slower"), 0);
}

TEST_F(Doctor, AHealthyRunHasNoFindings) {
  const json nodes = {Node("QLinearConv", 100, "uint8"), Node("QLinearAdd", 10, "uint8"), Node("MaxPool", 10, "uint8"), Node("QGemm", 10, "uint8")};
  EXPECT_TRUE(Diagnose(*Source("onnxruntime").read(Write("ort.json", nodes)), nullptr).findings.empty());
  const json floats = {Node("Conv", 100, "float"), Node("Add", 10, "float"), Node("MaxPool", 10, "float")};
  EXPECT_TRUE(Diagnose(*Source("onnxruntime").read(Write("ort.json", floats)), nullptr).findings.empty());
}

TEST_F(Doctor, RunsOfAnOrtProfileAreAveraged) {
  json nodes = json::array({Node("Conv", 100, "float")});
  nodes.push_back(nodes[0]);
  nodes[1]["dur"] = 300;
  nodes.push_back({{"cat", "Session"}, {"name", "model_run"}, {"dur", 500}});
  nodes.push_back({{"cat", "Session"}, {"name", "model_run"}, {"dur", 700}});
  const ForeignRun run = *Source("onnxruntime").read(Write("ort.json", nodes));
  ASSERT_EQ(run.layers.size(), 1);
  EXPECT_NEAR(run.layers[0].ms, 0.2, 1e-9);
  EXPECT_NEAR(run.end_to_end_ms, 0.6, 1e-9);
}

TEST_F(Doctor, BadFilesSayWhatWasExpected) {
  const auto error = [](const ForeignSource& source, const std::string& path) {
    auto run = source.read(path);
    return run ? std::string("read") : run.error().message();
  };
  ASSERT_TRUE(WriteFileAtomic(At("text.json"), "no json"));
  EXPECT_NE(error(Source("trtexec"), folder_.string()).find("text.json: not JSON"), std::string::npos);
  std::filesystem::remove(At("text.json"));
  EXPECT_NE(error(Source("trtexec"), folder_.string()).find("no profile among 0 JSON files"), std::string::npos);
  const std::string bad = Write("p.json", {{{"count", 1}}, {{"name", "Conv"}, {"averageMs", "fast"}}});
  EXPECT_NE(error(Source("trtexec"), bad).find("entry 1 (Conv): averageMs is missing or negative"), std::string::npos);
  EXPECT_NE(error(Source("onnxruntime"), bad).find("no node events"), std::string::npos);
  EXPECT_NE(error(Source("benchmark_app"), bad).find("no executed nodes"), std::string::npos);
  ASSERT_TRUE(WriteFileAtomic(At("deep.json"), std::string(100000, '[')));
  EXPECT_NE(error(Source("onnxruntime"), At("deep.json")).find("nested deeper"), std::string::npos);
  EXPECT_NE(error(Source("onnxruntime"), At("none.json")).find("none.json"), std::string::npos);
}

}  // namespace
}  // namespace evoq
