#include "ops/op.h"

#include <gtest/gtest.h>

#include "ops/driver.h"
#include "reference/test_util.h"

namespace evoq {
namespace {

TEST(Ops, EveryRowIsComplete) {
  const auto all = AllOps();
  ASSERT_FALSE(all.empty());
  for (size_t i = 0; i < all.size(); ++i) {
    const OpDef& op = *all[i];
    const std::string label = fmt::format("{}::{}", op.domain, op.name);
    EXPECT_NE(op.infer, nullptr) << label;
    EXPECT_TRUE(op.max_inputs < 0 || op.max_inputs >= op.min_inputs) << label;
    EXPECT_TRUE(op.outputs == -1 || op.outputs >= 1) << label;
    EXPECT_EQ(FindOp(op.name, op.domain), &op) << label;
    if (op.quant == QuantTrait::kLinear) {
      EXPECT_NE(op.macs, nullptr) << label;
    }
    if (i == 0) continue;
    const OpDef& before = *all[i - 1];
    EXPECT_LT(std::pair(std::string_view(before.domain), std::string_view(before.name)),
              std::pair(std::string_view(op.domain), std::string_view(op.name)));
  }
  EXPECT_EQ(FindOp("NoSuchOperator"), nullptr);
  EXPECT_EQ(FindOp("Conv", "ai.onnx"), FindOp("Conv"));
}

TEST(Drivers, ErrorsNameTheNode) {
  Node node{.op = "NoSuchOperator", .domain = "their.domain", .name = "n1"};
  auto result = EvaluateNode(node, {}, {});
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().message(),
            "node n1 (their.domain::NoSuchOperator): evoq has no operator of this name");
  node = {.op = "Conv", .name = "c", .inputs = {ValueId{0}}};
  const std::vector<Tensor> one = {Tensor::Scalar(1.0f)};
  result = EvaluateNode(node, one, {});
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().message(), "node c (Conv): input 1 is missing, expected at least 2");
}

TEST(Drivers, InferKeepsQuantizationAndUpdatesShapes) {
  auto graph = ParseGraph(
      "input %x: float32[N, 3, H, 8]\n"
      "const %w: int8[4, 3, 3, 3](scale 0.5, zero 0)\n"
      "q: %xq: uint8[...](scale 0.1, zero 3) = QuantizeLinear(%x)\n"
      "c: %y: uint8[...](scale 0.2, zero 3) = Conv{pads=[0, 1, 1, 0], strides=[1, 2]}(%xq, %w)\n"
      "d: %z = DequantizeLinear(%y)\n"
      "output %z\n");
  ASSERT_TRUE(graph) << graph.error().message();
  ASSERT_TRUE(Ok(InferTypes(*graph)));
  EXPECT_EQ(graph->value(graph->FindValue("y")).type.ToString(),
            "uint8[N, 4, H:-2/1, 4](scale 0.2, zero 3)");
  EXPECT_EQ(graph->value(graph->FindValue("z")).type.ToString(), "float32[N, 4, H:-2/1, 4]");
  ASSERT_TRUE(Ok(BindShapes(*graph, {{"x", {2, 3, 6, 8}}})));
  EXPECT_EQ(graph->value(graph->FindValue("z")).type.ToString(), "float32[2, 4, 5, 4]");
  EXPECT_EQ(NodeCost(*graph, graph->node(graph->FindNode("c"))).macs, 2 * 4 * 5 * 4 * 27);
  EXPECT_EQ(NodeCost(*graph, graph->node(graph->FindNode("c"))).bytes,
            2 * 3 * 6 * 8 + 4 * 27 + 2 * 4 * 5 * 4);
}

TEST(Drivers, BindShapesRefusesWhatDoesNotFit) {
  const char* text =
      "input %a: float32[N, S]\n"
      "input %b: float32[N, 4]\n"
      "m: %y = MatMul(%a, %b)\n"
      "output %y\n";
  const auto message = [&](std::map<std::string, std::vector<int64_t>> shapes) {
    auto graph = ParseGraph(text);
    EXPECT_TRUE(graph);
    const Status status = BindShapes(*graph, shapes);
    return status ? "ok " + graph->value(graph->FindValue("y")).type.ToString()
                  : status.error().message();
  };
  EXPECT_EQ(message({{"a", {3, 3}}}), "ok float32[3, 4]");
  EXPECT_EQ(message({{"c", {3, 3}}}), "the model has no input c; it has a, b");
  EXPECT_EQ(message({{"a", {3}}}), "input a: shape [3] has rank 1, the model's is [N, S]");
  EXPECT_EQ(message({{"b", {3, 5}}}), "input b: dimension 1 is 5, the model's is fixed to 4");
  EXPECT_EQ(message({{"a", {0, 0}}}), "ok float32[0, 4]");
  EXPECT_EQ(message({{"a", {3, -1}}}), "input a: dimension 1 is -1, expected at least 0");
  EXPECT_EQ(message({}),
            "input a: dimension 1 of [N, S] is not known, give its shape (--shape a=...)");
  EXPECT_EQ(message({{"a", {3, 3}}, {"b", {2, 4}}}),
            "input b: dimension 0 (N) is 2, but N is already 3");
  EXPECT_EQ(message({{"a", {int64_t{1} << 40, int64_t{1} << 40}}}).substr(0, 16),
            "input a would be");
}

