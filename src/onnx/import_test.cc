// The importer on small models written as protobuf text.
#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>

#include "base/file.h"
#include "onnx/onnx.h"
#include "onnx/proto.h"
#include "reference/reference.h"

namespace evoq {
namespace {

using ::testing::HasSubstr;

std::string Serialized(const std::string& text) {
  onnx::ModelProto model;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &model)) << text;
  return model.SerializeAsString();
}

Result<Graph> ImportText(const std::string& text) {
  const std::string bytes = Serialized(text);
  return ImportOnnxBytes(std::as_bytes(std::span(bytes)), "test.onnx");
}

std::string Opset(int version) {
  return fmt::format("ir_version: 8 opset_import {{ version: {} }} ", version);
}

std::string Info(const std::string& name, int type, const std::string& dims) {
  return fmt::format("{{ name: '{}' type {{ tensor_type {{ elem_type: {} shape {{ {} }} }} }} }}",
                     name, type, dims);
}

std::string ErrorOf(const Result<Graph>& graph) {
  return graph ? "imported" : graph.error().message();
}

TEST(Import, KeepsNamesSymbolsAndFacts) {
  const auto graph = ImportText(
      Opset(13) +
      "producer_name: 'me' metadata_props { key: 'k' value: 'v' } graph { name: 'g' input " +
      Info("x", 1, "dim { dim_param: 'N' } dim { dim_value: 3 }") + " output " + Info("y", 1, "") +
      " node { op_type: 'Identity' input: 'm' output: 'y' }"
      " node { op_type: 'Identity' input: 'x' output: 'm' } }");
  ASSERT_TRUE(graph) << ErrorOf(graph);
  EXPECT_EQ(graph->value(graph->FindValue("y")).type.ToString(), "float32[N, 3]");
  EXPECT_TRUE(graph->FindNode("Identity_1").valid()) << Print(*graph);
  EXPECT_EQ(graph->metadata.at("onnx.producer_name"), "me");
  EXPECT_EQ(graph->metadata.at("onnx.opset"), "13");
  EXPECT_EQ(graph->metadata.at("k"), "v");
}

// Some exporters call all unknown dimensions so; they may differ.
TEST(Import, AQuestionMarkNamesNoDimension) {
  const char* dims = "dim { dim_param: '?' } dim { dim_param: '?' } dim { dim_param: 'N?' }";
  auto graph = ImportText(Opset(13) + "graph { name: 'g' input " + Info("x", 1, dims) + " output " +
                          Info("y", 1, "") + " node { op_type: 'Relu' input: 'x' output: 'y' } }");
  ASSERT_TRUE(graph) << ErrorOf(graph);
  const Shape& x = graph->value(graph->FindValue("x")).type.shape;
  EXPECT_TRUE(x[0].symbol.empty() || x[0].symbol != x[1].symbol) << x.ToString();
  EXPECT_EQ(x[2].symbol, "N?");
  const auto bound = BindShapes(*graph, {{"x", {2, 3, 4}}});
  EXPECT_TRUE(bound) << bound.error().message();
}

// "float32[1, 2]" at elem_type 1 and so on; dims are numbers.
std::string Shaped(const std::string& name, int type, std::initializer_list<int> dims) {
  std::string text;
  for (int d : dims) text += fmt::format("dim {{ dim_value: {} }} ", d);
  return Info(name, type, text);
}

std::string FloatList(const std::string& name, std::initializer_list<int> dims,
                      std::initializer_list<float> values) {
  std::string text = fmt::format("{{ name: '{}' data_type: 1 ", name);
  for (int d : dims) text += fmt::format("dims: {} ", d);
  for (float v : values) text += fmt::format("float_data: {} ", v);
  return text + "}";
}

std::string IntList(const std::string& name, int type, std::initializer_list<int> dims,
                    std::initializer_list<int> values) {
  std::string text = fmt::format("{{ name: '{}' data_type: {} ", name, type);
  for (int d : dims) text += fmt::format("dims: {} ", d);
  for (int v : values) text += fmt::format("{}: {} ", type == 7 ? "int64_data" : "int32_data", v);
  return text + "}";
}

