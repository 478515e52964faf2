// The operator set and the file format version of an exported graph, by ONNX's operator changelog
// and its table of versions.
#include <gtest/gtest.h>

#include "onnx/export.h"
#include "onnx/onnx.h"
#include "tensor/test_attrs.h"

namespace evoq {
namespace {

// A graph of one node: `types[i]` is the type of input i, undefined where it is omitted.
Graph OneNode(const std::string& op, const std::vector<TensorType>& types, Attrs attrs = {},
              TensorType output = TensorType(DType::kFloat32, Shape{2}),
              const std::string& domain = "") {
  Graph graph;
  Node node;
  node.op = op;
  node.domain = domain;
  node.name = "n";
  node.attrs = std::move(attrs);
  for (size_t i = 0; i < types.size(); ++i) {
    const bool given = types[i].dtype != DType::kUndefined;
    node.inputs.push_back(given ? graph.AddInput(fmt::format("x{}", i), types[i]) : ValueId{});
  }
  node.outputs = {graph.AddValue("y")};
  graph.SetType(node.outputs[0], std::move(output));
  graph.MarkOutput(node.outputs[0]);
  graph.AddNode(std::move(node));
  return graph;
}

TensorType Real(std::vector<int64_t> sizes = {2}) {
  return TensorType(DType::kFloat32, Shape(sizes));
}
TensorType Of(DType dtype) { return TensorType(dtype, Shape{2}); }

// As a file gets it unless asked.
int Needed(const Graph& graph) { return std::max(OpsetNeeded(graph).opset, kExportOpset); }

TEST(OpsetNeeded, OfOperatorsThatNewerSetsBrought) {
  const std::pair<const char*, int> rows[] = {{"Relu", 17},
                                              {"OptionalHasElement", 18},
                                              {"OptionalGetElement", 18},
                                              {"BitwiseAnd", 18},
                                              {"BitwiseNot", 18},
                                              {"BitwiseOr", 18},
                                              {"BitwiseXor", 18},
                                              {"CenterCropPad", 18},
                                              {"Col2Im", 18},
                                              {"Mish", 18},
                                              {"DeformConv", 19},
                                              {"AffineGrid", 20},
                                              {"DFT", 20},
                                              {"Gelu", 20},
                                              {"GridSample", 20},
                                              {"ImageDecoder", 20},
                                              {"RegexFullMatch", 20},
                                              {"StringConcat", 20},
                                              {"StringSplit", 20},
                                              {"GroupNormalization", 21},
                                              {"Attention", 23},
                                              {"RMSNormalization", 23},
                                              {"RotaryEmbedding", 23},
                                              {"Swish", 24},
                                              {"TensorScatter", 24},
                                              {"BitCast", 26},
                                              {"CumProd", 26},
                                              {"CausalConvWithState", 27},
                                              {"LinearAttention", 27},
                                              {"SwiGLU", 28}};
  for (const auto& [op, opset] : rows) {
    EXPECT_EQ(Needed(OneNode(op, {Real()})), opset) << op;
    // The name means something else in another domain.
    EXPECT_EQ(Needed(OneNode(op, {Real()}, {}, Real(), "com.microsoft")), 17) << op;
  }
}

// The axes of these have been an input since 18; before and without axes they are what they were.
TEST(OpsetNeeded, OfReductionsWithAxes) {
  for (const char* op : {"ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceMax",
                         "ReduceMean", "ReduceMin", "ReduceProd", "ReduceSumSquare"}) {
    EXPECT_EQ(Needed(OneNode(op, {Real()})), 17) << op;
    EXPECT_EQ(Needed(OneNode(op, {Real(), Of(DType::kInt64)})), 18) << op;
  }
  EXPECT_EQ(Needed(OneNode("ReduceSum", {Real(), Of(DType::kInt64)})), 17);
  // Of bools since 20.
  const TensorType bools = Of(DType::kBool);
  EXPECT_EQ(Needed(OneNode("ReduceMax", {bools}, {}, bools)), 20);
  EXPECT_EQ(Needed(OneNode("ReduceMin", {bools}, {}, bools)), 20);
  EXPECT_EQ(Needed(OneNode("Not", {bools}, {}, bools)), 17);
}

TEST(OpsetNeeded, OfAttributesThatNewerSetsBrought) {
  struct Row {
    const char* op;
    Attrs attrs;
    int opset;
  };
  const std::vector<int64_t> twos = {2, 2};
  const Row rows[] = {
      {"ReduceL2", {}, 17},
      {"ReduceL2", With("noop_with_empty_axes", 0), 18},
      {"ReduceMean", With("noop_with_empty_axes", 1), 18},
      {"ReduceSum", With("noop_with_empty_axes", 1), 17},
      {"Split", {}, 17},
      {"Split", With("num_outputs", 1), 18},
      {"Pad", {}, 17},
      {"Pad", With("mode", "edge"), 17},
      {"Pad", With("mode", "wrap"), 19},
      {"Resize", {}, 17},
      {"Resize", With("antialias", 0), 18},
      {"Resize", With("axes", twos), 18},
      {"Resize", With("keep_aspect_ratio_policy", "stretch"), 18},
      {"Resize", With("coordinate_transformation_mode", "half_pixel"), 17},
      {"Resize", With("coordinate_transformation_mode", "half_pixel_symmetric"), 19},
      {"ScatterElements", With("reduction", "add"), 17},
      {"ScatterElements", With("reduction", "max"), 18},
      {"ScatterElements", With("reduction", "min"), 18},
      {"ScatterND", With("reduction", "mul"), 17},
      {"ScatterND", With("reduction", "max"), 18},
      {"ScatterND", With("reduction", "min"), 18},
      {"LpPool", {}, 17},
      {"LpPool", With("dilations", twos), 18},
      {"LpPool", With("ceil_mode", 0), 18},
      {"AveragePool", {}, 17},
      {"AveragePool", With("dilations", twos), 19},
      {"Attention", With("is_causal", 1), 23},
      {"Attention", With("left_window_size", 3), 25},
      {"Attention", With("right_window_size", 3), 25},
      {"Cast", {}, 17},
      {"Cast", With("saturate", 1), 19},
      {"Cast", With("round_mode", "up"), 24},
      {"CastLike", {}, 17},
      {"CastLike", With("saturate", 1), 19},
      // A fused activation becomes a node of its own.
      {"Conv", With("activation", "Relu"), 17},
      {"Conv", With("activation", "Gelu"), 20},
  };
  for (const Row& row : rows) {
    EXPECT_EQ(Needed(OneNode(row.op, {Real()}, row.attrs)), row.opset)
        << row.op << row.attrs.ToString();
  }
  const TensorType none;
  EXPECT_EQ(Needed(OneNode("Pad", {Real(), Real(), none, Of(DType::kInt64)})), 18);
  EXPECT_EQ(Needed(OneNode("Pad", {Real(), Real(), Real()})), 17);
  const std::vector<TensorType> five(6, Real()), past(7, Real());
  EXPECT_EQ(Needed(OneNode("Attention", five)), 23);
  EXPECT_EQ(Needed(OneNode("Attention", past)), 24);  // nonpad_kv_seqlen
}

TEST(OpsetNeeded, OfTypes) {
  const std::pair<DType, int> rows[] = {
      {DType::kInt8, 17},           {DType::kInt16, 17},          {DType::kFloat16, 17},
      {DType::kFloat8E4M3FN, 19},   {DType::kFloat8E4M3FNUZ, 19}, {DType::kFloat8E5M2, 19},
      {DType::kFloat8E5M2FNUZ, 19}, {DType::kInt4, 21},           {DType::kUint4, 21},
      {DType::kBfloat16, 22},       {DType::kFloat4E2M1, 23},     {DType::kFloat8E8M0, 24},
      {DType::kInt2, 25},           {DType::kUint2, 25}};
  for (const auto& [dtype, opset] : rows) {
    EXPECT_EQ(Needed(OneNode("Identity", {Of(dtype)}, {}, Of(dtype))), opset) << DTypeName(dtype);
    EXPECT_EQ(Needed(OneNode("Cast", {Real()}, {}, Of(dtype))), opset) << DTypeName(dtype);
  }
  const TensorType text = Of(DType::kString);
  EXPECT_EQ(Needed(OneNode("Equal", {text, text}, {}, Of(DType::kBool))), 19);
  EXPECT_EQ(Needed(OneNode("Identity", {text}, {}, text)), 17);
}

// 16-bit integers, blocks and the attributes that go with them are quantized since 21.
TEST(OpsetNeeded, OfQuantizing) {
  for (const DType dtype : {DType::kInt16, DType::kUint16}) {
    EXPECT_EQ(Needed(OneNode("QuantizeLinear", {Real(), Real()}, {}, Of(dtype))), 21);
    EXPECT_EQ(Needed(OneNode("DequantizeLinear", {Of(dtype), Real()})), 21);
    const TensorType typed(dtype, Shape{2}, QuantParams::PerTensor(0.5f, 0));
    EXPECT_EQ(Needed(OneNode("Relu", {typed})), 21);
  }
  EXPECT_EQ(Needed(OneNode("DequantizeLinear", {Of(DType::kInt8), Real()})), 17);
  const auto scaled = [](int64_t block, DType dtype = DType::kInt8) {
    const QuantParams quant{{0.5f, 1}, {0, 0}, 0, block};
    return OneNode("Relu", {TensorType(dtype, Shape{2}, quant)});
  };
  EXPECT_EQ(Needed(scaled(0)), 17);
  EXPECT_EQ(Needed(scaled(1)), 21);
  // The later of what the type and the blocks need.
  EXPECT_EQ(Needed(scaled(0, DType::kFloat8E4M3FN)), 19);
  EXPECT_EQ(Needed(scaled(1, DType::kFloat8E4M3FN)), 21);
  EXPECT_EQ(Needed(scaled(1, DType::kFloat4E2M1)), 23);
  const TensorType bytes = Of(DType::kUint8);
  for (const char* op : {"QuantizeLinear", "DequantizeLinear"}) {
    EXPECT_EQ(Needed(OneNode(op, {Real(), Real()}, With("axis", 0), bytes)), 17);
    EXPECT_EQ(Needed(OneNode(op, {Real(), Real()}, With("block_size", 1), bytes)), 21);
    EXPECT_EQ(Needed(OneNode(op, {Real(), Real()}, With("output_dtype", 2), bytes)), 21);
  }
  EXPECT_EQ(Needed(OneNode("Relu", {Real()}, With("block_size", 1))), 17);
}

// With ceil_mode, a window that would begin in the padding behind the input is left out since 22.
// Windows of 2 and stride 3 over 4 elements: ceil((4 - 2) / 3) + 1 = 2, the second begins at 3.
// Padded by (0, 3): ceil((7 - 2) / 3) + 1 = 3, whose third begins at 6, behind the input: 2 remain.
TEST(OpsetNeeded, OfPoolsThatLeaveOutAWindow) {
  struct Row {
    std::vector<int64_t> pads, dilations;
    int64_t out;
    int opset;
  };
  const Row rows[] = {
      {{}, {}, 2, 17},
      {{0, 0}, {}, 2, 17},
      {{0, 3}, {}, 3, 17},
      {{0, 3}, {}, 2, 22},
      {{3, 0}, {}, 3, 17},
      {{1, 2}, {}, 2, 22},
      // A window of 2 with dilation 2 reaches over 3: ceil((4 - 3) / 3) + 1 = 2 without padding,
      // ceil((8 - 3) / 3) + 1 = 3 with (0, 4).
      {{}, {2}, 2, 17},
      {{0, 4}, {2}, 3, 17},
      {{0, 4}, {2}, 2, 22},
      {{0, 0}, {2}, 1, 22},
  };
  for (const char* op : {"MaxPool", "AveragePool"}) {
    for (const Row& row : rows) {
      const auto made = [&](int ceil, const Shape& x, const Shape& y) {
        Attrs attrs = With("kernel_shape", std::vector<int64_t>{2});
        attrs.Set("strides", std::vector<int64_t>{3});
        attrs.Set("ceil_mode", ceil);
        if (!row.pads.empty()) attrs.Set("pads", row.pads);
        if (!row.dilations.empty()) attrs.Set("dilations", row.dilations);
        return Needed(
            OneNode(op, {TensorType(DType::kFloat32, x)}, attrs, TensorType(DType::kFloat32, y)));
      };
      // Dilations of an AveragePool are of 19.
      const int floor = op[0] == 'A' && !row.dilations.empty() ? 19 : 17;
      SCOPED_TRACE(fmt::format("{} {} {} {}", op, fmt::join(row.pads, " "),
                               fmt::join(row.dilations, " "), row.out));
      EXPECT_EQ(made(1, Shape{1, 1, 4}, Shape{1, 1, row.out}), std::max(floor, row.opset));
      EXPECT_EQ(made(0, Shape{1, 1, 4}, Shape{1, 1, row.out}), floor);
      Shape free{1, 1, 4};
      free[2] = Dim();
      EXPECT_EQ(made(1, free, Shape{1, 1, row.out}), floor);
      EXPECT_EQ(made(1, Shape{1, 1, 4}, free), floor);
    }
  }
  // Without strides they are 1: 4 - 2 + 1 = 3. Two axes: the second one decides here.
  Attrs attrs = With("kernel_shape", std::vector<int64_t>{2, 2});
  attrs.Set("ceil_mode", 1);
  const TensorType x = Real({1, 1, 4, 4});
  EXPECT_EQ(Needed(OneNode("MaxPool", {x}, attrs, Real({1, 1, 3, 3}))), 17);
  EXPECT_EQ(Needed(OneNode("MaxPool", {x}, attrs, Real({1, 1, 3, 2}))), 22);
  // Pads are those of all axes before, then of all behind: (0, 1) of axis 0 and (2, 3) of axis 1,
  // 4 + 1 - 2 + 1 = 4 and 4 + 5 - 2 + 1 = 8 windows.
  attrs.Set("pads", std::vector<int64_t>{0, 2, 1, 3});
  EXPECT_EQ(Needed(OneNode("MaxPool", {x}, attrs, Real({1, 1, 4, 8}))), 17);
  EXPECT_EQ(Needed(OneNode("MaxPool", {x}, attrs, Real({1, 1, 4, 7}))), 22);
  EXPECT_EQ(Needed(OneNode("MaxPool", {x}, attrs, Real({1, 1, 3, 8}))), 22);
  EXPECT_EQ(Needed(OneNode("Relu", {x}, attrs, Real({1, 1, 3, 2}))), 17);
}

// The newest of all nodes, of subgraphs too.
TEST(OpsetNeeded, BelowTheUsualSaysWhatNeedsIt) {
  EXPECT_EQ(OpsetNeeded(OneNode("Relu", {Real()})).opset, 13);
  EXPECT_EQ(OpsetNeeded(OneNode("HardSwish", {Real()})).opset, 14);
  EXPECT_EQ(OpsetNeeded(OneNode("LayerNormalization", {Real()})).opset, 17);
  EXPECT_EQ(OpsetNeeded(OneNode("LayerNormalization", {Real()})).why,
            "node n (LayerNormalization)");
  EXPECT_EQ(OpsetNeeded(OneNode("Relu", {Of(DType::kInt4)})).why, "value x0 of int4");
}

TEST(OpsetNeeded, IsTheNewestOfAllNodes) {
  Graph graph = OneNode("Gelu", {Real()});
  graph.MarkOutput(graph.Apply("Swish", "s", {graph.outputs()[0]}, {}, Real()));
  graph.MarkOutput(graph.Apply("Relu", "r", {graph.outputs()[0]}, {}, Real()));
  EXPECT_EQ(Needed(graph), 24);
  Graph outer;
  Node node;
  node.op = "If";
  node.name = "if";
  node.inputs = {outer.AddInput("c", TensorType(DType::kBool, Shape{}))};
  node.outputs = {outer.AddValue("y")};
  node.bodies = {std::make_shared<const Graph>(OneNode("Mish", {})),
                 std::make_shared<const Graph>(OneNode("Gelu", {}))};
  outer.AddNode(std::move(node));
  EXPECT_EQ(Needed(outer), 20);
}

TEST(OpsetNeeded, GoesWithAFileFormat) {
  const std::pair<int, int> rows[] = {{17, 8},  {18, 8},  {19, 9},  {20, 9},  {21, 10}, {22, 10},
                                      {23, 11}, {24, 12}, {25, 13}, {26, 13}, {27, 13}};
  for (const auto& [opset, ir] : rows) EXPECT_EQ(IrVersionOf(opset), ir) << opset;
}

}  // namespace
}  // namespace evoq
