// Execution graphs of OpenVINO, in the forms that its CPU and GPU plugins write.
#include <fmt/format.h>

#include "foreign/profiles/test_files.h"
#include "foreign/profiles/xml_tags.h"

namespace evoq {
namespace {

// A port and its sizes: "U8 1 8 4 4".
std::string Port(int id, const std::string& tensor) {
  std::string out =
      fmt::format("<port id=\"{}\" precision=\"{}\">", id, tensor.substr(0, tensor.find(' ')));
  for (size_t at = tensor.find(' '); at != tensor.npos; at = tensor.find(' ', at + 1))
    out += fmt::format("<dim>{}</dim>", tensor.substr(at + 1, tensor.find(' ', at + 1) - at - 1));
  return out + "</port>\n";
}

struct Node {
  const char* name;
  const char* type;
  const char* us;  // or "not_executed"
  const char* kernel;
  const char* precision;
  std::vector<std::pair<int, const char*>> inputs;  // what wrote it, and its tensor
  const char* output;
  const char* originals = "";
};

class OpenvinoGraph : public ProfileFiles {
 protected:
  // Ids are places in the list.
  std::string Graph(const std::vector<Node>& nodes) const {
    std::string layers, edges;
    for (size_t i = 0; i < nodes.size(); ++i) {
      const Node& node = nodes[i];
      layers += fmt::format(
          "<layer id=\"{0}\" name=\"{1}\" type=\"{2}\">\n<data execOrder=\"{0}\" "
          "execTimeMcs=\"{3}\" originalLayersNames=\"{6}\" primitiveType=\"{4}\" "
          "runtimePrecision=\"{5}\" />\n",
          i, node.name, node.type, node.us, node.kernel, node.precision, node.originals);
      int port = 0;
      if (!node.inputs.empty()) layers += "<input>";
      for (const auto& [writer, tensor] : node.inputs) {
        edges += fmt::format(
            "<edge from-layer=\"{}\" from-port=\"9\" to-layer=\"{}\" to-port=\"{}\"/>\n", writer, i,
            port);
        layers += Port(port++, tensor);
      }
      if (!node.inputs.empty()) layers += "</input>";
      layers += "<output>" + Port(9, node.output) + "</output></layer>\n";
    }
    return "<?xml version=\"1.0\"?>\n<net name=\"n\" version=\"11\"><layers>\n" + layers +
           "</layers>\n<edges>\n" + edges + "</edges></net>\n";
  }
  Result<ForeignRun> Of(const std::string& text) const {
    EXPECT_TRUE(WriteFileAtomic(At("exec.xml"), text));
    return Source("openvino").read(At("exec.xml"));
  }
  std::string Error(const std::string& text) const {
    const auto run = Of(text);
    return run ? "" : run.error().message();
  }
};

constexpr const char* kWide = "FP32 1 8 4 4";
constexpr const char* kBytes = "U8 1 8 4 4";

// uint8 weights: made float once, when the model was loaded, which is no part of a run, and a
// convolution in float, of which the model's Q/DQ pairs want another thing.
const std::vector<Node> kUnsignedWeights = {
    {"x", "Input", "not_executed", "unknown_I8", "u8", {}, kBytes},
    {"w", "Const", "not_executed", "unknown_I8", "u8", {}, "U8 8 1 3 3"},
    {"s", "Eltwise", "700", "jit_avx512_I8", "u8", {{1, "U8 8 1 3 3"}}, "BF16 8 1 3 3"},
    {"r", "Reshape", "not_executed", "unknown_I8", "u8", {{2, "BF16 8 1 3 3"}}, "BF16 8 1 1 3 3"},
    {"q", "Subgraph", "30", "jit_avx512_I8", "u8", {{0, kBytes}}, "BF16 1 8 4 4", "Convert_1"},
    {"c",
     "Convolution",
     "200",
     "brgconv_avx512_bf16",
     "bf16",
     {{4, "BF16 1 8 4 4"}, {3, "BF16 8 1 1 3 3"}, {4, "BF16 1 8 4 4"}},
     "BF16 1 8 4 4",
     "Conv_1,Relu_2,QuantizeLinear_3"}};

TEST_F(OpenvinoGraph, WeightsThatBecomeFloat) {
  ASSERT_TRUE(
      WriteFileAtomic(At("benchmark_report.csv"), "target device;CPU\nlatency (ms);0.25\n"));
  const auto run = Of(Graph(kUnsignedWeights));
  ASSERT_TRUE(run) << run.error().message();
  EXPECT_EQ(run->tool, "openvino");
  EXPECT_EQ(run->device, "CPU");
  EXPECT_EQ(run->end_to_end_ms, 0.25);
  EXPECT_TRUE(run->detailed && run->in_order);
  ASSERT_EQ(run->layers.size(), 2u) << "the Eltwise ran once, not in each run";
  EXPECT_NEAR(run->layer_sum_ms, 0.23, 1e-12);
  EXPECT_EQ(run->layers[0].group, LayerGroup::kElementwise);
  const ForeignLayer& conv = run->layers[1];
  EXPECT_EQ(conv.group, LayerGroup::kConv);
  EXPECT_EQ(conv.precision, "bf16");
  EXPECT_EQ(conv.where, "brgconv_avx512_bf16");
  EXPECT_EQ(conv.kernel, (std::vector<int64_t>{3, 3}));
  EXPECT_EQ(conv.weight_count, 72);
  EXPECT_EQ(conv.weight_bytes, 144);
  EXPECT_EQ(conv.operators, (std::vector<std::string>{"Conv_1", "Relu_2", "QuantizeLinear_3"}));
  EXPECT_TRUE(conv.has_residual);
  EXPECT_TRUE(conv.inputs[1].constant && conv.inputs[1].of_integers);
  EXPECT_EQ(LostBy(Diagnose(*run, nullptr)),
            (std::map<std::string, double>{{"integer-weights-in-float", 0.5 * 0.2}}));
  // Of a float model, fed with bytes, nothing is to be said.
  std::vector<Node> nodes = kUnsignedWeights;
  nodes[1].output = "FP32 8 1 3 3";
  nodes.push_back({"i", "If", "9", "unknown_I8", "u8", {{5, "U8 1"}}, kWide});
  const auto in_float = Of(Graph(nodes));
  EXPECT_EQ(LostBy(Diagnose(*in_float, nullptr)), (std::map<std::string, double>{}));
  EXPECT_EQ(in_float->layers[0].precision, "") << "the caller's bytes";
  EXPECT_EQ(in_float->layers[2].precision, "") << "a condition";
}

// What an integer convolution wrote, in float for a zero point and in integers again: by a layer of
// its own, or within the sum that follows.
TEST_F(OpenvinoGraph, ZeroPointsBetweenIntegers) {
  const auto run = Of(Graph(
      {{"w", "Const", "not_executed", "unknown_I8", "i8", {}, "I8 8 8 3 3"},
       {"x", "FakeQuantize", "5", "jit_avx512_f32", "f32", {{9, kWide}}, kBytes},
       {"c", "Convolution", "90", "brgconv_I8", "u8", {{1, kBytes}, {0, "I8 8 8 3 3"}}, kBytes},
       {"t", "Convert", "20", "ref_I8", "u8", {{2, kBytes}}, "BF16 1 8 4 4"},
       {"m", "Eltwise", "10", "jit_bf16", "bf16", {{3, "BF16 1 8 4 4"}}, kBytes},
       {"d", "Convolution", "80", "brgconv_I8", "u8", {{4, kBytes}, {0, "I8 8 8 3 3"}}, kBytes},
       {"u", "Convert", "7", "ref_I8", "u8", {{5, kBytes}}, kWide},
       {"o", "Reorder", "3", "jit_f32", "f32", {{6, kWide}}, kWide},
       {"f", "FakeQuantize", "4", "jit_f32", "f32", {{7, kWide}}, kBytes},
       {"p", "Pooling", "6", "jit_i8", "i8", {{8, kBytes}}, kBytes}}));
  ASSERT_TRUE(run) << run.error().message();
  EXPECT_EQ(run->layers[2].conversion, Conversion::kDequantize);
  const auto lost = LostBy(Diagnose(*run, nullptr));
  EXPECT_NEAR(lost.at("zero-points-between"), 0.020 + 0.010 + 0.007 + 0.003 + 0.004, 1e-12);
  EXPECT_NEAR(lost.at("input-conversion"), 0.005, 1e-12);
  EXPECT_EQ(lost.size(), 2u);
}

// A GPU's graph says nothing of precisions but in its kernels; older versions name the type in the
// data. Attention is one generated layer.
TEST_F(OpenvinoGraph, OtherForms) {
  const auto run = Of(R"(<net name="n"><layers>
<!-- > "not a tag -->
<layer id='1' name="a&amp;b&lt;&#x41;" type="ExecutionNode">
  <data execOrder="2" execTimeMcs="500" layerType="Convolution" originalLayersNames="conv,relu"
        primitiveType="convolution_gpu_bfyx_to_bfyx_f16"/><output><port id="1"/></output></layer>
<layer id="0" name="m" type="Subgraph"><data execOrder="1" execTimeMcs="7.5" x=">"
  originalLayersNames="/a/MatMul,/a/Softmax"/></layer>
<layer id="2" name="l" type="Loop"><data execOrder="3" execTimeMcs="9"/><body><layers>
  <layer id="0" name="i" type="Add"><data execOrder="0" execTimeMcs="8"/></layer></layers></body>
</layer></layers></net>)");
  ASSERT_TRUE(run) << run.error().message();
  ASSERT_EQ(run->layers.size(), 3u);
  EXPECT_EQ(run->layers[0].group, LayerGroup::kMatMul);
  EXPECT_EQ(run->layers[0].ms, 7.5e-3);
  EXPECT_EQ(run->layers[1].name, "a&b<&#x41;");
  EXPECT_EQ(run->layers[1].type, "Convolution");
  EXPECT_EQ(run->layers[1].precision, "fp16");
  EXPECT_EQ(run->layers[2].ms, 9e-3) << "what runs in a loop is part of it";
}

TEST_F(OpenvinoGraph, WhatIsNone) {
  EXPECT_NE(Error("<net><layers><layer id=\"0\" name=\"a\" type=\"Add\"/></layers></net>")
                .find("no layer with execTimeMcs; expected an execution graph"),
            std::string::npos);
  std::vector<Node> nodes = kUnsignedWeights;
  for (Node& node : nodes) node.us = "not_executed";
  EXPECT_NE(Error(Graph(nodes)).find("none of its 6 layers has a time (not_executed)"),
            std::string::npos);
  nodes[5].us = "-3";
  EXPECT_NE(Error(Graph(nodes))
                .find("layer 'c': execTimeMcs '-3', expected microseconds or not_executed"),
            std::string::npos);
  EXPECT_NE(Error("<layer id='0' name='a'/><layer id='0' name='b'/>")
                .find("layer 'b': id 0 a second time"),
            std::string::npos);
  EXPECT_NE(Error("<net>\n<layer id=\"0\"").find("line 2: a tag that is not closed"),
            std::string::npos);
  EXPECT_NE(Error("<net>\n\n<layer id=0>").find("line 3: 'id=0' in the tag 'layer', expected"),
            std::string::npos);
  EXPECT_NE(Error("<!DOCTYPE a [<!ENTITY b \"c\">]>").find("line 1: '<!DOCTYPE"),
            std::string::npos);
  EXPECT_NE(Error("<!-- ").find("a tag that is not closed"), std::string::npos);
  // Edges in a ring, ports of no layer, sizes that no machine has.
  nodes = kUnsignedWeights;
  nodes[3].inputs = {{3, "BF16 8 1 3 3"}};
  nodes[5].inputs[1].second = "BF16 9223372036854775807 8 -1 3 3";
  nodes[5].inputs[2].first = 77;
  const auto run = Of(Graph(nodes) + "<port id=\"1\"/><dim>8</dim></layer></net>");
  ASSERT_TRUE(run) << run.error().message();
  EXPECT_EQ(run->layers.back().weight_count, 0);
}

// `explain FILE` asks what a file holds.
TEST_F(OpenvinoGraph, IsKnownByItsContent) {
  const auto tool = [](const Result<ForeignFile>& found) {
    return !found ? found.error().message() : found->source ? found->source->tool : "none";
  };
  ASSERT_TRUE(Of(Graph(kUnsignedWeights)));
  EXPECT_EQ(tool(FindForeignFile(At("exec.xml"))), "openvino");
  EXPECT_EQ(tool(FindForeignFile(folder_.string())), "openvino");
  EXPECT_EQ(FindForeignFile(folder_.string())->path, At("exec.xml"));
  const std::map<std::string, std::string> heads = {
      {"[{\"count\": 1}, {\"name\": \"a\", \"timeMs\": 1}]", "trtexec"},
      {"[{\"cat\": \"Node\", \"name\": \"a_kernel_time\"}]", "onnxruntime"},
      {"layerName;execStatus;layerType\n", "benchmark_app"},
      {"{\"schemaVersion\": 1, \"deviceProperties\": []}", "pytorch"},
      {"{\"architectures\": []}", "none"},
      {"{\"vocab\": {\"Layers\": 7, \"Operator\": 8}}", "none"},
      {"{\"Layers\": [\"conv1\"], \"Bindings\": []}", "trtexec"},
      {std::string("\x08\x09\x00 execTimeMcs=", 15), "none"},
      {"", "none"}};
  for (const auto& [head, expected] : heads) {
    ASSERT_TRUE(WriteFileAtomic(At("f"), head));
    EXPECT_EQ(tool(FindForeignFile(At("f"))), expected) << head;
  }
  EXPECT_EQ(tool(FindForeignFile(At("missing"))), "none");
  std::filesystem::remove(At("f"));
  ASSERT_TRUE(WriteFileAtomic(At("r.csv"), "layerName;execStatus\n"));
  EXPECT_EQ(tool(FindForeignFile(folder_.string())),
            folder_.string() + ": exec.xml and r.csv are profiles: name one of them");
  std::filesystem::remove(At("exec.xml"));
  std::filesystem::remove(At("r.csv"));
  Write("a.json", {{"Layers", nlohmann::json::array()}});
  Write("b.json", {{{"count", 1}}, {{"timeMs", 1}}});
  EXPECT_EQ(FindForeignFile(folder_.string())->path, folder_.string());
}

}  // namespace
}  // namespace evoq