std::string NodeText(const std::string& op, std::initializer_list<const char*> inputs,
                     std::initializer_list<const char*> outputs, const std::string& rest = "") {
  std::string text = fmt::format("node {{ op_type: '{}' ", op);
  for (const char* in : inputs) text += fmt::format("input: '{}' ", in);
  for (const char* out : outputs) text += fmt::format("output: '{}' ", out);
  return text + rest + " } ";
}

std::string IntAttr(const std::string& name, int value) {
  return fmt::format("attribute {{ name: '{}' type: INT i: {} }} ", name, value);
}

// The text of a model with one float input x[1, 2, 3] and one output y.
std::string Model(int opset, const std::string& nodes, const std::string& initializers = "",
                  int output_type = 1) {
  return Opset(opset) + "graph { name: 'g' input " + Shaped("x", 1, {1, 2, 3}) +
         " output { name: 'y' type { tensor_type { elem_type: " + std::to_string(output_type) +
         " } } } " + initializers + nodes + "}";
}

std::vector<float> Evaluated(const Result<Graph>& graph, const std::vector<float>& x) {
  EXPECT_TRUE(graph) << ErrorOf(graph);
  if (!graph) return {};
  const auto y = EvaluateGraph(*graph, std::vector{Tensor::FromValues<float>(Shape{1, 2, 3}, x)});
  EXPECT_TRUE(y) << y.error().message();
  if (!y) return {};
  const auto real = ToFloat32(y->at(0));
  return std::vector<float>(real->data<float>(), real->data<float>() + real->elements());
}

const std::vector<float> kX = {-2, -1, 0, 1, 2, 3};

TEST(Upgrade, ClipAttributesBecomeInputs) {
  const auto graph = ImportText(
      Model(6, NodeText("Clip", {"x"}, {"y"}, "attribute { name: 'max' type: FLOAT f: 1.5 }")));
  EXPECT_EQ(Evaluated(graph, kX), (std::vector<float>{-2, -1, 0, 1, 1.5, 1.5}));
}

TEST(Upgrade, SliceAndUnsqueezeAttributesBecomeInputs) {
  const auto graph = ImportText(Model(
      9, NodeText("Slice", {"x"}, {"s"},
                  "attribute { name: 'starts' type: INTS ints: 1 } "
                  "attribute { name: 'ends' type: INTS ints: 99 } attribute { name: 'axes' type: "
                  "INTS ints: 2 }") +
             NodeText("Unsqueeze", {"s"}, {"y"}, "attribute { name: 'axes' type: INTS ints: 0 }")));
  EXPECT_EQ(Evaluated(graph, kX), (std::vector<float>{-1, 0, 2, 3}));
  EXPECT_EQ(graph->value(graph->outputs()[0]).type.shape.ToString(), "[1, 1, 2, 2]");
}

TEST(Upgrade, OldSoftmaxFlattens) {
  const auto graph = ImportText(Model(11, NodeText("Softmax", {"x"}, {"y"}, IntAttr("axis", 1))));
  const std::vector<float> y = Evaluated(graph, {0, 0, 0, 0, 0, 0});
  EXPECT_FLOAT_EQ(y.at(0), 1.0f / 6);  // over all six values, not over one axis
  const auto last = ImportText(Model(11, NodeText("Softmax", {"x"}, {"y"}, IntAttr("axis", 2))));
  EXPECT_EQ(last->order().size(), 1u) << Print(*last);
}

TEST(Upgrade, UpsampleBecomesResize) {
  const auto graph = ImportText(Model(9, NodeText("Upsample", {"x", "s"}, {"y"}),
                                      "initializer " + FloatList("s", {3}, {1, 1, 2})));
  EXPECT_EQ(Evaluated(graph, kX), (std::vector<float>{-2, -2, -1, -1, 0, 0, 1, 1, 2, 2, 3, 3}));
}

TEST(Upgrade, DropoutVanishesAndItsMaskIsTrue) {
  const auto graph = ImportText(Model(12, NodeText("Dropout", {"x"}, {"a", "y"}), "", 9));
  EXPECT_EQ(Evaluated(graph, kX), (std::vector<float>(6, 1)));
  const auto inner =
      ImportText(Model(12, NodeText("Dropout", {"x"}, {"a"}) + NodeText("Neg", {"a"}, {"y"})));
  EXPECT_EQ(inner->order().size(), 1u) << Print(*inner);
}