// A size that is fixed is fixed wherever its symbol stands; -1 and what is not named stay as they
// are.
TEST(Drivers, FixShapesFixesWhatIsNamed) {
  const auto fixed = [](std::map<std::string, std::vector<int64_t>> shapes) {
    auto graph = ParseGraph(
        "input %a: float32[N, S]\ninput %b: float32[S, T]\nm: %y = MatMul(%a, %b)\noutput %y\n");
    EXPECT_TRUE(graph);
    EXPECT_TRUE(Ok(InferTypes(*graph)));
    const Status status = FixShapes(*graph, shapes);
    const auto type = [&](const char* name) {
      return graph->value(graph->FindValue(name)).type.shape.ToString();
    };
    return status ? type("a") + type("b") + type("y") : status.error().message();
  };
  EXPECT_EQ(fixed({}), "[N, S][S, T][N, T]");
  EXPECT_EQ(fixed({{"a", {-1, 7}}}), "[N, 7][7, T][N, T]");
  EXPECT_EQ(fixed({{"a", {2, -1}}, {"b", {-1, 5}}}), "[2, S][S, 5][2, 5]");
  EXPECT_EQ(fixed({{"a", {-1, -1}}}), "[N, S][S, T][N, T]");
  EXPECT_EQ(fixed({{"a", {-1, 7}}, {"b", {8, -1}}}),
            "input b: dimension 0 (S) is 8, but S is already 7");
  EXPECT_EQ(fixed({{"a", {1}}}), "input a: shape [1] has rank 1, the model's is [N, S]");
  EXPECT_EQ(fixed({{"y", {1, 1}}}), "the model has no input y; it has a, b");
  EXPECT_EQ(fixed({{"a", {int64_t{1} << 40, int64_t{1} << 40}}}).substr(0, 16), "input a would be");
}

TEST(Drivers, ChannelsLastEqualsChannelsFirst) {
  const Tensor x = Sequence({2, 3, 4, 5}, 0.25f), w = Sequence({4, 3, 2, 2}, -0.125f),
               bias = Sequence({4}, 1);
  const Tensor r = Sequence({2, 4, 3, 4}, 0.5f);
  const Node plain = NodeOf("Conv", 4);
  Node last = plain;
  last.attrs.Set("channels_last", 1);
  const Tensor expected = Eval(plain, {x, w, bias, r});
  const std::vector<int> to_last = {0, 2, 3, 1};
  const Tensor y = Eval(last, {*Permuted(x, to_last), w, bias, *Permuted(r, to_last)});
  EXPECT_TRUE(BitEqual(y, *Permuted(expected, to_last)));
}

TEST(Drivers, OtherFloatsAreComputedInFloat32) {
  const Tensor x = *FromFloat32(Floats({1, 1, 3}, {1, 2, 4}), DType::kFloat16);
  const Tensor w = *FromFloat32(Floats({1, 1, 2}, {1, 0.5f}), DType::kFloat16);
  const Tensor y = Eval(NodeOf("Conv", 2), {x, w});
  EXPECT_EQ(y.type().ToString(), "float16[1, 1, 2]");
  EXPECT_EQ(ToVector(*ToFloat32(y)), (std::vector<float>{2, 4}));
}

TEST(Drivers, EvaluateGraphIsTheSimulator) {
  auto graph = ParseGraph(
      "input %x: float32[1, 2]\n"
      "const %s: float32[2] = [1.5, 3.0]\n"
      "q: %xq: int8[1, 2](scale 0.5, zero 1) = QuantizeLinear(%x)\n"
      "r: %rq: uint8[1, 2](scale 1, zero 0) = QuantizeLinear(%xq)\n"
      "d: %y: float32[1, 2] = DequantizeLinear(%rq)\n"
      "output %y\n");
  ASSERT_TRUE(graph) << graph.error().message();
  int watched = 0;
  const std::vector<Tensor> inputs = {Floats({1, 2}, {0.7f, -3})};
  auto outputs = EvaluateGraph(*graph, inputs, [&](ValueId, const Tensor&) { ++watched; });
  ASSERT_TRUE(outputs) << outputs.error().message();
  // 0.7 / 0.5 rounds to 1 -> 0.5 -> rounds to even 0; -3 saturates at 0.
  EXPECT_EQ(ToVector((*outputs)[0]), (std::vector<float>{0, 0}));
  EXPECT_EQ(watched, 3);
  const std::vector<Tensor> wrong = {Floats({2, 1}, {0, 0})};
  auto error = EvaluateGraph(*graph, wrong);
  ASSERT_FALSE(error);
  EXPECT_EQ(error.error().message(), "input x is float32[2, 1], expected float32[1, 2]");
}

}  // namespace
}  // namespace evoq
