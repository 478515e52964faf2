// Quantization parameters on the way in and out: axes, columns, zero points. Values by hand.
#include <gtest/gtest.h>

#include <limits>
#include <map>

#include "onnx/onnx.h"
#include "onnx/proto.h"
#include "onnx/text_testing.h"
#include "reference/reference.h"

namespace evoq {
namespace {

constexpr char kOutput[] = "output { name: 'y' type { tensor_type { elem_type: 1 } } } ";

std::vector<float> Values(const Result<Graph>& graph, const std::vector<Tensor>& inputs) {
  EXPECT_TRUE(graph) << graph.error().message();
  if (!graph) return {};
  const auto y = EvaluateGraph(*graph, inputs);
  EXPECT_TRUE(y) << y.error().message();
  if (!y) return {};
  return {y->at(0).data<float>(), y->at(0).data<float>() + y->at(0).elements()};
}

// w = [[1, 2, 3], [4, 5, 6]] with a scale per column: the default axis is 1, whether the scales are
// constants or not.
constexpr char kColumns[] =
    "initializer { name: 'w' data_type: 3 dims: 2 dims: 3 int32_data: 1 int32_data: 2 int32_data: "
    "3 int32_data: 4 int32_data: 5 int32_data: 6 } ";
constexpr char kScales[] =
    "initializer { name: 's' data_type: 1 dims: 3 float_data: 1 float_data: 0.5 float_data: 0.25 "
    "} ";

TEST(DequantizeLinear, DefaultAxisOfConstants) {
  const auto graph =
      text::Import(13, std::string(kColumns) + kScales + kOutput +
                           "input { name: 'x' type { tensor_type { elem_type: 1 shape { dim { "
                           "dim_value: 1 } } } } } "
                           "node { op_type: 'DequantizeLinear' input: 'w' input: 's' output: 'd' }"
                           "node { op_type: 'Add' input: 'd' input: 'x' output: 'y' }");
  ASSERT_TRUE(graph) << graph.error().message();
  EXPECT_EQ(graph->value(graph->FindValue("w_quantized")).type.ToString(),
            "int8[2, 3](3 scales on axis 1)")
      << Print(*graph);
  EXPECT_EQ(Values(graph, {Tensor::FromValues<float>(Shape{1}, {0})}),
            (std::vector<float>{1, 1, 0.75f, 4, 2.5f, 1.5f}));
}

TEST(DequantizeLinear, DefaultAxisOfComputedScales) {
  const auto graph = text::Import(
      13, std::string(kColumns) + kOutput +
              "input { name: 's' type { tensor_type { elem_type: 1 shape { dim { "
              "dim_value: 3 } } } } } "
              "node { op_type: 'DequantizeLinear' input: 'w' input: 's' output: 'y' }");
  EXPECT_EQ(Values(graph, {Tensor::FromValues<float>(Shape{3}, {1, 0.5f, 0.25f})}),
            (std::vector<float>{1, 1, 0.75f, 4, 2.5f, 1.5f}));
}

// A square w tells axis 1 from axis 0, and -1 from 0.
TEST(DequantizeLinear, DefaultAxisOfASquare) {
  for (const auto& [attribute, expected] : std::map<std::string, std::vector<float>>{
           {"", {1, 1, 3, 2}},
           {"attribute { name: 'axis' type: INT i: 0 }", {1, 2, 1.5f, 2}},
           {"attribute { name: 'axis' type: INT i: -1 }", {1, 1, 3, 2}}}) {
    const auto graph = text::Import(
        13, std::string(
                "initializer { name: 'w' data_type: 3 dims: 2 dims: 2 int32_data: 1 int32_data: 2 "
                "int32_data: 3 int32_data: 4 } "
                "initializer { name: 's' data_type: 1 dims: 2 float_data: 1 float_data: 0.5 } ") +
                kOutput +
                "input { name: 'x' type { tensor_type { elem_type: 1 shape { dim { dim_value: 1 } "
                "} } } } "
                "node { op_type: 'DequantizeLinear' input: 'w' input: 's' output: 'd' " +
                attribute +
                " }"
                "node { op_type: 'Add' input: 'd' input: 'x' output: 'y' }");
    EXPECT_EQ(Values(graph, {Tensor::FromValues<float>(Shape{1}, {0})}), expected) << attribute;
  }
}

// a' = (3, 5) - 1 times 0.5 = (1, 2). Columns of b' in real numbers: (1, 4), (1, 2.5), (0.75, 1.5).
// a b = (9, 6, 3.75). The bias (2, 4, 8) has the scales 0.5 * (1, 0.5, 0.25): (1, 1, 1). With alpha
// 2: 2 * (10, 7, 4.75).
TEST(QGemm, ScalesPerColumn) {
  for (const bool transposed : {false, true}) {
    const std::string w =
        transposed ? "initializer { name: 'w' data_type: 3 dims: 3 dims: 2 int32_data: 1 "
                     "int32_data: 4 int32_data: 2 int32_data: 5 int32_data: 3 int32_data: 6 } "
                   : std::string(kColumns);
    const auto graph = text::Import(
        13, w + kScales + kOutput +
                "initializer { name: 'sa' data_type: 1 float_data: 0.5 } initializer { "
                "name: 'za' data_type: 2 int32_data: 1 } "
                "initializer { name: 'zw' data_type: 3 dims: 3 int32_data: 0 "
                "int32_data: 0 int32_data: 0 } "
                "initializer { name: 'b' data_type: 6 dims: 3 int32_data: 2 "
                "int32_data: 4 int32_data: 8 } "
                "input { name: 'a' type { tensor_type { elem_type: 2 shape { dim { "
                "dim_value: 1 } dim { dim_value: 2 } } } } } "
                "node { op_type: 'QGemm' domain: 'com.microsoft' input: 'a' input: "
                "'sa' input: 'za' input: 'w' input: 's' input: 'zw' input: 'b' "
                "output: 'y' attribute { name: 'alpha' type: FLOAT f: 2 } attribute { "
                "name: 'transB' type: INT i: " +
                (transposed ? "1" : "0") + " } }");
    ASSERT_TRUE(graph) << graph.error().message();
    const ValueId wid = graph->FindValue("w_quantized");
    ASSERT_TRUE(wid.valid()) << Print(*graph);
    EXPECT_EQ(graph->value(wid).type.ToString(),
              transposed ? "int8[3, 2](3 scales on axis 0)" : "int8[2, 3](3 scales on axis 1)");
    TensorType type(DType::kUint8, Shape{1, 2});
    const TensorType& wanted = graph->value(graph->inputs()[0]).type;
    Tensor a = Tensor::Allocate(wanted.quantized() ? wanted : type);
    a.mutable_raw()[0] = std::byte{3}, a.mutable_raw()[1] = std::byte{5};
    EXPECT_EQ(Values(graph, {a}), (std::vector<float>{20, 14, 9.5f})) << transposed;
  }
}

// ---- types through operators that move integers

// uint8 input -> Flatten, 2,000 times -> DequantizeLinear: the type goes back to the input, in one
// walk.
TEST(Types, ReachTheInputThroughMoves) {
  onnx::ModelProto model;
  model.set_ir_version(8);
  model.add_opset_import()->set_version(13);
  auto& graph = *model.mutable_graph();
  graph.set_name("g");
  auto& input = *graph.add_input();
  input.set_name("v0");
  input.mutable_type()->mutable_tensor_type()->set_elem_type(onnx::TensorProto::UINT8);
  for (int size : {1, 2})
    input.mutable_type()->mutable_tensor_type()->mutable_shape()->add_dim()->set_dim_value(size);
  const auto add = [&](const std::string& op, std::vector<std::string> inputs,
                       const std::string& output) {
    auto& node = *graph.add_node();
    node.set_op_type(op);
    for (const auto& in : inputs) node.add_input(in);
    node.add_output(output);
  };
  for (int i = 0; i < 2000; ++i)
    add("Flatten", {"v" + std::to_string(i)}, "v" + std::to_string(i + 1));
  add("DequantizeLinear", {"v2000", "s", "z"}, "y");
  auto& scale = *graph.add_initializer();
  scale.set_name("s"), scale.set_data_type(onnx::TensorProto::FLOAT), scale.add_float_data(0.5f);
  auto& zero = *graph.add_initializer();
  zero.set_name("z"), zero.set_data_type(onnx::TensorProto::UINT8), zero.add_int32_data(7);
  graph.add_output()->set_name("y");
  const std::string bytes = model.SerializeAsString();
  const auto made = ImportOnnxBytes(std::as_bytes(std::span(bytes)), "test.onnx");
  ASSERT_TRUE(made) << made.error().message();
  EXPECT_EQ(made->value(made->inputs()[0]).type.ToString(), "uint8[1, 2](scale 0.5, zero 7)");
}

// x -> QuantizeLinear -> Clip of the integers -> DequantizeLinear.
Result<Graph> Clipped(const std::string& low, const std::string& high, int zero) {
  const auto constant = [](const char* name, const std::string& value) {
    return fmt::format("initializer {{ name: '{}' data_type: 2 int32_data: {} }} ", name, value);
  };
  return text::Import(
      13, "initializer { name: 's' data_type: 1 float_data: 0.3 } " +
              constant("z", std::to_string(zero)) + constant("low", low) + constant("high", high) +
              "input { name: 'x' type { tensor_type { elem_type: 1 shape { dim { dim_value: 6 } } "
              "} } } node { op_type: 'QuantizeLinear' input: 'x' input: 's' input: 'z' output: 'q' "
              "} node { name: 'clip' op_type: 'Clip' input: 'q' input: 'low' input: 'high' output: "
              "'c' } node { op_type: 'DequantizeLinear' input: 'c' input: 's' input: 'z' output: "
              "'y' } " +
              kOutput);
}

TEST(Types, ClipsOfIntegersGoInFront) {
  const auto all = Clipped("0", "255", 2), some = Clipped("1", "15", 2),
             left = Clipped("3", "15", 2), crossed = Clipped("2", "1", 2);
  ASSERT_TRUE(all && some && left && crossed);
  const auto type = [](const Graph& graph) {
    return graph.value(graph.FindValue("q")).type.ToString();
  };
  EXPECT_EQ(type(*all), "uint8[6](scale 0.3, zero 2)");
  EXPECT_EQ(type(*some), "uint8[6](scale 0.3, zero 2)");
  EXPECT_EQ(type(*left), "uint8[6]") << "NaN becomes the zero point, then 3";
  EXPECT_EQ(type(*crossed), "uint8[6]");
  EXPECT_EQ(all->order().size(), 2u) << Print(*all);
  EXPECT_TRUE(some->FindNode("clip_real").valid()) << Print(*some);
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const std::vector<Tensor> x = {
      Tensor::FromValues<float>(Shape{6}, {-100, -0.2f, nan, 3.7f, 3.8f, 100})};
  const auto real = [](int q) { return static_cast<float>(q - 2) * 0.3f; };
  EXPECT_EQ(Values(some, x),
            (std::vector<float>{real(1), real(1), real(2), real(14), real(15), real(15)}));
  EXPECT_EQ(Values(all, x),
            (std::vector<float>{real(0), real(1), real(2), real(14), real(15), real(255)}));
  EXPECT_EQ(Values(left, x),
            (std::vector<float>{real(3), real(3), real(3), real(14), real(15), real(15)}));
}

// Two readers of one Concat that see other parameters: no value of the group gets a type, and the
// results are ONNX's.
TEST(Types, AGroupAgreesOrHasNone) {
  const std::string text =
      "input { name: 'a' type { tensor_type { elem_type: 2 shape { dim { dim_value: 2 } } } } } "
      "input { name: 'b' type { tensor_type { elem_type: 2 shape { dim { dim_value: 1 } } } } } "
      "initializer { name: 's' data_type: 1 float_data: 0.5 } initializer { name: 't' data_type: 1 "
      "float_data: 2 } "
      "initializer { name: 'z' data_type: 2 int32_data: 1 } "
      "node { op_type: 'Concat' input: 'a' input: 'b' output: 'c' attribute { name: 'axis' type: "
      "INT i: 0 } } "
      "node { op_type: 'DequantizeLinear' input: 'c' input: 's' input: 'z' output: 'd' } ";
  const auto values = [&](const char* scale_of_a) {
    return text::Import(
        13, text + kOutput + "node { op_type: 'DequantizeLinear' input: 'a' input: '" + scale_of_a +
                "' input: 'z' output: 'e' } "
                "node { op_type: 'Concat' input: 'd' input: 'e' output: 'y' attribute { name: "
                "'axis' type: INT i: 0 } }");
  };
  const auto agreed = values("s"), differing = values("t");
  ASSERT_TRUE(agreed && differing);
  EXPECT_EQ(agreed->value(agreed->FindValue("b")).type.ToString(), "uint8[1](scale 0.5, zero 1)");
  EXPECT_EQ(differing->value(differing->FindValue("b")).type.ToString(), "uint8[1]");
  EXPECT_EQ(differing->value(differing->FindValue("a")).type.ToString(), "uint8[2]");
  const std::vector<Tensor> inputs = {Tensor::FromValues<uint8_t>(Shape{2}, {3, 5}),
                                      Tensor::FromValues<uint8_t>(Shape{1}, {1})};
  EXPECT_EQ(Values(differing, inputs), (std::vector<float>{1, 2, 0, 4, 8}));
}

// 1, -0.5, 6, 0.5 of float4e2m1 in blocks of 2, times 2 and 0.25; the scales as float32 and, in
// float8e8m0, as exponents 1 and -2.
TEST(DequantizeLinear, BlocksOfFloat4) {
  using text::Constant, text::Import, text::Int, text::Node;
  const std::string w = Constant("w", 23, {4, 1}, {0x92, 0x17}), x = text::Input("x", 1, {1, 4}),
                    y = text::Output("y"), product = Node("MatMul", {"x", "d"}, {"y"});
  const auto dequantize = [](const text::Names& inputs, const std::string& more) {
    return Node("DequantizeLinear", inputs, {"d"}, Int("axis", 0) + Int("block_size", 2) + more);
  };
  const std::string floats = Constant("s", 1, {2, 1}, {2, 0.25}),
                    exponents = Constant("s", 24, {2, 1}, {128, 125}),
                    zeros = Constant("z", 23, {2, 1}, {0});
  const Tensor ones = Tensor::FromValues<float>(Shape{1, 4}, {1, 10, 100, 1000});
  for (const std::string& row :
       {floats + dequantize({"w", "s"}, ""), floats + zeros + dequantize({"w", "s", "z"}, ""),
        exponents + dequantize({"w", "s"}, Int("output_dtype", 1))}) {
    const auto graph = Import(24, w + x + row + product + y);
    ASSERT_TRUE(graph) << graph.error().message();
    EXPECT_TRUE(graph->FindValue("w_quantized").valid()) << Print(*graph);
    EXPECT_EQ(Values(graph, {ones}), (std::vector<float>{2 - 10 + 150 + 125})) << row;
  }
}

// ---- out

onnx::TensorProto Initializer(const onnx::GraphProto& graph, const std::string& name) {
  for (const auto& tensor : graph.initializer()) {
    if (tensor.name() == name) return tensor;
  }
  ADD_FAILURE() << "no initializer " << name;
  return {};
}

// ONNX wants the zero point in the type of the integers: the operator's output type is read from
// it.
TEST(Export, ZeroPointsHaveTheTypeOfTheirIntegers) {
  struct Row {
    const char* type;
    int zero;
    int number;         // ONNX's, of the type
    std::string bytes;  // of the zero point
  };
  const Row rows[] = {{"uint8", 200, onnx::TensorProto::UINT8, "\xc8"},
                      {"int8", -3, onnx::TensorProto::INT8, "\xfd"},
                      {"uint16", 40000, onnx::TensorProto::UINT16, "\x40\x9c"},
                      {"int16", -2, onnx::TensorProto::INT16, "\xfe\xff"},
                      {"int4", -3, 22, "\x0d"},
                      {"uint4", 9, 21, "\x09"},
                      {"int2", -2, 26, "\x02"},
                      {"uint2", 3, 25, "\x03"}};
  for (const Row& row : rows) {
    SCOPED_TRACE(row.type);
    const auto graph = ParseGraph(fmt::format(
        "graph g\ninput %x: float32[2]\nq: %q: {}[2](scale 0.5, zero {}) = QuantizeLinear(%x)\n"
        "d: %y: float32[2] = DequantizeLinear(%q)\noutput %y\n",
        row.type, row.zero));
    ASSERT_TRUE(graph) << graph.error().message();
    const onnx::GraphProto made = text::Exported(*graph).graph();
    const onnx::TensorProto zero = Initializer(made, "q/zero_point");
    EXPECT_EQ(zero.data_type(), row.number);
    EXPECT_EQ(zero.dims_size(), 0);
    EXPECT_EQ(zero.raw_data(), row.bytes);
    EXPECT_EQ(Initializer(made, "q/scale").data_type(), onnx::TensorProto::FLOAT);
  }
}

// Zero points 1, -2 and 3 of three rows, two nibbles to a byte, low ones first: 0xe1, 0x03.
TEST(Export, ZeroPointsPerChannel) {
  Graph graph;
  const QuantParams q{{0.5f, 1, 2}, {1, -2, 3}, 0, 0};
  const ValueId w =
      graph.AddConstant("w", Tensor::Allocate(TensorType(DType::kInt4, Shape{3, 2}, q)));
  graph.MarkOutput(
      graph.Apply("DequantizeLinear", "y", {w}, {}, TensorType(DType::kFloat32, Shape{3, 2})));
  const onnx::GraphProto made = text::Exported(graph).graph();
  const onnx::TensorProto zero = Initializer(made, "w/zero_point");
  EXPECT_EQ(zero.data_type(), 22);  // INT4
  ASSERT_EQ(zero.dims_size(), 1);
  EXPECT_EQ(zero.dims(0), 3);
  EXPECT_EQ(zero.raw_data(), "\xe1\x03");
  for (const auto& node : made.node()) {
    if (node.op_type() != "DequantizeLinear") continue;
    ASSERT_EQ(node.attribute_size(), 1);
    EXPECT_EQ(node.attribute(0).name(), "axis");
    EXPECT_EQ(node.attribute(0).i(), 0);
  }
}

}  // namespace
}  // namespace evoq