TEST(Upgrade, OldBroadcastAlignsAtAnAxis) {
  const auto graph = ImportText(
      Model(6, NodeText("Add", {"x", "b"}, {"y"}, IntAttr("broadcast", 1) + IntAttr("axis", 1)),
            "initializer " + FloatList("b", {2}, {10, 20})));
  EXPECT_EQ(Evaluated(graph, kX), (std::vector<float>{8, 9, 10, 21, 22, 23}));
}

// ---- quantized types

const std::string kGrid =
    "initializer " + FloatList("s", {}, {0.5}) + " initializer " + IntList("z", 2, {}, {128}) + " ";

TEST(Quantized, BetweenQuantizeAndDequantizeIsAType) {
  const auto graph = ImportText(Model(13,
                                      NodeText("QuantizeLinear", {"x", "s", "z"}, {"q"}) +
                                          NodeText("Transpose", {"q"}, {"t"}) +
                                          NodeText("DequantizeLinear", {"t", "s", "z"}, {"y"}),
                                      kGrid));
  ASSERT_TRUE(graph) << ErrorOf(graph);
  EXPECT_EQ(graph->value(graph->FindValue("t")).type.ToString(),
            "uint8[3, 2, 1](scale 0.5, zero 128)");
  for (NodeId id : graph->order()) EXPECT_EQ(graph->node(id).inputs.size(), 1u) << Print(*graph);
  EXPECT_EQ(Evaluated(graph, {-100, 0.3f, 0.2f, 1, 1.25f, 99}),
            (std::vector<float>{-64, 1, 0.5f, 1, 0, 63.5f}));
}

TEST(Quantized, IntegersThatSomeoneReadsAsIntegersStayPlain) {
  const auto graph = ImportText(Model(13,
                                      NodeText("QuantizeLinear", {"x", "s", "z"}, {"q"}) +
                                          NodeText("Cast", {"q"}, {"y"}, IntAttr("to", 1)),
                                      kGrid));
  ASSERT_TRUE(graph) << ErrorOf(graph);
  EXPECT_FALSE(graph->value(graph->FindValue("q")).type.quantized()) << Print(*graph);
  EXPECT_EQ(Evaluated(graph, kX), (std::vector<float>{124, 126, 128, 130, 132, 134}));
}

TEST(Quantized, ReadersThatDisagreeKeepTheirOwnParameters) {
  const auto graph = ImportText(Model(13,
                                      NodeText("QuantizeLinear", {"x", "s", "z"}, {"q"}) +
                                          NodeText("DequantizeLinear", {"q", "s2", "z"}, {"y"}),
                                      kGrid + "initializer " + FloatList("s2", {}, {1})));
  EXPECT_EQ(Evaluated(graph, kX), (std::vector<float>{-4, -2, 0, 2, 4, 6}));
}

TEST(Quantized, AnIntegerToQuantizeKeepsOnnxForm) {
  const auto graph = ImportText(Model(13,
                                      NodeText("Cast", {"x"}, {"i"}, IntAttr("to", 6)) +
                                          NodeText("QuantizeLinear", {"i", "s", "z"}, {"q"}) +
                                          NodeText("DequantizeLinear", {"q", "s", "z"}, {"y"}),
                                      kGrid));
  EXPECT_EQ(Evaluated(graph, kX), kX);
}

TEST(Quantized, PerChannelWeightsAreTypedConstants) {
  const auto graph = ImportText(Model(
      13,
      NodeText("DequantizeLinear", {"w", "sw", "zw"}, {"d"}, IntAttr("axis", 1)) +
          NodeText("MatMul", {"x", "d"}, {"y"}),
      "initializer " + IntList("w", 3, {3, 2}, {1, 2, 3, 4, 5, 6}) + " initializer " +
          FloatList("sw", {2}, {0.5, 2}) + " initializer " + IntList("zw", 3, {2}, {0, 0}) + " "));
  ASSERT_TRUE(graph) << ErrorOf(graph);
  EXPECT_EQ(graph->value(graph->FindValue("w_quantized")).type.ToString(),
            "int8[3, 2](2 scales on axis 1)");
  EXPECT_EQ(Evaluated(graph, {1, 0, 0, 0, 0, 1}), (std::vector<float>{0.5f, 4, 2.5f, 12}));
}

