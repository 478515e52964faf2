// What stands in an exported file, message by message.
#include <gtest/gtest.h>

#include "onnx/text_testing.h"
#include "tensor/normal_float.h"

namespace evoq {
namespace {

Graph Parsed(const std::string& text) {
  auto graph = ParseGraph(text);
  EXPECT_TRUE(graph) << graph.error().message();
  return graph ? std::move(*graph) : Graph();
}

std::string ErrorOf(const Graph& graph) {
  const Status written = ExportOnnx(graph, "/nowhere/x.onnx");
  return written ? "written" : written.error().message();
}

// "name = Op(inputs)" of each node, with names of attributes.
std::vector<std::string> Nodes(const onnx::GraphProto& graph) {
  std::vector<std::string> lines;
  for (const auto& node : graph.node()) {
    std::vector<std::string> attrs;
    for (const auto& attr : node.attribute()) attrs.push_back(attr.name());
    lines.push_back(fmt::format("{}: {} = {}{}({})", node.name(), fmt::join(node.output(), ", "),
                                node.op_type(),
                                attrs.empty() ? "" : fmt::format("{{{}}}", fmt::join(attrs, ", ")),
                                fmt::join(node.input(), ", ")));
  }
  return lines;
}

using Lines = std::vector<std::string>;

// ONNX Runtime takes a mask of Attention only with a row for each query.
TEST(Exported, MasksOfAttentionHaveARowForEachQuery) {
  const auto nodes = [](const std::string& mask, const char* q, const char* attrs) {
    return Nodes(text::Exported(
                     Parsed(fmt::format("graph net\ninput %q: float32[{}]\ninput %m: float32[{}]\n"
                                        "a: %y: float32[{}] = Attention{}(%q, %q, %q, %m)\n"
                                        "output %y\n",
                                        q, mask, q, attrs)))
                     .graph());
  };
  const char* flat = "{kv_num_heads=2, q_num_heads=2}";
  const Lines plain = {"a: y = Attention(q, q, q, m)"};
  EXPECT_EQ(nodes("1, 1, 5, 5", "1, 2, 5, 4", ""), plain);
  EXPECT_EQ(nodes("S, S", "1, 2, S, 4", ""), plain);
  const Lines wide = {"a/mask_shape: a/mask_queries = Shape{end, start}(q)",
                      "a/mask_concat: a/mask_sizes = Concat{axis}(a/mask_queries, a/mask_one)",
                      "a/mask_expand: a/mask_rows = Expand(m, a/mask_sizes)",
                      "a: y = Attention(q, q, q, a/mask_rows)"};
  EXPECT_EQ(nodes("1, 1, 1, 5", "1, 2, 5, 4", ""), wide);
  EXPECT_EQ(nodes("5", "1, 2, 5, 4", ""), wide);
  EXPECT_EQ(nodes("1, 1, ?, ?", "1, 2, ?, 4", ""), wide);
  EXPECT_EQ(nodes("2, 1, 1, 5", "2, 5, 8", flat)[2], wide[2]);
}

TEST(Exported, HeaderSaysWhoAndWhat) {
  Graph graph = Parsed(
      "graph net\ninput %x: float32[N, 2, ?]\nr: %r: float32[N, 2, ?] = Relu(%x)\n"
      "g: %y: float32[N, 2, ?] = com.microsoft::Gelu(%r)\noutput %y\n");
  graph.metadata["author"] = "me";
  graph.metadata["onnx.opset"] = "9";
  const onnx::ModelProto model = text::Exported(graph);
  EXPECT_EQ(model.ir_version(), 8);
  EXPECT_EQ(model.producer_name(), "evoq");
  EXPECT_EQ(model.graph().name(), "net");
  ASSERT_EQ(model.opset_import_size(), 2);
  EXPECT_TRUE(model.opset_import(0).has_domain());
  EXPECT_EQ(model.opset_import(0).domain(), "");
  EXPECT_EQ(model.opset_import(0).version(), 17);
  EXPECT_EQ(model.opset_import(1).domain(), "com.microsoft");
  EXPECT_EQ(model.opset_import(1).version(), 1);
  ASSERT_EQ(model.metadata_props_size(), 1);
  EXPECT_EQ(model.metadata_props(0).key(), "author");
  EXPECT_EQ(model.metadata_props(0).value(), "me");
  const auto& shape = model.graph().input(0).type().tensor_type().shape();
  ASSERT_EQ(shape.dim_size(), 3);
  EXPECT_EQ(shape.dim(0).dim_param(), "N");
  EXPECT_FALSE(shape.dim(0).has_dim_value());
  EXPECT_EQ(shape.dim(1).dim_value(), 2);
  EXPECT_FALSE(shape.dim(1).has_dim_param());
  EXPECT_FALSE(shape.dim(2).has_dim_value() || shape.dim(2).has_dim_param());
  EXPECT_EQ(model.graph().input(0).type().tensor_type().elem_type(), 1);
  EXPECT_EQ(Nodes(model.graph()), (Lines{"r: r = Relu(x)", "g: y = Gelu(r)"}));
  EXPECT_EQ(model.graph().node(1).domain(), "com.microsoft");
  graph.name = "";
  EXPECT_EQ(text::Exported(graph).graph().name(), "graph");
}

// What a file declares of a rank that nobody knows is believed where it can be one.
TEST(Exported, DeclaredRanks) {
  Graph graph;
  const TensorType any(DType::kFloat32, Shape::UnknownRank());
  graph.MarkOutput(graph.Apply("Relu", "y", {graph.AddInput("x", any)}, {}, any));
  const auto rank = [&](const char* fact) {
    graph.metadata.erase("onnx.output_rank.y");
    if (fact != nullptr) graph.metadata["onnx.output_rank.y"] = fact;
    const auto type = text::Exported(graph).graph().output(0).type().tensor_type();
    return type.has_shape() ? type.shape().dim_size() : -1;
  };
  EXPECT_EQ(rank(nullptr), -1);
  EXPECT_EQ(rank("0"), 0);
  EXPECT_EQ(rank("3"), 3);
  EXPECT_EQ(rank("64"), 64);
  for (const char* none : {"65", "-1", "", "many"}) EXPECT_EQ(rank(none), -1) << none;
}

TEST(Exported, ContainersHaveTheirTypes) {
  struct Row {
    ValueKind kind;
    bool optional, sequence;
  };
  for (const Row& row :
       {Row{ValueKind::kTensor, false, false}, Row{ValueKind::kSequence, false, true},
        Row{ValueKind::kOptional, true, false}, Row{ValueKind::kOptionalSequence, true, true}}) {
    Graph graph;
    const TensorType type = TensorType::In(row.kind, DType::kFloat32, Shape{2});
    graph.MarkOutput(graph.Apply("Identity", "y", {graph.AddInput("x", type)}, {}, type));
    const onnx::GraphProto made = text::Exported(graph).graph();
    for (const onnx::TypeProto& to : {made.input(0).type(), made.output(0).type()}) {
      EXPECT_EQ(to.has_optional_type(), row.optional);
      const onnx::TypeProto& held = row.optional ? to.optional_type().elem_type() : to;
      EXPECT_EQ(held.has_sequence_type(), row.sequence);
      const auto& tensor = (row.sequence ? held.sequence_type().elem_type() : held).tensor_type();
      EXPECT_EQ(tensor.elem_type(), 1);
    }
  }
}

// The attribute `type` of Optional is two numbers in the graph.
TEST(Exported, TypeOfAnEmptyOptional) {
  for (const int sequence : {0, 1}) {
    Attrs attrs;
    attrs.Set("type", 7);
    attrs.Set("type_is_sequence", sequence);
    Graph graph;
    graph.MarkOutput(graph.Apply("Optional", "y", {}, attrs));
    const onnx::NodeProto node = text::Exported(graph).graph().node(0);
    ASSERT_EQ(node.attribute_size(), 1) << node.DebugString();
    EXPECT_EQ(node.attribute(0).name(), "type");
    EXPECT_EQ(node.attribute(0).type(), onnx::AttributeProto::TYPE_PROTO);
    const onnx::TypeProto& type = node.attribute(0).tp();
    EXPECT_EQ(type.has_sequence_type(), sequence == 1);
    const auto& tensor = sequence == 1 ? type.sequence_type().elem_type() : type;
    EXPECT_EQ(tensor.tensor_type().elem_type(), 7);
  }
}

TEST(Exported, AttributesOfAllKinds) {
  Attrs attrs;
  attrs.Set("a", 3);
  attrs.Set("b", 0.5f);
  attrs.Set("c", "text");
  attrs.Set("d", AttrValue(std::vector<int64_t>{4, 5}));
  attrs.Set("e", AttrValue(std::vector<float>{1.5f, 2.5f}));
  attrs.Set("f", AttrValue(std::vector<std::string>{"p", "q"}));
  attrs.Set("g", AttrValue(Tensor::FromValues<int64_t>(Shape{1}, {9})));
  attrs.Set("evoq.from", "a note, which is no attribute of ONNX");
  Graph graph;
  const TensorType type(DType::kFloat32, Shape{2});
  graph.MarkOutput(graph.Apply("Relu", "y", {graph.AddInput("x", type)}, attrs, type));
  const onnx::NodeProto node = text::Exported(graph).graph().node(0);
  ASSERT_EQ(node.attribute_size(), 7) << node.DebugString();
  using A = onnx::AttributeProto;
  const A::AttributeType kinds[] = {A::INT,    A::FLOAT,   A::STRING, A::INTS,
                                    A::FLOATS, A::STRINGS, A::TENSOR};
  for (int i = 0; i < 7; ++i) {
    EXPECT_EQ(node.attribute(i).name(), std::string(1, static_cast<char>('a' + i)));
    EXPECT_EQ(node.attribute(i).type(), kinds[i]) << i;
  }
  EXPECT_EQ(node.attribute(0).i(), 3);
  EXPECT_EQ(node.attribute(1).f(), 0.5f);
  EXPECT_EQ(node.attribute(2).s(), "text");
  ASSERT_EQ(node.attribute(3).ints_size(), 2);
  EXPECT_EQ(node.attribute(3).ints(1), 5);
  ASSERT_EQ(node.attribute(4).floats_size(), 2);
  EXPECT_EQ(node.attribute(4).floats(1), 2.5f);
  ASSERT_EQ(node.attribute(5).strings_size(), 2);
  EXPECT_EQ(node.attribute(5).strings(1), "q");
  EXPECT_EQ(node.attribute(6).t().dims(0), 1);
  EXPECT_EQ(node.attribute(6).t().data_type(), 7);
}

// Each part of a fused node is a node: the product, the bias of a MatMul, the residual, the
// activation. A Conv has its bias itself.
TEST(Exported, FusedNodesAreWrittenOut) {
  const auto nodes = [](const std::string& node) {
    return Nodes(text::Exported(Parsed("graph g\ninput %x: float32[1, 2, 2, 2]\n"
                                       "const %w: float32[2, 2, 1, 1] = [1, 2, 3, 4]\n"
                                       "const %m: float32[2, 2] = [1, 2, 3, 4]\n"
                                       "const %b: float32[2] = [1, 2]\n"
                                       "n: %y: float32[1, 2, 2, 2] = " +
                                       node + "\noutput %y\n"))
                     .graph());
  };
  EXPECT_EQ(nodes("Conv(%x, %w, %b)"), (Lines{"n: y = Conv(x, w, b)"}));
  EXPECT_EQ(nodes("Conv{activation=\"Relu\"}(%x, %w)"),
            (Lines{"n: n/linear = Conv(x, w)", "n/activation: y = Relu(n/linear)"}));
  EXPECT_EQ(nodes("Conv(%x, %w, %b, %x)"),
            (Lines{"n: n/linear = Conv(x, w, b)", "n/add: y = Add(n/linear, x)"}));
  EXPECT_EQ(nodes("Conv{activation=\"LeakyRelu\", activation_alpha=0.25}(%x, %w, %b, %x)"),
            (Lines{"n: n/linear = Conv(x, w, b)", "n/add: n/sum = Add(n/linear, x)",
                   "n/activation: y = LeakyRelu{alpha}(n/sum)"}));
  EXPECT_EQ(nodes("MatMul(%x, %m)"), (Lines{"n: y = MatMul(x, m)"}));
  EXPECT_EQ(nodes("MatMul(%x, %m, %b, %x)"),
            (Lines{"n: n/linear = MatMul(x, m)", "n/add: n/sum = Add(n/linear, b)",
                   "n/add_1: y = Add(n/sum, x)"}));
  EXPECT_EQ(nodes("MatMul{activation=\"Silu\"}(%x, %m)"),
            (Lines{"n: n/linear = MatMul(x, m)", "n/sigmoid: n/gate = Sigmoid(n/linear)",
                   "n/mul: y = Mul(n/linear, n/gate)"}));
  EXPECT_EQ(nodes("Add{activation=\"Relu\"}(%x, %x)"),
            (Lines{"n: n/linear = Add(x, x)", "n/activation: y = Relu(n/linear)"}));
  EXPECT_EQ(nodes("evoq::Silu(%x)"),
            (Lines{"n/sigmoid: n/gate = Sigmoid(x)", "n/mul: y = Mul(x, n/gate)"}));
}

TEST(Exported, ClipHasItsBounds) {
  const onnx::GraphProto made =
      text::Exported(
          Parsed("graph g\ninput %x: float32[1, 2]\n"
                 "const %m: float32[2, 2] = [1, 2, 3, 4]\n"
                 "n: %y: float32[1, 2] = MatMul{activation=\"Clip\", activation_alpha=-1.5, "
                 "activation_beta=6.5}(%x, %m)\noutput %y\n"))
          .graph();
  EXPECT_EQ(Nodes(made), (Lines{"n: n/linear = MatMul(x, m)",
                                "n/activation: y = Clip(n/linear, n/min, n/max)"}));
  std::map<std::string, float> bounds;
  for (const auto& tensor : made.initializer()) {
    if (tensor.name() == "m") continue;
    float value = 0;
    ASSERT_EQ(tensor.raw_data().size(), sizeof(value));
    std::memcpy(&value, tensor.raw_data().data(), sizeof(value));
    bounds[tensor.name()] = value;
    EXPECT_EQ(tensor.dims_size(), 0);
  }
  EXPECT_EQ(bounds, (std::map<std::string, float>{{"n/min", -1.5f}, {"n/max", 6.5f}}));
}

// Integers between a QuantizeLinear and a DequantizeLinear; a value that two nodes read is
// dequantized once, a name that is taken gets a number.
TEST(Exported, QuantizedValues) {
  const onnx::GraphProto made =
      text::Exported(Parsed("graph g\ninput %x: float32[2]\n"
                            "q: %q: uint8[2](scale 0.5, zero 3) = QuantizeLinear(%x)\n"
                            "a: %a: uint8[2](scale 0.25, zero 0) = Relu(%q)\n"
                            "q/dequantize: %n: float32[2] = Neg(%q)\n"
                            "d: %y: float32[2] = DequantizeLinear(%a)\noutput %y\noutput %n\n"))
          .graph();
  EXPECT_EQ(Nodes(made),
            (Lines{"q/quantize: q = QuantizeLinear(x, q/scale, q/zero_point)",
                   "q/dequantize_1: q/dequantized = DequantizeLinear(q, q/scale, q/zero_point)",
                   "a: a/real = Relu(q/dequantized)",
                   "a/quantize: a = QuantizeLinear(a/real, a/scale, a/zero_point)",
                   "q/dequantize: n = Neg(q/dequantized)",
                   "d: y = DequantizeLinear(a, a/scale, a/zero_point)"}));
}

// 3 rows of 3 columns in blocks of 2 rows: ceil(3 / 2) = 2 rows of scales.
TEST(Exported, Blocks) {
  Graph graph;
  const QuantParams q{{1, 2, 3, 4, 5, 6}, {0, 0, 0, 0, 0, 0}, 0, 2};
  const ValueId w =
      graph.AddConstant("w", Tensor::Allocate(TensorType(DType::kInt8, Shape{3, 3}, q)));
  graph.MarkOutput(
      graph.Apply("DequantizeLinear", "y", {w}, {}, TensorType(DType::kFloat32, Shape{3, 3})));
  const onnx::GraphProto made = text::Exported(graph).graph();
  ASSERT_EQ(made.node_size(), 1);
  ASSERT_EQ(made.node(0).attribute_size(), 2);
  EXPECT_EQ(made.node(0).attribute(0).name(), "axis");
  EXPECT_EQ(made.node(0).attribute(0).i(), 0);
  EXPECT_EQ(made.node(0).attribute(1).name(), "block_size");
  EXPECT_EQ(made.node(0).attribute(1).i(), 2);
  for (const auto& tensor : made.initializer()) {
    if (tensor.name() == "w") continue;
    ASSERT_EQ(tensor.dims_size(), 2) << tensor.name();
    EXPECT_EQ(tensor.dims(0), 2) << tensor.name();
    EXPECT_EQ(tensor.dims(1), 3) << tensor.name();
  }
}

// A product of rounded data is MatMulNBits of level 4, and is read back as such.
TEST(Exported, ProductsOfRoundedData) {
  const auto product = [](DType dtype, int64_t block, int64_t data_block) {
    Graph graph;
    QuantParams q{{}, {}, block == 0 ? 1 : 0, block};
    for (int i = 0; i < (block == 0 ? 3 : 9); ++i) {
      q.scales.push_back(0.5f + 0.25f * static_cast<float>(i));
      const int range = DTypeBits(dtype) == 2 ? 4 : 9;
      q.zero_points.push_back(i % range - (IsSigned(dtype) ? range / 2 : 0));
    }
    Tensor w = Tensor::Allocate(TensorType(dtype, Shape{40, 3}, q));
    for (size_t i = 0; i < w.bytes(); ++i) w.mutable_raw()[i] = static_cast<std::byte>(i * 73);
    const ValueId x = graph.AddInput("x", TensorType(DType::kFloat32, Shape{2, 40}));
    const ValueId b = graph.AddConstant("b", Tensor::FromValues<float>(Shape{3}, {1000, -2000, 3}));
    Attrs attrs;
    attrs.Set("data_block", data_block);
    attrs.Set("activation", "Relu");
    graph.MarkOutput(graph.Apply("MatMul", "y", {x, graph.AddConstant("w", w), b}, attrs,
                                 TensorType(DType::kFloat32, Shape{2, 3})));
    return graph;
  };
  std::vector<float> values;
  for (int i = 0; i < 80; ++i) values.push_back(static_cast<float>(i * 37 % 101 - 50) * 0.7f);
  const Tensor x = Tensor::FromValues<float>(Shape{2, 40}, values);
  const auto run = [&](const Graph& graph) {
    const Tensor y = EvaluateGraph(graph, std::span(&x, 1)).value().at(0);
    return std::vector<float>(y.data<float>(), y.data<float>() + y.elements());
  };
  for (const DType dtype :
       {DType::kInt2, DType::kUint2, DType::kInt4, DType::kUint4, DType::kInt8, DType::kUint8}) {
    const Graph graph = product(dtype, 16, 16);
    const onnx::ModelProto model = text::Exported(graph);
    EXPECT_EQ(Nodes(model.graph())[0],
              "y: y/linear = MatMulNBits{K, N, accuracy_level, bits, block_size}(x, y/weights, "
              "y/scales, y/zeros)");
    ASSERT_EQ(model.opset_import_size(), 2);
    EXPECT_EQ(model.opset_import(1).domain(), "com.microsoft");
    const std::string bytes = model.SerializeAsString();
    const auto back = ImportOnnxBytes(std::as_bytes(std::span(bytes)), "back.onnx");
    ASSERT_TRUE(back) << back.error().message();
    const std::vector<float> expected = run(graph), got = run(*back);
    Graph exact = graph;
    exact.attrs(exact.FindNode("y")).Erase("data_block");
    const std::vector<float> unrounded = run(exact);
    double off = 0, rounded = 0;
    for (size_t i = 0; i < expected.size(); ++i) {
      off = std::max<double>(off, std::fabs(got[i] - expected[i]));
      rounded = std::max<double>(rounded, std::fabs(got[i] - unrounded[i]));
    }
    EXPECT_LT(off, 1e-2) << DTypeName(dtype);
    EXPECT_GT(rounded, 1) << DTypeName(dtype);
  }
  for (const Graph& graph : {product(DType::kInt4, 0, 128), product(DType::kInt4, 16, 32),
                             product(DType::kInt4, 20, 20)})
    EXPECT_NE(ErrorOf(graph).find("of data that is rounded in blocks of"), std::string::npos)
        << ErrorOf(graph);
}

// An LSTM of rounded data and 8-bit weights is DynamicQuantizeLSTM and is read back as it was; what
// that operator does not say is an LSTM of dequantized weights.
TEST(Exported, RecurrentLayersOfRoundedData) {
  const auto layer = [](const char* op, int64_t directions, int64_t gates, DType dtype) {
    Graph graph;
    const auto weights = [&](int64_t depth) {
      const int64_t rows = gates * 4;
      QuantParams q{{}, {}, directions == 1 ? 1 : 2, directions == 1 ? 0 : depth};
      for (int64_t i = 0; i < directions * rows; ++i) {
        q.scales.push_back(0.002f + 0.0001f * static_cast<float>(i));
        q.zero_points.push_back(dtype == DType::kUint8 ? static_cast<int32_t>(120 + i % 9) : 0);
      }
      Tensor w = Tensor::Allocate(TensorType(dtype, Shape{directions, rows, depth}, q));
      for (size_t i = 0; i < w.bytes(); ++i) w.mutable_raw()[i] = static_cast<std::byte>(i * 73);
      return w;
    };
    Node cell{.op = op, .name = "cell"};
    cell.attrs.Set("hidden_size", 4);
    cell.attrs.Set("data_block", 5);
    cell.attrs.Set("direction", directions == 2 ? "bidirectional" : "forward");
    const ValueId x = graph.AddInput("x", TensorType(DType::kFloat32, Shape{3, 2, 5})),
                  h = graph.AddInput("h", TensorType(DType::kFloat32, Shape{directions, 2, 4}));
    cell.inputs = {x,
                   graph.AddConstant("w", weights(5)),
                   graph.AddConstant("r", weights(4)),
                   ValueId{},
                   ValueId{},
                   h};
    cell.outputs = {graph.AddValue("y"), graph.AddValue("y_h")};
    for (ValueId out : cell.outputs) graph.MarkOutput(out);
    graph.AddNode(std::move(cell));
    EXPECT_TRUE(InferTypes(graph));
    return graph;
  };
  const auto run = [](const Graph& graph) {
    std::vector<Tensor> inputs;
    for (ValueId id : graph.inputs()) {
      Tensor t = Tensor::Allocate(graph.value(id).type);
      for (int64_t i = 0; i < t.elements(); ++i)
        t.mutable_data<float>()[i] = static_cast<float>(i * 37 % 101 - 50) * 0.02f;
      inputs.push_back(t);
    }
    return EvaluateGraph(graph, inputs).value();
  };
  const auto back = [](const onnx::ModelProto& model) {
    const std::string bytes = model.SerializeAsString();
    auto graph = ImportOnnxBytes(std::as_bytes(std::span(bytes)), "back.onnx");
    EXPECT_TRUE(graph) << graph.error().message();
    return *graph;
  };
  for (int64_t directions : {1, 2}) {
    for (DType dtype : {DType::kInt8, DType::kUint8}) {
      const Graph graph = layer("LSTM", directions, 4, dtype);
      const onnx::ModelProto model = text::Exported(graph);
      EXPECT_EQ(Nodes(model.graph()),
                std::vector<std::string>{
                    "cell: y, y_h = DynamicQuantizeLSTM{direction, hidden_size}(x, w/columns, "
                    "r/columns, , , h, , , cell/w_scale, cell/w_zero_point, cell/r_scale, "
                    "cell/r_zero_point)"});
      const Graph read = back(model);
      EXPECT_EQ(read.node(read.FindNode("cell")).attrs.Int("data_block", 0), 5);
      for (size_t i : {1, 2}) {
        const NodeId real = read.value(read.node(read.FindNode("cell")).input(i)).producer;
        ASSERT_TRUE(real.valid());
        EXPECT_EQ(read.node(real).op, "DequantizeLinear");
        const Tensor& wanted = graph.value(graph.node(graph.FindNode("cell")).input(i)).constant;
        EXPECT_TRUE(BitEqual(read.value(read.node(real).input(0)).constant, wanted)) << i;
      }
    }
  }
  // In float32 with the same weights.
  const Graph gru = layer("GRU", 1, 3, DType::kInt8);
  const onnx::ModelProto model = text::Exported(gru);
  EXPECT_EQ(Nodes(model.graph()).back(),
            "cell: y, y_h = GRU{direction, hidden_size}(x, w/dequantized, r/dequantized, , , h)");
  const Graph read = back(model);
  const std::vector<Tensor> wanted = run(gru), got = run(read);
  for (int64_t i = 0; i < wanted[0].elements(); ++i)
    EXPECT_NEAR(wanted[0].data<float>()[i], got[0].data<float>()[i], 0.02);
}

// NF4 weights are those of MatMulBnb4, and are read back as they were.
TEST(Exported, ProductsOfNormalFloats) {
  const auto product = [](int64_t block) {
    Graph graph;
    QuantParams q{{}, std::vector<int32_t>(static_cast<size_t>(96 / block), 0), 0, block};
    for (size_t i = 0; i < q.zero_points.size(); ++i)
      q.scales.push_back(0.5f + 0.25f * static_cast<float>(i));
    Tensor w = Tensor::Allocate(TensorType(kNormalFloat4, Shape{32, 3}, q));
    for (size_t i = 0; i < w.bytes(); ++i) w.mutable_raw()[i] = static_cast<std::byte>(i * 73);
    const ValueId x = graph.AddInput("x", TensorType(DType::kFloat32, Shape{2, 32}));
    graph.MarkOutput(graph.Apply("MatMul", "y", {x, graph.AddConstant("w", w)}, {},
                                 TensorType(DType::kFloat32, Shape{2, 3})));
    return graph;
  };
  const Graph graph = product(16);
  const onnx::ModelProto model = text::Exported(graph);
  EXPECT_EQ(Nodes(model.graph())[0],
            "y: y = MatMulBnb4{K, N, block_size, quant_type}(x, y/weights, y/scales)");
  const std::string bytes = model.SerializeAsString();
  const auto back = ImportOnnxBytes(std::as_bytes(std::span(bytes)), "back.onnx");
  ASSERT_TRUE(back) << back.error().message();
  const Tensor& w = *graph.ConstantInput(graph.node(graph.order()[0]), 1);
  const Tensor* same = back->ConstantInput(back->node(back->order()[0]), 1);
  ASSERT_NE(same, nullptr);
  EXPECT_TRUE(BitEqual(w, *same)) << same->type().ToString();
  // Of other blocks they are float32.
  const onnx::GraphProto other = text::Exported(product(8)).graph();
  EXPECT_EQ(Nodes(other)[0], "y: y = MatMul(x, w)");
  ASSERT_EQ(other.initializer_size(), 1);
  EXPECT_EQ(other.initializer(0).data_type(), 1);
  const Tensor real = ToFloat32(*product(8).ConstantInput(graph.node(graph.order()[0]), 1)).value();
  EXPECT_EQ(other.initializer(0).raw_data(),
            std::string(reinterpret_cast<const char*>(real.raw()), real.bytes()));
}

// A bias of integers has the scale of x times that of its column: 0.5 * 0.25 and 0.5 * 2.
TEST(Exported, ScalesOfABias) {
  const auto scales = [](const QuantParams& quant) {
    Graph graph;
    const TensorType type(DType::kInt8, Shape{1, 2, 1, 1}, QuantParams::PerTensor(0.5f, 0));
    const ValueId x = graph.AddInput("x", type);
    const ValueId w = graph.AddConstant(
        "w", Tensor::Allocate(TensorType(DType::kInt8, Shape{2, 2, 1, 1}, quant)));
    const ValueId b = graph.AddConstant("b", Tensor::FromValues<int32_t>(Shape{2}, {5, -3}));
    graph.MarkOutput(
        graph.Apply("Conv", "c", {x, w, b}, {}, TensorType(DType::kFloat32, Shape{1, 2, 1, 1})));
    const onnx::GraphProto made = text::Exported(graph).graph();
    const bool columns = quant.scales.size() > 1;
    size_t found = 0;
    for (const auto& node : made.node()) {
      if (node.name() != "c/bias_dequantize") continue;
      ++found;
      EXPECT_EQ(node.input(0), "b");
      EXPECT_EQ(node.input(1), "c/bias_scale");
      EXPECT_EQ(node.output(0), "c/bias");
      EXPECT_EQ(node.attribute_size(), columns ? 1 : 0);
      if (node.attribute_size() == 1) EXPECT_EQ(node.attribute(0).i(), 0);
    }
    EXPECT_EQ(found, 1u);
    std::vector<float> values;
    for (const auto& tensor : made.initializer()) {
      if (tensor.name() != "c/bias_scale") continue;
      values.resize(tensor.raw_data().size() / sizeof(float));
      std::memcpy(values.data(), tensor.raw_data().data(), tensor.raw_data().size());
      EXPECT_EQ(tensor.dims_size(), columns ? 1 : 0);
    }
    return values;
  };
  EXPECT_EQ(scales(QuantParams::PerTensor(0.25f, 0)), (std::vector<float>{0.125f}));
  EXPECT_EQ(scales(QuantParams{{0.25f, 2}, {0, 0}, 0, 0}), (std::vector<float>{0.125f, 1}));
}

TEST(Exported, RefusesWhatOnnxCannotSay) {
  const std::string x = "graph g\ninput %x: float32[2]\n",
                    w = "const %w: float32[2, 2] = [1, 2, 3, 4]\n";
  EXPECT_EQ(ErrorOf(Parsed(x + "n: %y: float32[2] = evoq::Captured(%x)\noutput %y\n")),
            "/nowhere/x.onnx: node n (evoq::Captured): ONNX has no operator of this name");
  EXPECT_EQ(ErrorOf(Parsed(x + w +
                           "q: %q: int32[2](scale 0.5, zero 0) = QuantizeLinear(%x)\noutput %q\n")),
            "/nowhere/x.onnx: node q (QuantizeLinear): output q is quantized to int32, which ONNX "
            "cannot compute");
  EXPECT_EQ(ErrorOf(Parsed(x + w +
                           "const %b: int32[2] = [1, 2]\nm: %y: float32[2] = MatMul(%x, %w, %b)\n"
                           "output %y\n")),
            "/nowhere/x.onnx: node m (MatMul): int32 bias b without quantized inputs has no scale");
  Graph plain = Parsed(x + "q: %y: uint8[2] = QuantizeLinear(%x)\noutput %y\n");
  EXPECT_EQ(ErrorOf(plain), "/nowhere/x.onnx: node q (QuantizeLinear): output y is not quantized");
  plain = Parsed(x + "d: %y: float32[2] = DequantizeLinear(%x)\noutput %y\n");
  EXPECT_EQ(ErrorOf(plain), "/nowhere/x.onnx: node d (DequantizeLinear): input x is not quantized");
  Graph sequence = Parsed(x + "r: %y: float32[2] = Relu(%x)\noutput %y\n");
  sequence.MarkOutput(sequence.AddConstant(
      "s",
      Tensor::Of(ValueKind::kSequence, TensorType(DType::kFloat32, Shape::UnknownRank()), {})));
  EXPECT_EQ(ErrorOf(sequence).find("/nowhere/x.onnx: constant s is sequence("), 0u)
      << ErrorOf(sequence);
}

// The outputs of a subgraph are outputs of its nodes, each its own; its names are no others'.
TEST(Exported, SubgraphsHaveNamesOfTheirOwn) {
  const auto graph =
      text::Import(17, text::Input("c", 9, {}) + text::Input("x", 1, {2}) +
                           "node { op_type: 'If' name: 'if' input: 'c' output: 'y' output: 'z' "
                           "attribute { name: 'then_branch' type: GRAPH g { name: 't' " +
                           text::Node("Neg", {"x"}, {"a"}) + text::Output("a") + text::Output("a") +
                           "} } attribute { name: 'else_branch' type: GRAPH g { name: 'e' " +
                           text::Node("Abs", {"x"}, {"a"}) + text::Output("a") + text::Output("x") +
                           "} } } " + text::Output("y") + text::Output("z"));
  ASSERT_TRUE(graph) << text::ErrorOf(graph);
  const onnx::GraphProto made = text::Exported(*graph).graph();
  ASSERT_EQ(made.node_size(), 1);
  const onnx::NodeProto& node = made.node(0);
  EXPECT_EQ(Nodes(made), (Lines{"if: y, z = If{then_branch, else_branch}(c)"}));
  const onnx::GraphProto &then = node.attribute(0).g(), &other = node.attribute(1).g();
  EXPECT_EQ(then.input_size() + other.input_size(), 0);
  ASSERT_EQ(then.node_size(), 2) << then.DebugString();
  EXPECT_EQ(then.node(0).op_type(), "Neg");
  EXPECT_EQ(then.node(0).input(0), "x");
  EXPECT_EQ(then.node(1).op_type(), "Identity");
  EXPECT_EQ(then.output(0).name(), then.node(0).output(0));
  EXPECT_EQ(then.output(1).name(), then.node(1).output(0));
  ASSERT_EQ(other.node_size(), 2) << other.DebugString();
  EXPECT_EQ(other.output(1).name(), other.node(1).output(0));
  EXPECT_EQ(other.node(1).input(0), "x");
  std::set<std::string> names;
  for (const onnx::GraphProto* g : {&then, &other}) {
    for (const auto& inner : g->node()) {
      EXPECT_TRUE(names.insert(inner.output(0)).second) << inner.output(0);
      EXPECT_TRUE(names.insert(inner.name()).second) << inner.name();
    }
    for (const auto& output : g->output())
      EXPECT_EQ(output.type().tensor_type().shape().dim_size(), 1) << output.name();
  }
}

}  // namespace
}  // namespace evoq
