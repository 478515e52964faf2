// What small TensorFlow Lite files become.
#include <gtest/gtest.h>

#include <cmath>

#include "reference/reference.h"
#include "tflite/import_testing.h"

namespace evoq::tflite {
namespace {

// acc[m] = b[m] + sum_c (x[c] - 3) w[m, c];  y = round(acc[m] * 0.5 * s[m] / 1.0) - 1
TEST(Tflite, ConvolutionOfBytes) {
  const auto graph = Read(SmallNet());
  ASSERT_TRUE(graph) << graph.error().message();
  const TensorType& in = graph->value(graph->inputs()[0]).type;
  EXPECT_EQ(in.ToString(), "int8[1, 4, 4, 2](scale 0.5, zero 3)");
  Tensor x = Tensor::Allocate(in);
  for (int i = 0; i < 32; ++i) x.mutable_data<int8_t>()[i] = static_cast<int8_t>(5 * i - 70);
  const auto y = EvaluateGraph(*graph, {{x}});
  ASSERT_TRUE(y) << y.error().message();
  ASSERT_EQ((*y)[0].type().ToString(), "int8[1, 4, 4, 3](scale 1, zero -1)");
  const int w[3][2] = {{1, 2}, {3, 4}, {5, 6}}, b[3] = {8, -8, 16};
  const double s[3] = {0.25, 0.5, 0.125};
  for (int p = 0; p < 16; ++p) {
    for (int m = 0; m < 3; ++m) {
      int acc = b[m];
      for (int c = 0; c < 2; ++c) acc += (x.data<int8_t>()[2 * p + c] - 3) * w[m][c];
      const double v = std::nearbyint(acc * 0.5 * s[m]) - 1;
      EXPECT_EQ((*y)[0].data<int8_t>()[3 * p + m], std::clamp(v, -128.0, 127.0)) << p << " " << m;
    }
  }
}

// Between two convolutions stands no Transpose: one at the input, one at the output.
TEST(Tflite, TwoConvolutionsMeetWithoutTransposes) {
  TestModel file;
  const int x = file.Tensor("x", {1, 4, 4, 1}),
            w = file.Constant<float>("w", {1, 3, 3, 1}, 0, std::vector<float>(9, 1));
  const int h = file.Tensor("h", {1, 4, 4, 1}), y = file.Tensor("y", {1, 4, 4, 1});
  for (const auto& [from, to] : {std::pair(x, h), std::pair(h, y)}) {
    fb::Conv2DOptionsT options;
    options.stride_h = options.stride_w = 1;
    options.activation = 3;
    file.Operator(3, {from, w}, {to}).options.Set(std::move(options));
  }
  file.graph().inputs = {x};
  file.graph().outputs = {y};
  const auto graph = Read(file);
  ASSERT_TRUE(graph) << graph.error().message();
  std::vector<std::string> ops;
  for (NodeId id : graph->order()) ops.push_back(graph->node(id).op);
  EXPECT_EQ(ops, (std::vector<std::string>{"Transpose", "Conv", "Conv", "Transpose"}));
}

TEST(Tflite, RowsAreSortedAndFound) {
  int last = -1;
  for (const OpRow* row : AllOpRows()) {
    EXPECT_GT(row->number, last) << row->name;
    EXPECT_EQ(FindOpRow(row->number), row);
    last = row->number;
  }
  EXPECT_EQ(FindOpRow(kCustom), nullptr);
}

std::vector<std::string> Names(const Graph& graph, const std::vector<ValueId>& values) {
  std::vector<std::string> names;
  for (const ValueId id : values) names.push_back(graph.value(id).name);
  return names;
}

std::vector<float> Floats(const Tensor& tensor) {
  return {tensor.data<float>(), tensor.data<float>() + tensor.elements()};
}

// An input is the value before the run, the output "sum.next" the value after it. What is read
// behind the assignment is the new value.
TEST(Tflite, VariablesAreStates) {
  const auto graph = Read(SumNet());
  ASSERT_TRUE(graph) << graph.error().message();
  EXPECT_EQ(Names(*graph, graph->inputs()), (std::vector<std::string>{"x", "sum"}));
  EXPECT_EQ(Names(*graph, graph->outputs()), (std::vector<std::string>{"y", "after", "sum.next"}));
  EXPECT_EQ(graph->metadata.at("tflite.notes"),
            "sum: a state, which sum.next hands on; begins with zeros");
  EXPECT_EQ(graph->metadata.count("tflite.initial.sum"), 0u);
  const auto y = EvaluateGraph(*graph, {{Tensor::FromValues<float>(Shape{2}, {1, 2}),
                                         Tensor::FromValues<float>(Shape{2}, {10, 20})}});
  ASSERT_TRUE(y) << y.error().message();
  for (const Tensor& output : *y)
    EXPECT_EQ(Floats(output), (std::vector<float>{11, 22})) << output.type().ToString();
}

TEST(Tflite, FurtherSignaturesAreNamed) {
  TestModel file = SumNet();
  const std::string states = Read(file)->metadata.at("tflite.notes");
  for (const char* name : {"decode", "score"}) {
    file.AddGraph();
    file.graph().name = name;
    const int x = file.Tensor("x", {2}), y = file.Tensor("y", {2});
    file.graph().inputs = {x};
    file.graph().outputs = {y};
    file.Operator(0, {x, x}, {y}).options.Set(fb::AddOptionsT());
  }
  const auto graph = Read(file);
  ASSERT_TRUE(graph) << graph.error().message();
  EXPECT_EQ(graph->metadata.at("tflite.notes"),
            states +
                "\n2 not read: subgraphs 'decode', 'score', which the first one does not run, as "
                "further signatures are");
}

TEST(Tflite, StatesThatBeginWithOtherNumbers) {
  struct Row {
    std::vector<float> begin;
    const char *fact, *says;
  };
  const Row rows[] = {{{7, 7}, "7", "begins with 7 everywhere"},
                      {{0, 1.5}, "0,1.5", "begins with the numbers of the fact tflite.initial"}};
  for (const Row& row : rows) {
    const auto graph = Read(SumNet(row.begin));
    ASSERT_TRUE(graph) << graph.error().message();
    EXPECT_EQ(graph->metadata.at("tflite.initial.sum"), row.fact);
    EXPECT_NE(graph->metadata.at("tflite.notes").find(row.says), std::string::npos);
  }
}

// A variable that no operator of the graph assigns is a constant.
TEST(Tflite, VariablesThatStayAreConstants) {
  TestModel file = SumNet({5, 6});
  file.graph().operators.erase(file.graph().operators.begin() + 4);
  const auto graph = Read(file);
  ASSERT_TRUE(graph) << graph.error().message();
  EXPECT_EQ(Names(*graph, graph->inputs()), (std::vector<std::string>{"x"}));
  const auto y = EvaluateGraph(*graph, {{Tensor::FromValues<float>(Shape{2}, {1, 2})}});
  ASSERT_TRUE(y) << y.error().message();
  EXPECT_EQ(Floats((*y)[0]), (std::vector<float>{6, 8}));
}

TEST(Tflite, BranchesAreSubgraphs) {
  const auto graph = Read(BranchNet());
  ASSERT_TRUE(graph) << graph.error().message();
  const Node& node = graph->node(graph->order()[0]);
  EXPECT_EQ(node.op, "If");
  EXPECT_EQ(node.inputs.size(), 2u);  // the constant lies in the subgraphs
  for (const bool c : {true, false}) {
    const auto y =
        EvaluateGraph(*graph, {{Tensor::Scalar(c), Tensor::FromValues<float>(Shape{2}, {1, 2})}});
    ASSERT_TRUE(y) << y.error().message();
    EXPECT_EQ(Floats((*y)[0]), (c ? std::vector<float>{3, 8} : std::vector<float>{1, 2}));
  }
}

TEST(Tflite, LoopsRunWhileTheirConditionHolds) {
  for (const bool constant : {true, false}) {
    const auto graph = Read(LoopNet(constant));
    ASSERT_TRUE(graph) << graph.error().message();
    for (const int begin : {0, 2, 7}) {
      std::vector<Tensor> inputs = {Tensor::FromValues<float>(Shape{2}, {1, 2}),
                                    Tensor::Scalar<int32_t>(begin)};
      if (!constant) inputs.push_back(Tensor::FromValues<float>(Shape{2}, {3, 4}));
      const auto y = EvaluateGraph(*graph, {std::move(inputs)});
      ASSERT_TRUE(y) << y.error().message();
      const auto rounds = static_cast<float>(std::max(3 - begin, 0));
      EXPECT_EQ(Floats((*y)[0]),
                (std::vector<float>{std::pow(3.0f, rounds), 2 * std::pow(4.0f, rounds)}));
      EXPECT_EQ((*y)[1].data<int32_t>()[0], std::max(begin, 3));
      EXPECT_EQ(Floats((*y)[2]), (std::vector<float>{3, 4}));
    }
  }
}

// A constant that is an output, twice, beside an output that has the name that the first copy would
// get.
TEST(Tflite, OutputsKeepTheirNames) {
  TestModel file;
  const int x = file.Tensor("x", {2}), y = file.Tensor("y_1", {2}),
            c = file.Constant<float>("y", {2}, kTestFloat, {1, 2});
  file.Operator(101, {x}, {y});
  file.graph().inputs = {x};
  file.graph().outputs = {c, y};
  const auto graph = Read(file);
  ASSERT_TRUE(graph) << graph.error().message();
  EXPECT_EQ(Names(*graph, graph->outputs()), (std::vector<std::string>{"y", "y_1"}));
}

// Inputs and outputs of 16 bits have them; a cast to 16 bits rounds.
TEST(Tflite, HalvesAtTheBorders) {
  TestModel file;
  const int x = file.Tensor("x", {3}, kTestHalf), wide = file.Tensor("wide", {3}),
            sum = file.Tensor("sum", {3}), y = file.Tensor("y", {3}, kTestHalf),
            z = file.Tensor("z", {3});
  file.Operator(53, {x}, {wide});
  file.Operator(0, {wide, file.Constant<float>("c", {1}, kTestFloat, {1e-4f})}, {sum});
  file.Operator(53, {sum}, {y});
  file.Operator(53, {y}, {z});
  file.graph().inputs = {x};
  file.graph().outputs = {y, z};
  const auto graph = Read(file);
  ASSERT_TRUE(graph) << graph.error().message();
  EXPECT_EQ(graph->value(graph->inputs()[0]).type.ToString(), "float16[3]");
  Tensor half = Tensor::Allocate(TensorType(DType::kFloat16, Shape{3}));
  for (int i = 0; i < 3; ++i) half.mutable_data<uint16_t>()[i] = FloatToHalf(static_cast<float>(i));
  const auto out = EvaluateGraph(*graph, {{half}});
  ASSERT_TRUE(out) << out.error().message();
  EXPECT_EQ((*out)[0].type().ToString(), "float16[3]");
  for (int i = 0; i < 3; ++i) {
    const uint16_t rounded = FloatToHalf(static_cast<float>(i) + 1e-4f);
    EXPECT_EQ((*out)[0].data<uint16_t>()[i], rounded);
    EXPECT_EQ((*out)[1].data<float>()[i], HalfToFloat(rounded));
  }
}

TEST(Tflite, WeightsInBlocks) {
  const auto graph = Read(BlocksNet());
  ASSERT_TRUE(graph) << graph.error().message();
  const auto y = EvaluateGraph(*graph, {{Tensor::FromValues<float>(Shape{1, 4}, {1, 1, 1, 10})}});
  ASSERT_TRUE(y) << y.error().message();
  EXPECT_EQ(Floats((*y)[0]), (std::vector<float>{-15.5f, -20.25f}));
}

TEST(Tflite, SparseConstantsAreDense) {
  for (const int number : {124, 101}) {  // DENSIFY; ABS, which takes the constant itself
    TestModel file = SparseNet();
    file.model.operator_codes[0]->code = number;
    file.model.operator_codes[0]->short_code = static_cast<int8_t>(number);
    const auto graph = Read(file);
    ASSERT_TRUE(graph) << graph.error().message();
    const auto y = EvaluateGraph(*graph, {});
    ASSERT_TRUE(y) << y.error().message();
    EXPECT_EQ(Floats((*y)[0]), (std::vector<float>{0, 0, 0, 0, 0, 0, 1, 2, 0, 0, 3, 4}));
  }
}

// x = 1, 2, 3, 4: the sums 10, -2 + 2i and -2.
TEST(Tflite, SpectraAreTransforms) {
  struct Row {
    int number;
    std::vector<float> bins;
  };
  const Row rows[] = {{135, {10, std::sqrt(8.0f), 2}},  // COMPLEX_ABS
                      {134, {10, -2, -2}},              // REAL
                      {133, {0, 2, 0}},                 // IMAG
                      {53, {10, -2, -2}}};              // CAST
  for (const Row& row : rows) {
    TestModel file = SpectrumNet();
    file.model.operator_codes[1]->short_code = 0;
    file.model.operator_codes[1]->code = row.number;
    const auto graph = Read(file);
    ASSERT_TRUE(graph) << graph.error().message();
    const auto y = EvaluateGraph(*graph, {{Tensor::FromValues<float>(Shape{1, 4}, {1, 2, 3, 4})}});
    ASSERT_TRUE(y) << y.error().message();
    for (size_t i = 0; i < 3; ++i) EXPECT_NEAR(Floats((*y)[0])[i], row.bins[i], 1e-6) << row.number;
  }
}

TEST(Tflite, SlicesUpToAComputedEnd) {
  const auto graph = Read(CutNet());
  ASSERT_TRUE(graph) << graph.error().message();
  const auto y = EvaluateGraph(*graph, {{Tensor::FromValues<float>(Shape{4}, {1, 2, 3, 4}),
                                         Tensor::FromValues<int32_t>(Shape{1}, {-2})}});
  ASSERT_TRUE(y) << y.error().message();
  EXPECT_EQ(Floats((*y)[0]), (std::vector<float>{1, 2}));
}

// y[s i + a - p] += x[i] w[a], p the pad at the begin; along one of two equal axes.
std::vector<float> Widened(const std::vector<float>& x, int in, int out, int pad) {
  std::vector<float> y(static_cast<size_t>(out) * static_cast<size_t>(out));
  for (int i = 0; i < in * in * 9; ++i) {
    const int row = 2 * (i / 9 / in) + i % 9 / 3 - pad, column = 2 * (i / 9 % in) + i % 3 - pad;
    if (row < 0 || column < 0 || row >= out || column >= out) continue;
    y[static_cast<size_t>(row * out + column)] +=
        x[static_cast<size_t>(i / 9)] * static_cast<float>(i % 9 + 1);
  }
  return y;
}

// Output sizes that the file computes: of a free batch, and of free sizes too.
TEST(Tflite, TransposeConvOfAComputedShape) {
  for (const std::vector<int>& signature : {std::vector{-1, 3, 3, 1}, std::vector{-1, -1, -1, 1}}) {
    for (const auto& [padding, more] : {std::pair(0, 0), std::pair(1, 1), std::pair(1, 0)}) {
      const auto graph = Read(WideningNet(padding, more, signature));
      ASSERT_TRUE(graph) << graph.error().message();
      EXPECT_EQ(graph->metadata.count("tflite.notes"), 0u);
      for (NodeId id : graph->order()) EXPECT_NE(graph->node(id).op, "Shape");
      const std::vector<float> x = {1, -2, 3, 4, 5, -6, 7, 8, 9};
      const auto y = EvaluateGraph(*graph, {{Tensor::FromValues<float>(Shape{1, 3, 3, 1}, x)}});
      ASSERT_TRUE(y) << y.error().message();
      const int out = 6 + more;
      EXPECT_EQ((*y)[0].type().shape, (Shape{1, out, out, 1}));
      EXPECT_EQ(Floats((*y)[0]), Widened(x, 3, out, 0));
    }
  }
}

// A shape that is an input: what padding and strides say, and a note.
TEST(Tflite, TransposeConvOfAnOpenShape) {
  for (const auto& [padding, out] : {std::pair(0, 6), std::pair(1, 7)}) {
    TestModel file = WideningNet(padding, 0, {-1, 3, 3, 1});
    const int packed = file.graph().operators.back()->inputs[0];
    file.graph().operators.erase(file.graph().operators.end() - 2);
    file.graph().inputs.push_back(packed);
    const auto graph = Read(file);
    ASSERT_TRUE(graph) << graph.error().message();
    EXPECT_NE(graph->metadata.at("tflite.notes").find("y: "), std::string::npos);
    const Shape& shape = graph->value(graph->outputs()[0]).type.shape;
    EXPECT_EQ(shape[1].value, out);
    EXPECT_EQ(shape[2].value, out);
  }
}

}  // namespace
}  // namespace evoq::tflite