// Exporters hand equal constants on through Identity, or compute them in the graph: parameters of
// quantization are what they come to.
TEST(Quantized, ParametersThatConstantsMake) {
  const auto graph = ImportText(Model(
      13,
      NodeText("Identity", {"z"}, {"z2"}) + NodeText("Identity", {"zw0"}, {"zw"}) +
          NodeText("Cast", {"whole"}, {"w"}, IntAttr("to", 3)) +
          NodeText("Div", {"range", "steps"}, {"sw"}) +
          NodeText("QuantizeLinear", {"x", "s", "z2"}, {"q"}) +
          NodeText("DequantizeLinear", {"q", "s", "z2"}, {"dx"}) +
          NodeText("DequantizeLinear", {"w", "sw", "zw"}, {"dw"}, IntAttr("axis", 1)) +
          NodeText("MatMul", {"dx", "dw"}, {"y"}),
      kGrid + "initializer " + IntList("whole", 6, {3, 2}, {1, 2, 3, 4, 5, 6}) + " initializer " +
          FloatList("range", {2}, {1, 4}) + " initializer " + FloatList("steps", {}, {2}) +
          " initializer " + IntList("zw0", 3, {2}, {0, 0}) + " "));
  ASSERT_TRUE(graph) << ErrorOf(graph);
  EXPECT_EQ(graph->value(graph->FindValue("q")).type.ToString(),
            "uint8[1, 2, 3](scale 0.5, zero 128)")
      << Print(*graph);
  EXPECT_EQ(graph->value(graph->FindValue("w_quantized")).type.ToString(),
            "int8[3, 2](2 scales on axis 1)")
      << Print(*graph);
  for (NodeId id : graph->order()) {
    EXPECT_NE(graph->node(id).op, "Identity");
    EXPECT_NE(graph->node(id).op, "Div");
  }
  EXPECT_EQ(Evaluated(graph, {1, 0, 0, 0, 0, 1}), (std::vector<float>{0.5f, 4, 2.5f, 12}));
}

// What the model's inputs decide stays as it is, and what cannot be computed is named.
TEST(Quantized, ParametersThatInputsMake) {
  const auto graph =
      ImportText(Model(13,
                       NodeText("ReduceMax", {"x"}, {"most"}, IntAttr("keepdims", 0)) +
                           NodeText("QuantizeLinear", {"x", "most", "z"}, {"q"}) +
                           NodeText("DequantizeLinear", {"q", "most", "z"}, {"y"}),
                       kGrid));
  ASSERT_TRUE(graph) << ErrorOf(graph);
  EXPECT_FALSE(graph->value(graph->FindValue("q")).type.quantized());
  const auto broken =
      ImportText(Model(13,
                       NodeText("Reshape", {"s", "shape"}, {"t"}) +
                           NodeText("QuantizeLinear", {"x", "t", "z"}, {"q"}) +
                           NodeText("DequantizeLinear", {"q", "t", "z"}, {"y"}),
                       kGrid + "initializer " + IntList("shape", 7, {1}, {3}) + " "));
  ASSERT_FALSE(broken);
  EXPECT_NE(ErrorOf(broken).find("Reshape"), std::string::npos) << ErrorOf(broken);
}

TEST(Quantized, ADeadChannelWithScaleZeroIsZero) {
  const auto graph =
      ImportText(Model(13,
                       NodeText("DequantizeLinear", {"w", "sw", "zw"}, {"d"}, IntAttr("axis", 0)) +
                           NodeText("Add", {"x", "d"}, {"y"}),
                       "initializer " + IntList("w", 3, {3}, {5, 6, 7}) + " initializer " +
                           FloatList("sw", {3}, {1, 0, 2}) + " initializer " +
                           IntList("zw", 3, {3}, {0, 1, 0}) + " "));
  EXPECT_EQ(Evaluated(graph, {0, 0, 0, 0, 0, 0}), (std::vector<float>{5, 0, 14, 5, 0, 14}));
  EXPECT_TRUE(graph->value(graph->FindValue("w_quantized")).type.quantized()) << Print(*graph);
}

