// What older operator sets said, in the dialect's words. Values by hand.
#include "onnx/upgrade.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "onnx/text_testing.h"

namespace evoq {
namespace {

using text::Constant, text::Evaluated, text::ExpectNear, text::Import, text::Input, text::Int,
    text::Ints, text::Output, text::Reals, text::Text;
using Sizes = text::Sizes;

constexpr int kFloat = 1, kInt32 = 6, kInt64 = 7, kBool = 9;

std::string One(const std::string& op, const text::Names& inputs,
                const std::string& attributes = "") {
  return text::Node(op, inputs, {"y"}, attributes) + Output("y");
}

// The only node of this operator.
const Node* Find(const Result<Graph>& graph, const std::string& op) {
  EXPECT_TRUE(graph) << text::ErrorOf(graph);
  if (!graph) return nullptr;
  const Node* found = nullptr;
  for (NodeId id : graph->order()) {
    if (graph->node(id).op != op) continue;
    EXPECT_EQ(found, nullptr) << Print(*graph);
    found = &graph->node(id);
  }
  EXPECT_NE(found, nullptr) << Print(*graph);
  return found;
}

// The operator set in which ONNX's changelog has the change.
TEST(Upgrades, AreOfTheVersionOfTheChange) {
  const std::map<std::string, int> changed = {{"Add", 7},
                                              {"And", 7},
                                              {"Div", 7},
                                              {"Equal", 7},
                                              {"Greater", 7},
                                              {"Less", 7},
                                              {"Mul", 7},
                                              {"Or", 7},
                                              {"Pow", 7},
                                              {"Sub", 7},
                                              {"Xor", 7},
                                              {"Gemm", 7},
                                              {"PRelu", 7},
                                              {"Slice", 10},
                                              {"TopK", 10},
                                              {"Clip", 11},
                                              {"Pad", 11},
                                              {"Softmax", 13},
                                              {"LogSoftmax", 13},
                                              {"Hardmax", 13},
                                              {"Squeeze", 13},
                                              {"Unsqueeze", 13},
                                              {"ReduceSum", 13},
                                              {"RoiAlign", 16},
                                              {"ReduceL1", 18},
                                              {"ReduceL2", 18},
                                              {"ReduceLogSum", 18},
                                              {"ReduceLogSumExp", 18},
                                              {"ReduceMax", 18},
                                              {"ReduceMean", 18},
                                              {"ReduceMin", 18},
                                              {"ReduceProd", 18},
                                              {"ReduceSumSquare", 18},
                                              {"DFT", 20},
                                              {"GridSample", 20},
                                              {"GroupNormalization", 21}};
  std::map<std::string, std::vector<int>> rules;
  for (const UpgradeRule& rule : OnnxRules()) rules[rule.op].push_back(rule.before);
  for (const auto& [op, before] : changed) EXPECT_EQ(rules[op], std::vector<int>{before}) << op;
  EXPECT_EQ(rules["Split"], (std::vector<int>{13, 18}));  // sizes as an input; num_outputs
  EXPECT_EQ(rules["Resize"], (std::vector<int>{11, kAnyVersion}));
  for (const char* op : {"BatchNormalization", "Dropout", "Upsample", "Scatter"})
    EXPECT_EQ(rules[op], std::vector<int>{kAnyVersion}) << op;
  EXPECT_EQ(rules.size(), changed.size() + 6);
}

// x of zeros [1, 3, 2, 2] plus b: where the axes of b lie.
TEST(Upgrades, OldBroadcast) {
  const auto sum = [](const Sizes& b, const std::vector<double>& values, const std::string& attrs) {
    const auto graph =
        Import(6, Input("x", kFloat, {1, 3, 2, 2}) + Constant("b", kFloat, b, values) +
                      One("Add", {"x", "b"}, attrs));
    const auto y = Evaluated(graph, {Reals({1, 3, 2, 2}, std::vector<float>(12, 0))});
    return y.empty() ? std::vector<float>() : y[0];
  };
  const std::string broadcast = Int("broadcast", 1);
  const std::vector<float> channels = {1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3};
  const std::vector<float> rows = {4, 4, 5, 5, 4, 4, 5, 5, 4, 4, 5, 5};
  const std::vector<float> columns = {4, 5, 4, 5, 4, 5, 4, 5, 4, 5, 4, 5};
  EXPECT_EQ(sum({3}, {1, 2, 3}, broadcast + Int("axis", 1)), channels);
  EXPECT_EQ(sum({3}, {1, 2, 3}, broadcast + Int("axis", -3)), channels);
  EXPECT_EQ(sum({2}, {4, 5}, broadcast + Int("axis", 2)), rows);
  EXPECT_EQ(sum({2}, {4, 5}, broadcast + Int("axis", 3)), columns);
  EXPECT_EQ(sum({2}, {4, 5}, broadcast), columns);  // without an axis: the last ones
  EXPECT_EQ(sum({3, 2}, {1, 1, 2, 2, 3, 3}, broadcast + Int("axis", 1)), channels);
  // An axis without `broadcast` says nothing.
  EXPECT_EQ(sum({2}, {4, 5}, Int("axis", 2)), columns);
}

TEST(Upgrades, OldAttributesVanish) {
  for (const char* op : {"Add", "Gemm"}) {
    const auto graph = Import(
        6,
        Input("x", kFloat, {2, 2}) + Constant("c", kFloat, {2}, {1, 2}) +
            One(op, {"x", op[0] == 'G' ? "x" : "c", op[0] == 'G' ? "c" : ""}, Int("broadcast", 1)));
    const Node* node = Find(graph, op);
    ASSERT_NE(node, nullptr);
    EXPECT_FALSE(node->attrs.Has("broadcast")) << op;
  }
}

// A slope per channel of [1, 2, 2, 2] is one for four values.
TEST(Upgrades, SlopePerChannel) {
  const auto graph =
      Import(6, Input("x", kFloat, {1, 2, 2, 2}) + Constant("s", kFloat, {2}, {0.5, 10}) +
                    One("PRelu", {"x", "s"}));
  EXPECT_EQ(Evaluated(graph, {Reals({1, 2, 2, 2}, {-2, 1, -4, -6, -1, 3, -2, -3})}).at(0),
            (std::vector<float>{-1, 1, -2, -3, -10, 3, -20, -30}));
  // Of two axes it stands on the last one as it is; so does a slope of more axes.
  const auto flat = Import(6, Input("x", kFloat, {1, 2}) + Constant("s", kFloat, {2}, {0.5, 10}) +
                                  One("PRelu", {"x", "s"}));
  EXPECT_EQ(Evaluated(flat, {Reals({1, 2}, {-2, -1})}).at(0), (std::vector<float>{-1, -10}));
  const auto wide =
      Import(6, Input("x", kFloat, {1, 2, 2}) + Constant("s", kFloat, {1, 2}, {0.5, 10}) +
                    One("PRelu", {"x", "s"}));
  EXPECT_EQ(Evaluated(wide, {Reals({1, 2, 2}, {-2, -1, -4, -3})}).at(0),
            (std::vector<float>{-1, -10, -2, -30}));
}

TEST(Upgrades, BoundsAndPaddingHaveTheTypeOfTheInput) {
  const auto clipped =
      Import(10, Input("x", kFloat, {4}) +
                     One("Clip", {"x"}, text::Float("min", -1) + text::Float("max", 2)));
  EXPECT_EQ(Evaluated(clipped, {Reals({4}, {-3, 0, 2, 5})}).at(0),
            (std::vector<float>{-1, 0, 2, 2}));
  for (const int type : {kFloat, kInt32, kInt64, 11}) {
    const auto graph =
        Import(10, Input("x", type, {2}) +
                       One("Pad", {"x"}, Ints("pads", {1, 2}) + text::Float("value", 7)));
    ASSERT_TRUE(graph) << type << text::ErrorOf(graph);
    const Tensor x = type == kFloat   ? Reals({2}, {3, 4})
                     : type == kInt32 ? Tensor::FromValues<int32_t>(Shape{2}, {3, 4})
                     : type == kInt64 ? Tensor::FromValues<int64_t>(Shape{2}, {3, 4})
                                      : Tensor::FromValues<double>(Shape{2}, {3, 4});
    EXPECT_EQ(Evaluated(graph, {x}).at(0), (std::vector<float>{7, 3, 4, 7, 7})) << type;
  }
  const auto zeros = Import(10, Input("x", kFloat, {2}) + One("Pad", {"x"}, Ints("pads", {0, 1})));
  EXPECT_EQ(Evaluated(zeros, {Reals({2}, {3, 4})}).at(0), (std::vector<float>{3, 4, 0}));
}

TEST(Upgrades, SizesThatWereAttributes) {
  const Tensor x = Reals({1, 4}, {3, 1, 4, 2});
  const std::string in = Input("x", kFloat, {1, 4});
  EXPECT_EQ(
      Evaluated(Import(9, in + text::Node("TopK", {"x"}, {"y", "i"}, Int("k", 2)) + Output("y")),
                {x})
          .at(0),
      (std::vector<float>{4, 3}));
  const auto parts = [&](int opset, const std::string& attrs) {
    const std::string axis = Int("axis", 1);
    return Evaluated(Import(opset, in + text::Node("Split", {"x"}, {"a", "b"}, axis + attrs) +
                                       Output("a") + Output("b")),
                     {x});
  };
  EXPECT_EQ(parts(12, Ints("split", {1, 3})), (std::vector<std::vector<float>>{{3}, {1, 4, 2}}));
  EXPECT_EQ(parts(12, ""), (std::vector<std::vector<float>>{{3, 1}, {4, 2}}));
  EXPECT_EQ(parts(17, ""), (std::vector<std::vector<float>>{{3, 1}, {4, 2}}));
  const std::vector<std::pair<const char*, float>> sums = {
      {"ReduceSum", 10.0f},  {"ReduceMean", 2.5f}, {"ReduceMax", 4.0f},       {"ReduceMin", 1.0f},
      {"ReduceProd", 24.0f}, {"ReduceL1", 10.0f},  {"ReduceSumSquare", 30.0f}};
  for (const auto& [op, value] : sums) {
    const auto y = Evaluated(Import(12, in + One(op, {"x"}, Ints("axes", {1}))), {x});
    EXPECT_EQ(y.at(0), std::vector<float>{value}) << op;
  }
  const auto squeezed = Import(12, in + One("Squeeze", {"x"}, Ints("axes", {0})));
  ASSERT_TRUE(squeezed);
  EXPECT_EQ(squeezed->value(squeezed->outputs()[0]).type.ToString(), "float32[4]");
}

// Downwards of opset 10 nearest is the pixel above: the case of ONNX 1.5.
TEST(Upgrades, OldResizeDown) {
  const std::string in = Input("x", kFloat, {1, 1, 2, 4});
  const Tensor x = Reals({1, 1, 2, 4}, {1, 2, 3, 4, 5, 6, 7, 8});
  const auto run = [&](const std::vector<double>& scales, bool computed, const std::string& mode) {
    const std::string by = computed ? Constant("c", kFloat, {4}, scales) + Input("z", kFloat, {4}) +
                                          text::Node("Add", {"c", "z"}, {"s"})
                                    : Constant("s", kFloat, {4}, scales);
    std::vector<Tensor> inputs = {x};
    if (computed) inputs.push_back(Reals({4}, {0, 0, 0, 0}));
    const auto graph = Import(10, in + by + One("Resize", {"x", "s"}, Text("mode", mode)));
    return Evaluated(graph, inputs).at(0);
  };
  for (const bool computed : {false, true}) {
    SCOPED_TRACE(computed);
    EXPECT_EQ(run({1, 1, 0.6, 0.6}, computed, "nearest"), (std::vector<float>{1, 3}));
    EXPECT_EQ(run({1, 1, 1, 0.6}, computed, "nearest"), (std::vector<float>{1, 3, 5, 7}));
    EXPECT_EQ(run({1, 1, 1.5, 0.6}, computed, "nearest"), (std::vector<float>{1, 3, 1, 3, 5, 7}));
    ExpectNear(run({1, 1, 1, 0.5}, computed, "linear"), {1, 3, 5, 7});
    ExpectNear(run({1, 1, 0.5, 0.8}, computed, "linear"), {1, 2.25f, 3.5f});
  }
}

// Pixel y of the result is pixel floor(y / scale), or lies between two at y / scale.
TEST(Upgrades, OldResize) {
  const std::string in = Input("x", kFloat, {1, 1, 1, 2});
  const Tensor x = Reals({1, 1, 1, 2}, {1, 4});
  const std::string by_three = Constant("s", kFloat, {4}, {1, 1, 1, 3});
  for (const auto& [op, opset] : {std::pair("Upsample", 9), {"Resize", 10}}) {
    const auto run = [&, op = op, opset = opset](const std::string& attrs) {
      return Evaluated(Import(opset, in + by_three + One(op, {"x", "s"}, attrs)), {x}).at(0);
    };
    EXPECT_EQ(run(""), (std::vector<float>{1, 1, 1, 4, 4, 4})) << op;
    ExpectNear(run(Text("mode", "linear")), {1, 2, 3, 4, 4, 4});
    ExpectNear(run(Text("mode", "bilinear")), {1, 2, 3, 4, 4, 4});
  }
  const auto seven =
      Import(7, in + One("Upsample", {"x"},
                         "attribute { name: 'scales' type: FLOATS floats: 1 floats: 1 "
                         "floats: 1 floats: 3 } "));
  EXPECT_EQ(Evaluated(seven, {x}).at(0), (std::vector<float>{1, 1, 1, 4, 4, 4}));
  // Empty tensors stand for what is omitted.
  const auto empty = Import(11, in + Constant("e", kFloat, {0}, {}) + by_three +
                                    One("Resize", {"x", "e", "s"}, Text("mode", "nearest")));
  EXPECT_EQ(Evaluated(empty, {x}).at(0).size(), 6u);
  const auto sizes =
      Import(11, in + Constant("e", kFloat, {0}, {}) + Constant("z", kInt64, {4}, {1, 1, 1, 6}) +
                     One("Resize", {"x", "e", "e", "z"}));
  EXPECT_EQ(Evaluated(sizes, {x}).at(0).size(), 6u);
}

// With a ratio of 1 nothing stays, with 0 all does: what chance does not decide.
TEST(Upgrades, DropoutInTraining) {
  const Tensor x = Reals({1, 3}, {1, 2, 3});
  const std::string in = Input("x", kFloat, {1, 3}), both = Output("y") + Output("m");
  using Rows = std::vector<std::vector<float>>;
  const auto run = [&](double ratio, const Tensor* training) {
    const std::string given = training != nullptr ? Input("t", kBool, {}) : "";
    const auto graph = Import(13, in + given + Constant("r", kFloat, {}, {ratio}) +
                                      (training != nullptr ? "" : Constant("t", kBool, {}, {1})) +
                                      text::Node("Dropout", {"x", "r", "t"}, {"y", "m"}) + both);
    return Evaluated(graph, training != nullptr ? std::vector{x, *training} : std::vector{x});
  };
  const Tensor yes = Tensor::Scalar(true), no = Tensor::Scalar(false);
  EXPECT_EQ(run(0, nullptr), (Rows{{1, 2, 3}, {1, 1, 1}}));
  EXPECT_EQ(run(1, nullptr), (Rows{{0, 0, 0}, {0, 0, 0}}));
  EXPECT_EQ(run(1, &yes), (Rows{{0, 0, 0}, {0, 0, 0}}));
  EXPECT_EQ(run(1, &no), (Rows{{1, 2, 3}, {1, 1, 1}}));
  // What stays is divided by 1 - ratio, 0.5 where there is none.
  const auto halves = Evaluated(
      Import(13, in + Constant("t", kBool, {}, {1}) +
                     text::Node("Dropout", {"x", "", "t"}, {"y", "m"}, Int("seed", 3)) + both),
      {x});
  ASSERT_EQ(halves.size(), 2u);
  for (size_t i = 0; i < 3; ++i)
    EXPECT_EQ(halves[0][i], halves[1][i] * 2 * static_cast<float>(i + 1));
  // Inference: a constant `false`, also where the ratio is given.
  const auto off = Import(13, in + Constant("r", kFloat, {}, {1}) + Constant("t", kBool, {}, {0}) +
                                  text::Node("Dropout", {"x", "r", "t"}, {"y", "m"}) + both);
  EXPECT_EQ(Evaluated(off, {x}), (Rows{{1, 2, 3}, {1, 1, 1}}));
  for (const std::string& wrong : {Constant("r", kFloat, {}, {0}) + Constant("t", kInt32, {}, {0}),
                                   Constant("r", kInt32, {}, {0}) + Constant("t", kBool, {}, {1})})
    EXPECT_EQ(text::ErrorOf(Import(13, in + wrong + One("Dropout", {"x", "r", "t"}))),
              "test.onnx: node Dropout_0 (Dropout): training of float32[1, 3]");
}

// Channels (0, 3, 6) and (1, 1, 4): means 3 and 2, variances 6 and 2.
TEST(Upgrades, BatchNormalizationInTraining) {
  const std::string in = Input("x", kFloat, {1, 2, 3}) + Constant("s", kFloat, {2}, {2, 1}) +
                         Constant("b", kFloat, {2}, {1, 0}) + Constant("m", kFloat, {2}, {10, 20}) +
                         Constant("v", kFloat, {2}, {1, 2});
  const std::string outputs = Output("y") + Output("p") + Output("q");
  const auto run = [&](const std::string& attrs, const std::vector<float>& x) {
    return Evaluated(Import(15, in +
                                    text::Node("BatchNormalization", {"x", "s", "b", "m", "v"},
                                               {"y", "p", "q"}, Int("training_mode", 1) + attrs) +
                                    outputs),
                     {Reals({1, 2, 3}, x)});
  };
  const auto y = run(text::Float("momentum", 0.5) + text::Float("epsilon", 3), {0, 3, 6, 1, 1, 4});
  const float r = std::sqrt(5.0f);
  ExpectNear(y.at(0), {-1, 1, 3, -1 / r, -1 / r, 2 / r});  // sqrt(6 + 3) is 3
  ExpectNear(y.at(1), {6.5f, 11});                         // half of 10 and 3, of 20 and 2
  ExpectNear(y.at(2), {3.5f, 2});                          // half of 1 and 6, of 2 and 2
  // A thousandth of it, by default 1e-5 more: sqrt(6e-6 + 1e-5) is 0.004. A tenth is new.
  const auto small = run("", {0, 0.003f, 0.006f, 0.001f, 0.001f, 0.004f});
  const float t = std::sqrt(1.2e-5f);
  ExpectNear(small.at(0), {-0.5f, 1, 2.5f, -0.001f / t, -0.001f / t, 0.002f / t});
  ExpectNear(small.at(1), {9.0003f, 18.0002f});
  ExpectNear(small.at(2), {0.9f + 6e-7f, 1.8f + 2e-7f});
}

// Statistics that nobody reads go: (x - mean) / sqrt(variance + epsilon) * scale + bias.
TEST(Upgrades, BatchNormalizationOfManyOutputs) {
  const auto run = [](const std::string& attrs) {
    const auto graph = Import(
        8, Input("x", kFloat, {1, 1, 2}) + Constant("s", kFloat, {1}, {2}) +
               Constant("b", kFloat, {1}, {1}) + Constant("m", kFloat, {1}, {0.001}) +
               Constant("v", kFloat, {1}, {6e-6}) +
               text::Node("BatchNormalization", {"x", "s", "b", "m", "v"}, {"y", "p", "q"}, attrs) +
               Output("y"));
    const Node* node = Find(graph, "BatchNormalization");
    EXPECT_EQ(node->outputs.size(), 1u);
    EXPECT_FALSE(node->attrs.Has("momentum"));
    EXPECT_FALSE(node->attrs.Has("spatial"));
    return Evaluated(graph, {Reals({1, 1, 2}, {0.001f, 0.005f})}).at(0);
  };
  ExpectNear(run(text::Float("momentum", 0.5) + Int("spatial", 1)), {1, 3});
  ExpectNear(run(text::Float("epsilon", 1.9e-5)), {1, 1 + 0.008f / 0.005f});
}

// Of opset 12 and older over all axes from `axis` on.
TEST(Upgrades, OldSoftmax) {
  const auto run = [](const std::string& in, const std::string& attrs) {
    return Import(12, in + One("Softmax", {"x"}, attrs));
  };
  const std::string in = Input("x", kFloat, {1, 2, 2});
  const Tensor zeros = Reals({1, 2, 2}, {0, 0, 0, 0});
  EXPECT_EQ(Evaluated(run(in, ""), {zeros}).at(0), std::vector<float>(4, 0.25f));
  EXPECT_EQ(Evaluated(run(in, Int("axis", -2)), {zeros}).at(0), std::vector<float>(4, 0.25f));
  EXPECT_EQ(Evaluated(run(in, Int("axis", -1)), {zeros}).at(0), std::vector<float>(4, 0.5f));
  const auto last = run(in, Int("axis", -1));
  EXPECT_EQ(Find(last, "Softmax")->attrs.Int("axis"), 2);
  // Axes of one element behind it count for nothing.
  const auto thin = run(Input("x", kFloat, {2, 3, 1, 1}), Int("axis", 1));
  EXPECT_EQ(thin->order().size(), 1u) << Print(*thin);
  EXPECT_EQ(Find(thin, "Softmax")->attrs.Int("axis"), 1);
  const auto any =
      run("input { name: 'x' type { tensor_type { elem_type: 1 } } } ", Int("axis", 1));
  EXPECT_EQ(Evaluated(any, {zeros}).at(0), std::vector<float>(4, 0.25f));
  // Sizes of 0 stay what they are.
  const auto none = run(Input("x", kFloat, {2, 3, 0, 4}), Int("axis", 2));
  EXPECT_TRUE(Evaluated(none, {Reals({2, 3, 0, 4}, {})}).at(0).empty());
  EXPECT_EQ(none->value(none->outputs()[0]).type.ToString(), "float32[2, 3, 0, 4]");
}

TEST(Upgrades, NamesOfModes) {
  const std::string in =
      Input("x", kFloat, {1, 1, 4, 4}) + Constant("g", kFloat, {1, 1, 1, 2}, {0, 0});
  for (const auto& [mode, now] :
       {std::pair("bilinear", "linear"), {"bicubic", "cubic"}, {"nearest", "nearest"}}) {
    const auto graph = Import(16, in + One("GridSample", {"x", "g"}, Text("mode", mode)));
    EXPECT_EQ(Find(graph, "GridSample")->attrs.String("mode", "linear"), now);
  }
  EXPECT_EQ(
      Find(Import(16, in + One("GridSample", {"x", "g"})), "GridSample")->attrs.String("mode"),
      "linear");
  const std::string rois = Input("x", kFloat, {1, 1, 4, 4}) +
                           Constant("r", kFloat, {1, 4}, {0, 0, 2, 2}) +
                           Constant("i", kInt64, {1}, {0});
  const auto mode = [&](int opset, const std::string& attrs) {
    const auto graph = Import(opset, rois + One("RoiAlign", {"x", "r", "i"}, attrs));
    return Find(graph, "RoiAlign")->attrs.String("coordinate_transformation_mode");
  };
  EXPECT_EQ(mode(15, ""), "output_half_pixel");
  EXPECT_EQ(mode(16, ""), "");
  EXPECT_EQ(mode(15, Text("coordinate_transformation_mode", "half_pixel")), "half_pixel");
}

TEST(Upgrades, DftAxis) {
  const std::string in = Input("x", kFloat, {1, 4, 3, 1});
  for (const auto& [attrs, axis] : {std::pair<std::string, int64_t>("", 1), {Int("axis", 2), 2}}) {
    const auto graph = Import(17, in + One("DFT", {"x"}, attrs));
    const Node* node = Find(graph, "DFT");
    ASSERT_NE(node, nullptr);
    EXPECT_FALSE(node->attrs.Has("axis"));
    const Tensor* now = graph->ConstantInput(*node, 2);
    ASSERT_NE(now, nullptr) << Print(*graph);
    EXPECT_EQ(now->data<int64_t>()[0], axis);
    EXPECT_FALSE(node->input(1).valid());
  }
}

// A rule keeps the constants that it read, whatever becomes of the graph's own: values move when
// others are added, of which a graph may have any number before.
TEST(Upgrades, ConstantsStayWhileARuleChangesTheGraph) {
  Graph graph;
  const ValueId value = graph.AddConstant("c", Tensor::Scalar(2.5f));
  graph.Apply("Neg", "n", {value});
  Upgrade u(graph, graph.FindNode("n"), 17);
  const Tensor* c = u.Constant(0);
  graph.SetConstant(value, Tensor::Scalar(1.0f));
  EXPECT_EQ(c->data<float>()[0], 2.5f);
  EXPECT_EQ(u.Constant(0)->data<float>()[0], 1.0f);

  std::string padding;
  const auto weights = [](const char* name) {
    return Constant(name, 3, {1, 1, 4}, {2, 4, 6, 8}) +
           Constant(std::string(name) + "_s", kFloat, {1}, {0.5}) +
           Constant(std::string(name) + "_z", 3, {1}, {0});
  };
  for (int i = 0; i < 64; ++i) {
    const auto lstm =
        Import(17, Input("x", kFloat, {1, 1, 1}) + weights("w") + weights("r") + padding +
                       text::Node("DynamicQuantizeLSTM",
                                  {"x", "w", "r", "", "", "", "", "", "w_s", "w_z", "r_s", "r_z"},
                                  {"y"}, Int("hidden_size", 1), "com.microsoft") +
                       Output("y"));
    const std::vector<std::vector<float>> y = Evaluated(lstm, {Reals({1, 1, 1}, {1})});
    ASSERT_EQ(y.size(), 1u) << i;
    // Gates of 1, 2 and 4: sigmoid(2) tanh(sigmoid(1) tanh(4)).
    ExpectNear(y[0], {0.54910024f});
    padding += Constant(fmt::format("p{}", i), kFloat, {1}, {1});
  }
}

// FakeQuantize by its definition: with 0 on the grid the pair of QuantizeLinear and
// DequantizeLinear, else what it computes. Levels of 0.5.
TEST(Upgrades, FakeQuantize) {
  struct Row {
    std::vector<double> low, high, out;  // out: low and high, where others
    int64_t levels;
    const char* type;      // of the integers; "" where there are none
    std::vector<float> y;  // of -3, -0.3, 0.75 and 9
  };
  const std::vector<Row> rows = {
      {{-64}, {63.5}, {}, 256, "int8", {-3, -0.5, 1, 9}},
      {{-63.5}, {63.5}, {}, 255, "int8", {-3, -0.5, 1, 9}},
      {{0}, {127.5}, {}, 256, "uint8", {0, 0, 1, 9}},
      {{-1}, {126.5}, {}, 256, "uint8", {-1, -0.5, 1, 9}},
      {{-2}, {1.5}, {}, 8, "int8", {-2, -0.5, 1, 1.5}},
      {{-0.5}, {0}, {}, 2, "int8", {-0.5, -0.5, 0, 0}},
      {{-64, -2}, {63.5, 1.984375}, {}, 256, "int8", {-3, -0.5, 0.75, 1.984375}},
      {{0.25}, {2.25}, {}, 5, "", {0.25, 0.25, 0.75, 2.25}},
      {{-2}, {2}, {-4, 4}, 9, "", {-4, -1, 2, 4}},
  };
  for (size_t k = 0; k < rows.size(); ++k) {
    const Row& r = rows[k];
    const int64_t channels = static_cast<int64_t>(r.low.size());
    const Sizes sizes = channels == 1 ? Sizes{} : Sizes{channels, 1};
    const std::vector<double> out_low = r.out.empty() ? r.low : std::vector<double>{r.out[0]},
                              out_high = r.out.empty() ? r.high : std::vector<double>{r.out[1]};
    const auto graph = Import(17, Input("x", kFloat, {2, 2}) + Constant("l", kFloat, sizes, r.low) +
                                      Constant("h", kFloat, sizes, r.high) +
                                      Constant("m", kFloat, sizes, out_low) +
                                      Constant("n", kFloat, sizes, out_high) +
                                      text::Node("FakeQuantize", {"x", "l", "h", "m", "n"}, {"y"},
                                                 Int("levels", r.levels), "org.openvinotoolkit") +
                                      Output("y"));
    ExpectNear(Evaluated(graph, {Reals({2, 2}, {-3, -0.3f, 0.75f, 9})}).at(0), r.y);
    const NodeId pair = graph->value(graph->outputs()[0]).producer;
    const bool real = graph->node(pair).op == "DequantizeLinear";
    ASSERT_EQ(real, *r.type != 0) << k;
    if (real) {
      const ValueId q = graph->node(pair).input(0);
      EXPECT_EQ(DTypeName(graph->value(q).type.dtype), std::string(r.type)) << k;
    }
  }
}

TEST(Upgrades, ScatterHasAnotherName) {
  const auto graph =
      Import(9, Input("x", kFloat, {3}) + Constant("i", kInt64, {1}, {1}) +
                    Constant("u", kFloat, {1}, {9}) + One("Scatter", {"x", "i", "u"}));
  EXPECT_EQ(Evaluated(graph, {Reals({3}, {1, 2, 3})}).at(0), (std::vector<float>{1, 9, 3}));
}

// Groups (0, 2) and (4, 8): means 1 and 6, variances 1 and 4; 3 more is 4 and 7.
TEST(Upgrades, GroupsHadOneScale) {
  const float r = std::sqrt(7.0f);
  for (const int64_t channels : {4, -1}) {
    const auto graph =
        Import(18, Input("x", kFloat, {1, channels, 1}) + Constant("s", kFloat, {2}, {1, 10}) +
                       Constant("b", kFloat, {2}, {0.25, 5}) +
                       One("GroupNormalization", {"x", "s", "b"},
                           Int("num_groups", 2) + text::Float("epsilon", 3)));
    ASSERT_TRUE(graph) << graph.error().message();
    ExpectNear(Evaluated(graph, {Reals({1, 4, 1}, {0, 2, 4, 8})}).at(0),
               {-0.25f, 0.75f, 5 - 20 / r, 5 + 20 / r});
  }
}

}  // namespace
}  // namespace evoq
