// Which integers get a quantized type, and which keep ONNX's form: by the parameters' shapes.
#include <gtest/gtest.h>

#include "onnx/text_testing.h"

namespace evoq {
namespace {

using text::Constant, text::Evaluated, text::Import, text::Input, text::Int, text::Node,
    text::Output, text::Reals;
using text::Sizes;

// w = [[1, 2, 3, 4], [5, 6, 7, 8]], dequantized and added to zeros.
Result<Graph> Weights(const std::string& parameters, const std::string& attrs, bool zero = true) {
  return Import(21, Input("x", 1, {2, 4}) + Constant("w", 3, {2, 4}, {1, 2, 3, 4, 5, 6, 7, 8}) +
                        parameters +
                        Node("DequantizeLinear", {"w", "s", zero ? "z" : ""}, {"d"}, attrs) +
                        Node("Add", {"x", "d"}, {"y"}) + Output("y"));
}

std::string TypeOfWeights(const Result<Graph>& graph) {
  EXPECT_TRUE(graph) << text::ErrorOf(graph);
  const ValueId w = graph->FindValue("w_quantized");
  return w.valid() ? graph->value(w).type.ToString() : "none";
}

TEST(Typing, ShapesOfScalesAndZeroPoints) {
  struct Row {
    Sizes scale, zero;
    std::string attrs, type;
  };
  const std::string block = Int("block_size", 2), rows = Int("axis", 0);
  const Row cases[] = {
      {{}, {}, "", "int8[2, 4](scale 0.5, zero 1)"},
      {{1}, {1}, "", "int8[2, 4](scale 0.5, zero 1)"},
      {{1}, {}, "", "int8[2, 4](scale 0.5, zero 1)"},
      {{4}, {4}, "", "int8[2, 4](4 scales on axis 1)"},
      {{4}, {4}, Int("axis", -1), "int8[2, 4](4 scales on axis 1)"},
      {{2}, {2}, rows, "int8[2, 4](2 scales on axis 0)"},
      {{2, 2}, {2, 2}, block, "int8[2, 4](4 scales on axis 1, block 2)"},
      {{1, 4}, {1, 4}, rows + block, "int8[2, 4](4 scales on axis 0, block 2)"},
      {{2, 2}, {2, 2}, Int("block_size", 3), "int8[2, 4](4 scales on axis 1, block 3)"},
  };
  for (const Row& row : cases) {
    int64_t count = 1, zeros = 1;
    for (int64_t d : row.scale) count *= d;
    for (int64_t d : row.zero) zeros *= d;
    const auto graph = Weights(Constant("s", 1, row.scale, std::vector<double>(count, 0.5)) +
                                   Constant("z", 3, row.zero, std::vector<double>(zeros, 1)),
                               row.attrs);
    EXPECT_EQ(TypeOfWeights(graph), row.type);
    EXPECT_EQ(Evaluated(graph, {Reals({2, 4}, std::vector<float>(8, 0))}).at(0),
              (std::vector<float>{0, 0.5f, 1, 1.5f, 2, 2.5f, 3, 3.5f}))
        << row.type;
  }
}

// Channels whose scale is 0 hold zeros: 0 times what stands there.
TEST(Typing, DeadChannels) {
  const std::vector<float> zeros(8, 0);
  const auto columns = Weights(
      Constant("s", 1, {4}, {1, 0, 2, 0}) + Constant("z", 3, {4}, {0, 5, 1, 0}), Int("axis", 1));
  EXPECT_EQ(TypeOfWeights(columns), "int8[2, 4](4 scales on axis 1)");
  EXPECT_EQ(Evaluated(columns, {Reals({2, 4}, zeros)}).at(0),
            (std::vector<float>{1, 0, 4, 0, 5, 0, 12, 0}));
  const auto rows =
      Weights(Constant("s", 1, {2}, {0, 2}) + Constant("z", 3, {2}, {7, 1}), Int("axis", 0));
  EXPECT_EQ(TypeOfWeights(rows), "int8[2, 4](2 scales on axis 0)");
  EXPECT_EQ(Evaluated(rows, {Reals({2, 4}, zeros)}).at(0),
            (std::vector<float>{0, 0, 0, 0, 8, 10, 12, 14}));
  const auto all = Weights(Constant("s", 1, {}, {0}) + Constant("z", 3, {}, {3}), "");
  EXPECT_EQ(TypeOfWeights(all), "int8[2, 4](scale 1, zero 3)");
  EXPECT_EQ(Evaluated(all, {Reals({2, 4}, zeros)}).at(0), zeros);
}

// Of a negative scale the bits of integers and zero points are turned, which changes no value.
TEST(Typing, NegativeScales) {
  const std::vector<float> zeros(8, 0);
  const auto columns = Weights(
      Constant("s", 1, {4}, {1, -1, -2, 0}) + Constant("z", 3, {4}, {0, 5, 1, 9}), Int("axis", 1));
  EXPECT_EQ(TypeOfWeights(columns), "int8[2, 4](4 scales on axis 1)");
  EXPECT_EQ(Evaluated(columns, {Reals({2, 4}, zeros)}).at(0),
            (std::vector<float>{1, 3, -4, 0, 5, -1, -12, 0}));
  const auto all = Weights(Constant("s", 1, {}, {-0.5}), "", false);
  EXPECT_EQ(TypeOfWeights(all), "int8[2, 4](scale 0.5, zero -1)");
  EXPECT_EQ(Evaluated(all, {Reals({2, 4}, zeros)}).at(0),
            (std::vector<float>{-0.5, -1, -1.5, -2, -2.5, -3, -3.5, -4}));
  // The ends of 4 bits, in blocks of two.
  for (const bool is_signed : {false, true}) {
    const double low = is_signed ? -8 : 0, high = is_signed ? 7 : 15;
    const double ends = is_signed ? 0x78 : 0xf0;  // two to a byte
    const auto blocks = Import(
        21, Input("x", 1, {2, 4}) +
                Constant("w", is_signed ? 22 : 21, {2, 4}, {ends, ends, 0x21, 0x43}) +
                Constant("s", 1, {2, 2}, {-1, 2, 1, -3}) +
                Node("DequantizeLinear", {"w", "s"}, {"d"}, Int("axis", 1) + Int("block_size", 2)) +
                Node("Add", {"x", "d"}, {"y"}) + Output("y"));
    EXPECT_EQ(Evaluated(blocks, {Reals({2, 4}, zeros)}).at(0),
              (std::vector<float>{static_cast<float>(-low), static_cast<float>(-high),
                                  static_cast<float>(2 * low), static_cast<float>(2 * high), 1, 2,
                                  -9, -12}));
    EXPECT_TRUE(blocks->FindValue("w_quantized").valid());
  }
}

// Two readers of one constant: with the same parameters they share a typed constant.
TEST(Typing, ReadersOfOneConstant) {
  const auto constants = [](double second) {
    const auto graph = Import(
        13, Input("x", 1, {2}) + Constant("w", 3, {2}, {1, 2}) + Constant("s", 1, {}, {0.5}) +
                Constant("t", 1, {}, {second}) + Node("DequantizeLinear", {"w", "s"}, {"a"}) +
                Node("DequantizeLinear", {"w", "t"}, {"b"}) + Node("Add", {"x", "a"}, {"c"}) +
                Node("Mul", {"c", "b"}, {"y"}) + Output("y"));
    EXPECT_EQ(
        Evaluated(graph, {Reals({2}, {1, 1})}).at(0),
        (std::vector<float>{1.5f * static_cast<float>(second), 4 * static_cast<float>(second)}));
    int typed = 0;
    for (int v = 0; v < graph->value_count(); ++v)
      typed += graph->value(ValueId{v}).type.quantized();
    return typed;
  };
  EXPECT_EQ(constants(0.5), 1);
  EXPECT_EQ(constants(0.25), 2);
  EXPECT_EQ(constants(-0.5), 2);
  EXPECT_EQ(constants(0), 2);
}

// q between a QuantizeLinear and a DequantizeLinear, through `moves`.
Result<Graph> Moved(const std::string& moves, const std::string& more = "") {
  return Import(13, Input("x", 1, {2, 2}) + Constant("s", 1, {}, {0.5}) +
                        Constant("z", 2, {}, {3}) + Constant("i", 7, {1}, {1}) + more +
                        Node("QuantizeLinear", {"x", "s", "z"}, {"q"}) + moves +
                        Node("DequantizeLinear", {"m", "s", "z"}, {"y"}) + Output("y"));
}

TEST(Typing, OperatorsThatOnlyMove) {
  const std::pair<std::string, bool> rows[] = {
      {Node("Identity", {"q"}, {"m"}), true},
      {Node("Flatten", {"q"}, {"m"}), true},
      {Node("Gather", {"q", "i"}, {"m"}), true},
      {Node("Squeeze", {"q"}, {"m"}), true},
      {Node("Unsqueeze", {"q", "i"}, {"m"}), true},
      {Node("Transpose", {"q"}, {"m"}), true},
      {Node("Concat", {"q", "q"}, {"m"}, Int("axis", 0)), true},
      {Node("Split", {"q"}, {"m", "n"}, Int("axis", 0)), true},
      {Node("Slice", {"q", "i", "i", "i"}, {"m"}), true},
      {Node("Add", {"q", "q"}, {"m"}), false},
  };
  for (const auto& [moves, typed] : rows) {
    const auto graph = Moved(moves);
    ASSERT_TRUE(graph) << moves << text::ErrorOf(graph);
    for (const char* name : {"q", "m"})
      EXPECT_EQ(graph->value(graph->FindValue(name)).type.quantized(), typed) << moves << name;
    for (NodeId id : graph->order()) {
      const evoq::Node& node = graph->node(id);
      if (node.op != "QuantizeLinear" && node.op != "DequantizeLinear") continue;
      EXPECT_EQ(node.inputs.size(), typed ? 1u : 3u) << moves;
    }
  }
}

// A Pad fills with an integer: the zero point is a real 0, an omitted one is the integer 0.
// Computed ones stay plain integers, as do values with scales of their own for each channel.
TEST(Typing, PadsFillWithIntegers) {
  const auto padded = [](const std::string& fill, const std::string& attrs = "") {
    return Moved(Node("Pad", {"q", "p", fill}, {"m"}, attrs), Constant("p", 7, {4}, {0, 1, 0, 0}) +
                                                                  Constant("f", 2, {}, {5}) +
                                                                  Node("Identity", {"f"}, {"g"}));
  };
  // x 1 stands for 2 + 3; what is 5 is a real 1, what is 0 is -1.5
  for (const auto& [fill, attrs, value] :
       {std::tuple("z", "", 0.0f), {"", "", -1.5f}, {"f", "", 1.0f}}) {
    const auto graph = padded(fill, attrs);
    ASSERT_TRUE(graph) << text::ErrorOf(graph);
    EXPECT_TRUE(graph->value(graph->FindValue("m")).type.quantized()) << fill;
    EXPECT_EQ(Evaluated(graph, {Reals({2, 2}, {1, 2, 3, 4})}).at(0),
              (std::vector<float>{value, 1, 2, value, 3, 4}))
        << fill;
  }
  const auto edge = padded("", text::Text("mode", "edge"));
  EXPECT_TRUE(edge->value(edge->FindValue("m")).type.quantized());
  EXPECT_EQ(Evaluated(edge, {Reals({2, 2}, {1, 2, 3, 4})}).at(0),
            (std::vector<float>{1, 1, 2, 3, 3, 4}));
  const auto computed = Moved(Node("Pad", {"q", "p", "fill"}, {"m"}),
                              Constant("p", 7, {4}, {0, 1, 0, 0}) + Input("fill", 2, {}));
  ASSERT_TRUE(computed) << text::ErrorOf(computed);
  EXPECT_FALSE(computed->value(computed->FindValue("m")).type.quantized());
}

// The number of a QuantizeLinear's type, where it has no zero point.
TEST(Typing, OutputTypeByNumber) {
  const auto type = [](const std::string& attrs) {
    const auto graph = Import(21, Input("x", 1, {2}) + Constant("s", 1, {}, {0.5}) +
                                      Node("QuantizeLinear", {"x", "s"}, {"q"}, attrs) +
                                      Node("DequantizeLinear", {"q", "s"}, {"y"}) + Output("y"));
    EXPECT_TRUE(graph) << text::ErrorOf(graph);
    return graph->value(graph->FindValue("q")).type.ToString();
  };
  EXPECT_EQ(type(""), "uint8[2](scale 0.5, zero 0)");
  EXPECT_EQ(type(Int("output_dtype", 3)), "int8[2](scale 0.5, zero 0)");
  EXPECT_EQ(type(Int("output_dtype", 4)), "uint16[2](scale 0.5, zero 0)");
}

// Integers that a Cast reads stay what they are, for all readers.
TEST(Typing, IntegersThatSomeoneElseReads) {
  const auto plain =
      Moved(Node("Identity", {"q"}, {"m"}) + Node("Cast", {"q"}, {"c"}, Int("to", 1)), Output("c"));
  ASSERT_TRUE(plain) << text::ErrorOf(plain);
  EXPECT_FALSE(plain->value(plain->FindValue("q")).type.quantized()) << Print(*plain);
  const auto y = Evaluated(plain, {Reals({2, 2}, {0, 0.5f, 1, -1})});
  EXPECT_EQ(y.at(0), (std::vector<float>{3, 4, 5, 1}));
  EXPECT_EQ(y.at(1), (std::vector<float>{0, 0.5f, 1, -1}));
}

// ---- what else an importer keeps

TEST(Imported, FactsOfTheFile) {
  onnx::ModelProto model;
  ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(
      "ir_version: 7 producer_name: 'tool' producer_version: '1.2' opset_import { version: 15 } "
      "opset_import { domain: 'org.other' version: 3 } graph { " +
          Input("x", 1, {2}) + Node("Relu", {"x"}, {"y"}) + Output("y") + "}",
      &model));
  const std::string bytes = model.SerializeAsString();
  const auto graph = ImportOnnxBytes(std::as_bytes(std::span(bytes)), "label");
  ASSERT_TRUE(graph) << text::ErrorOf(graph);
  EXPECT_EQ(graph->metadata, (std::map<std::string, std::string>{{"onnx.producer_name", "tool"},
                                                                 {"onnx.producer_version", "1.2"},
                                                                 {"onnx.ir_version", "7"},
                                                                 {"onnx.opset", "15"},
                                                                 {"onnx.opset.org.other", "3"},
                                                                 {"source", "label"}}));
}

// Each form of a Constant, of the type that ONNX gives it.
TEST(Imported, Constants) {
  const std::pair<std::string, std::string> rows[] = {
      {"name: 'value_float' type: FLOAT f: 2", "float32[]"},
      {"name: 'value_int' type: INT i: 2", "int64[]"},
      {"name: 'value_floats' type: FLOATS floats: 2 floats: 3", "float32[2]"},
      {"name: 'value_ints' type: INTS ints: 2 ints: 3 ints: 4", "int64[3]"},
      {"name: 'value_string' type: STRING s: 'a'", "string"},
      {"name: 'value_strings' type: STRINGS strings: 'a' strings: 'b'", "string[2]"},
      {"name: 'value' type: TENSOR t { data_type: 6 dims: 1 int32_data: 2 }", "int32[1]"}};
  for (const auto& [attribute, type] : rows) {
    const auto graph = Import(
        17, Input("x", 1, {2}) + Node("Constant", {}, {"c"}, "attribute { " + attribute + " } ") +
                Node("Identity", {"c"}, {"y"}) + Output("y"));
    ASSERT_TRUE(graph) << attribute << text::ErrorOf(graph);
    EXPECT_TRUE(graph->value(graph->outputs()[0]).type.ToString().starts_with(type))
        << attribute << graph->value(graph->outputs()[0]).type.ToString();
  }
  for (const char* wrong :
       {"name: 'value_float' type: INT i: 2", "name: 'value_int' type: FLOAT f: 2",
        "name: 'value_string' type: INT i: 2", "name: 'other' type: INT i: 2"}) {
    EXPECT_FALSE(
        Import(17, Input("x", 1, {2}) +
                       Node("Constant", {}, {"c"}, fmt::format("attribute {{ {} }} ", wrong)) +
                       Node("Identity", {"c"}, {"y"}) + Output("y")))
        << wrong;
  }
}

// A function whose If has values of its own: each call gives them names of its own. then: x + 1,
// else: -x, twice: 1 becomes 3 or 1.
TEST(Imported, FunctionsWithSubgraphs) {
  const std::string branches = "attribute { name: 'then_branch' type: GRAPH g { name: 't' " +
                               Constant("k", 1, {1}, {1}) + Node("Add", {"a", "k"}, {"r"}) +
                               Output("r") +
                               "} } attribute { name: 'else_branch' type: GRAPH g { name: 'e' " +
                               Node("Neg", {"a"}, {"r"}) + Output("r") + "} } ";
  const std::string function =
      "functions { name: 'F' domain: 'own' input: 'a' input: 'c' output: 'b' opset_import { "
      "version: "
      "17 } " +
      Node("If", {"c"}, {"b"}, branches) + "} ";
  onnx::ModelProto model;
  ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(
      "ir_version: 8 opset_import { version: 17 } opset_import { domain: 'own' version: 1 } " +
          function + "graph { name: 'g' " + Input("x", 1, {1}) + Input("c", 9, {}) +
          Node("F", {"x", "c"}, {"k"}, "", "own") + Node("F", {"k", "c"}, {"y"}, "", "own") +
          Output("y") + "}",
      &model));
  const std::string bytes = model.SerializeAsString();
  const auto graph = ImportOnnxBytes(std::as_bytes(std::span(bytes)), "label");
  ASSERT_TRUE(graph) << text::ErrorOf(graph);
  EXPECT_EQ(Evaluated(graph, {Reals({1}, {1}), Tensor::Scalar(true)}).at(0), std::vector<float>{3});
  EXPECT_EQ(Evaluated(graph, {Reals({1}, {1}), Tensor::Scalar(false)}).at(0),
            std::vector<float>{1});
}

}  // namespace
}  // namespace evoq