TEST(Quantized, QLinearMatMulBecomesMatMulOnTypes) {
  const auto graph = ImportText(
      Model(13,
            NodeText("QuantizeLinear", {"x", "s", "z"}, {"q"}) +
                NodeText("QLinearMatMul", {"q", "s", "z", "w", "sw", "zw", "s", "z"}, {"m"}) +
                NodeText("DequantizeLinear", {"m", "s", "z"}, {"y"}),
            kGrid + "initializer " + IntList("w", 3, {3, 2}, {1, 0, 0, 1, 0, 0}) + " initializer " +
                FloatList("sw", {}, {1}) + " initializer " + IntList("zw", 3, {}, {0}) + " "));
  ASSERT_TRUE(graph) << ErrorOf(graph);
  EXPECT_EQ(graph->value(graph->FindValue("m")).type.ToString(),
            "uint8[1, 2, 2](scale 0.5, zero 128)")
      << Print(*graph);
  EXPECT_EQ(Evaluated(graph, kX), (std::vector<float>{-2, -1, 1, 2}));
}

TEST(Quantized, QonnxQuantClipsToItsBits) {
  const std::string text =
      Model(11,
            NodeText("Quant", {"x", "s", "z4", "bits"}, {"y"},
                     "domain: 'onnx.brevitas' " + IntAttr("signed", 1) + IntAttr("narrow", 1)),
            "initializer " + FloatList("s", {}, {0.5}) + " initializer " +
                FloatList("z4", {}, {0}) + " initializer " + FloatList("bits", {}, {3}) + " ");
  const auto graph = ImportText("opset_import { domain: 'onnx.brevitas' version: 1 } " + text);
  EXPECT_EQ(Evaluated(graph, {-9, -1.3f, 0.2f, 0.3f, 1.4f, 9}),
            (std::vector<float>{-1.5f, -1.5f, 0, 0.5f, 1.5f, 1.5f}));
}

// ---- tensors and types

TEST(Import, SixteenBitFloatsComputeInFloat32) {
  const auto graph = ImportText(
      Opset(13) + "graph { name: 'g' input " + Shaped("x", 10, {2}) + " output " +
      Shaped("y", 10, {2}) +
      " initializer { name: 'w' data_type: 10 dims: 2 int32_data: 0x3c00 int32_data: 0x4000 }" +
      NodeText("Mul", {"x", "w"}, {"y"}) + "}");
  ASSERT_TRUE(graph) << ErrorOf(graph);
  EXPECT_EQ(graph->value(graph->FindValue("w")).type.ToString(), "float32[2]");
  EXPECT_EQ(graph->value(graph->outputs()[0]).type.ToString(), "float16[2]");
  EXPECT_EQ(graph->value(graph->outputs()[0]).name, "y");
  Tensor x = Tensor::Allocate(TensorType(DType::kFloat16, Shape{2}));
  x.mutable_data<uint16_t>()[0] = x.mutable_data<uint16_t>()[1] = FloatToHalf(3);
  const auto y = EvaluateGraph(*graph, std::vector{x});
  ASSERT_TRUE(y) << y.error().message();
  EXPECT_EQ(HalfToFloat(y->at(0).data<uint16_t>()[1]), 6);
}

// A cast to 16 bits and back rounds; one whose result is computed with is held in 32 bits.
TEST(Import, CastsToSixteenBitsAndBackRound) {
  const auto cast = [](const char* from, const char* to, int type) {
    return NodeText("Cast", {from}, {to},
                    " attribute { name: 'to' type: INT i: " + std::to_string(type) + " }");
  };
  for (const int type : {10, 16}) {
    const auto graph = ImportText(Model(13, cast("x", "narrow", type) + cast("narrow", "wide", 1) +
                                                NodeText("Mul", {"narrow", "narrow"}, {"square"}) +
                                                cast("square", "product", 1) +
                                                NodeText("Add", {"wide", "product"}, {"y"})));
    ASSERT_TRUE(graph) << ErrorOf(graph);
    const std::vector<float> x = {1.001f, 3.14159f, -0.1f, 0, 1e30f, 300.3f};
    const std::vector<float> y = Evaluated(graph, x);
    for (size_t i = 0; i < x.size(); ++i) {
      const float rounded =
          type == 10 ? HalfToFloat(FloatToHalf(x[i])) : Bfloat16ToFloat(FloatToBfloat16(x[i]));
      EXPECT_EQ(y[i], rounded + x[i] * x[i]) << x[i];
    }
  }
}

TEST(Import, NibblesAndBoolsArePackedAsOnnxSays) {
  const auto graph = ImportText(Model(
      21, NodeText("DequantizeLinear", {"w", "s"}, {"d"}) + NodeText("Add", {"x", "d"}, {"y"}),
      "initializer " + FloatList("s", {}, {1}) +
          " initializer { name: 'w' data_type: 22 dims: 3 int32_data: 0xf1 int32_data: 0x08 } "));
  EXPECT_EQ(Evaluated(graph, {0, 0, 0, 0, 0, 0}), (std::vector<float>{1, -1, -8, 1, -1, -8}));
}

TEST(Import, InputsWithInitializersAreConstants) {
  const auto graph = ImportText(
      Model(13, NodeText("Add", {"x", "w"}, {"y"}),
            "input " + Shaped("w", 1, {1}) + " initializer " + FloatList("w", {1}, {7})));
  ASSERT_TRUE(graph) << ErrorOf(graph);
  EXPECT_EQ(graph->inputs().size(), 1u);
  EXPECT_EQ(Evaluated(graph, kX).at(0), 5);
}

TEST(Import, SameNodeNamesAreMadeUnique) {
  const auto graph = ImportText(Model(
      13, NodeText("Neg", {"x"}, {"a"}, "name: 'n'") + NodeText("Neg", {"a"}, {"y"}, "name: 'n'")));
  ASSERT_TRUE(graph) << ErrorOf(graph);
  EXPECT_NE(graph->node(graph->order()[0]).name, graph->node(graph->order()[1]).name);
}

TEST(Import, ExternalDataIsMappedWhereAligned) {
  const auto folder =
      std::filesystem::temp_directory_path() / fmt::format("evoq_onnx_{}", ::getpid());
  std::filesystem::create_directories(folder);
  std::string bytes(64 + 12, '\0');
  const float values[] = {1, 2, 3};
  std::memcpy(bytes.data() + 64, values, 12);
  ASSERT_TRUE(WriteFileAtomic((folder / "w.bin").string(), bytes));
  for (int offset : {64, 60}) {
    const std::string model = Serialized(
        Model(13, NodeText("Add", {"x", "w"}, {"y"}),
              "initializer { name: 'w' data_type: 1 dims: 3 data_location: EXTERNAL external_data "
              "{ key: 'location' value: 'w.bin' } "
              "external_data { key: 'offset' value: '" +
                  std::to_string(offset) + "' } external_data { key: 'length' value: '12' } } "));
    ASSERT_TRUE(WriteFileAtomic((folder / "m.onnx").string(), model));
    const auto graph = ImportOnnx((folder / "m.onnx").string());
    const float wanted = offset == 64 ? 1.0f : 0.0f;
    EXPECT_EQ(Evaluated(graph, kX).at(0), -2 + wanted);
  }
  std::filesystem::remove_all(folder);
}

TEST(Import, ExternalDataOfABufferIsRefused) {
  const auto graph =
      ImportText(Model(13, NodeText("Add", {"x", "w"}, {"y"}),
                       "initializer { name: 'w' data_type: 1 dims: 1 data_location: EXTERNAL "
                       "external_data { key: 'location' value: 'w.bin' } } "));
  EXPECT_THAT(ErrorOf(graph), HasSubstr("of a model read from memory, which has no folder"));
}

// ---- export

TEST(Export, FusedQuantizedGraphReadsBackWithTheSameResults) {
  const auto parsed = ParseGraph(R"(graph g
input %x: float32[1, 2, 3, 3]
const %w: int8[2, 2, 1, 1](scale 0.25, zero 0) = [1, 2, 3, -4]
const %b: int32[2] = [5, -3]
q: %q: uint8[1, 2, 3, 3](scale 0.5, zero 100) = QuantizeLinear(%x)
c: %c: uint8[1, 2, 3, 3](scale 0.125, zero 3) = Conv{activation="Relu"}(%q, %w, %b, %q)
d: %y: float32[1, 2, 3, 3] = DequantizeLinear(%c)
output %y
)");
  ASSERT_TRUE(parsed) << parsed.error().message();
  const std::string path =
      (std::filesystem::temp_directory_path() / fmt::format("evoq_export_{}.onnx", ::getpid()))
          .string();
  const Status written = ExportOnnx(*parsed, path);
  ASSERT_TRUE(written) << written.error().message();
  const auto read = ImportOnnx(path);
  std::filesystem::remove(path);
  ASSERT_TRUE(read) << ErrorOf(read);
  EXPECT_EQ(read->metadata.at("onnx.opset"), "17");
  Tensor x = Tensor::Allocate(TensorType(DType::kFloat32, Shape{1, 2, 3, 3}));
  for (int i = 0; i < 18; ++i) x.mutable_data<float>()[i] = 0.37f * static_cast<float>(i - 6);
  const auto a = EvaluateGraph(*parsed, std::vector{x}), b = EvaluateGraph(*read, std::vector{x});
  ASSERT_TRUE(a && b) << (a ? b.error().message() : a.error().message());
  EXPECT_TRUE(BitEqual(a->at(0), b->at(0)));
}

TEST(Export, NibblesNeedOperatorSet21) {
  const auto parsed = ParseGraph(
      "graph g\ninput %x: float32[1, 2]\nconst %w: int4[2, 2](scale 0.5, zero 0)\n"
      "d: %d: float32[2, 2] = DequantizeLinear(%w)\nm: %y: float32[1, 2] = MatMul(%x, %d)\noutput "
      "%y\n");
  ASSERT_TRUE(parsed) << parsed.error().message();
  const std::string path =
      (std::filesystem::temp_directory_path() / fmt::format("evoq_int4_{}.onnx", ::getpid()))
          .string();
  ASSERT_TRUE(ExportOnnx(*parsed, path));
  const auto read = ImportOnnx(path);
  std::filesystem::remove(path);
  ASSERT_TRUE(read) << ErrorOf(read);
  EXPECT_EQ(read->metadata.at("onnx.opset"), "21");
}

// ONNX wants a rank of every output, also where only the file knows it.
TEST(Export, KeepsTheDeclaredRankOfAnOutput) {
  const auto graph =
      ImportText(Opset(17) + "graph { name: 'g' input " + Info("c", 9, "") + " input " +
                 Shaped("x", 1, {2, 1}) + " output " +
                 Info("y", 1, "dim { dim_param: 'N' } dim { dim_value: 1 }") +
                 " node { op_type: 'If' input: 'c' output: 'y'"
                 " attribute { name: 'then_branch' type: GRAPH g { name: 't' output { name: 'a' } "
                 "node { op_type: 'Identity' input: 'x' output: 'a' } } }"
                 " attribute { name: 'else_branch' type: GRAPH g { name: 'e' output { name: 'b' } "
                 "node { op_type: 'Squeeze' input: 'x' output: 'b' } } } } }");
  ASSERT_TRUE(graph) << ErrorOf(graph);
  EXPECT_FALSE(graph->value(graph->FindValue("y")).type.shape.ranked());
  const auto written = [](const Graph& g) {
    const std::string path =
        (std::filesystem::temp_directory_path() / fmt::format("evoq_rank_{}.onnx", ::getpid()))
            .string();
    EXPECT_TRUE(ExportOnnx(g, path));
    onnx::ModelProto model;
    EXPECT_TRUE(model.ParseFromString(*ReadTextFile(path)));
    std::filesystem::remove(path);
    return model.graph().output(0).type().tensor_type();
  };
  EXPECT_EQ(written(*graph).shape().dim_size(), 2);
  Graph forged = *graph;
  forged.metadata["onnx.output_rank.y"] = "2000000000";
  EXPECT_FALSE(written(forged).has_shape());
}

TEST(Export, LoweredGraphsAreRefused) {
  const auto parsed = ParseGraph(
      "graph g\ninput %x: float32[1, 2, 2, 3]\np: %y: float32[1, 1, 1, 3] = "
      "GlobalAveragePool{channels_last=1}(%x)\noutput %y\n");
  ASSERT_TRUE(parsed) << parsed.error().message();
  const Status status = ExportOnnx(*parsed, "/nowhere/x.onnx");
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code(), ErrorCode::kUnsupported);
}

}  // namespace
}  // namespace evoq
