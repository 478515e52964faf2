#include "parity/model_diff.h"

#include <gtest/gtest.h>

#include <cmath>

#include "quant/test_net.h"

namespace evoq {
namespace {

// Two convolutions, of which the first has channels of very different size: equalization pays.
constexpr char kUneven[] = R"(graph net
input %x: float32[1, 4, 6, 6]
const %w1: float32[4, 4, 1, 1]
first: %h: float32[1, 4, 6, 6] = Conv{activation="Relu"}(%x, %w1)
const %w2: float32[4, 1, 3, 3]
second: %k: float32[1, 4, 6, 6] = Conv{activation="Relu", group=4, pads=[1, 1, 1, 1]}(%h, %w2)
const %w3: float32[4, 4, 1, 1]
third: %y: float32[1, 4, 6, 6] = Conv(%k, %w3)
output %y
)";

Graph Uneven() {
  Graph graph = MakeNet(kUneven);
  const ValueId w = graph.FindValue("w1");
  Tensor scaled = graph.value(w).constant.Clone();
  for (int64_t i = 0; i < scaled.elements(); ++i)
    scaled.mutable_data<float>()[i] *= i / 4 == 0 ? 1.0f : 0.03f;
  graph.SetConstant(w, scaled);
  return graph;
}

std::vector<std::vector<Tensor>> SamplesOf(const Graph& graph, int count = 4) {
  std::vector<std::vector<Tensor>> samples;
  for (int i = 0; i < count; ++i) samples.push_back({RandomInput(graph, 100 + i)});
  return samples;
}

Graph Quantized(const Graph& graph, bool equalize = true) {
  const auto ranges = Calibrate(graph, Reference(), RandomSamples(graph, 4), {});
  EXPECT_TRUE(ranges) << ranges.error().message();
  Graph quantized = graph;
  QuantizeOptions options;
  options.equalize = equalize;
  EXPECT_TRUE(QuantizeStatic(quantized, *ranges, options));
  return quantized;
}

// As a file would be loaded that was made from this graph.
ComparedModel Compiled(const Graph& graph) {
  auto model = LowerAndPack(graph);
  EXPECT_TRUE(model) << model.error().message();
  EXPECT_TRUE(InferTypes(model->graph));
  return {.path = "b.etm", .graph = model->graph, .plans = model->plans};
}

ComparedModel Given(const Graph& graph) {
  return {.path = "a.onnx", .graph = graph, .plans = {}, .as = ComparedAs::kGiven};
}

ModelDiff Between(const Graph& a, const Graph& b, int samples = 4) {
  auto diff = ModelDiff::Between(Given(a), Compiled(b), SamplesOf(a, samples));
  EXPECT_TRUE(diff) << diff.error().message();
  for (const auto& inputs : SamplesOf(a, samples)) {
    const auto added = diff->Add(inputs);
    EXPECT_TRUE(added) << added.error().message();
  }
  return std::move(*diff);
}

const DiffedValue& ValueOf(const ModelDiff& diff, const std::string& a_name) {
  for (const DiffedValue& value : diff.values()) {
    if (value.a_name == a_name) return value;
  }
  ADD_FAILURE() << "no pair of " << a_name;
  return diff.values().front();
}

TEST(ModelDiff, OneModelIsEqualToItself) {
  const Graph net = MakeNet(kConvNet);
  const ModelDiff diff = Between(net, net);
  EXPECT_GE(diff.values().size(), 6u);
  EXPECT_FALSE(diff.narrows());
  for (const DiffedValue& value : diff.values()) {
    EXPECT_GT(value.whole.sqnr_db(), 100) << value.name;
    EXPECT_GT(value.own.sqnr_db(), 100) << value.name;
    EXPECT_FALSE(value.rescaled) << value.name;
  }
}

TEST(ModelDiff, Int8IsNearEverywhere) {
  const Graph net = MakeNet(kConvNet);
  const ModelDiff diff = Between(net, Quantized(net));
  EXPECT_TRUE(diff.narrows());
  for (const char* name : {"s", "d", "p", "m", "l", "c"}) {
    const DiffedValue& value = ValueOf(diff, name);
    EXPECT_GT(value.own.sqnr_db(), 28) << name;
    EXPECT_GT(value.whole.sqnr_db(), 20) << name;
  }
  EXPECT_TRUE(ValueOf(diff, "c").output);
}

// One wrong scale in the middle: the step that writes it is bad by itself, those behind it are not,
// though their results are.
TEST(ModelDiff, TheStepThatIsWrongIsTheBadOne) {
  const Graph net = MakeNet(kConvNet);
  Graph wrong = Quantized(net);
  const ValueId p = wrong.FindValue("p");
  TensorType type = wrong.value(p).type;
  ASSERT_TRUE(type.quantized());
  QuantParams params = *type.quant;
  params.scales[0] /= 3;  // saturates
  wrong.SetType(p, TensorType(type.dtype, type.shape, params));
  const ValueId m = wrong.FindValue("m");  // a pool keeps its input's parameters
  wrong.SetType(m, TensorType(type.dtype, wrong.value(m).type.shape, params));
  const ModelDiff diff = Between(net, wrong);
  EXPECT_LT(ValueOf(diff, "p").own.sqnr_db(), 15);
  EXPECT_GT(ValueOf(diff, "p").own_share(), 0.9);
  for (const char* name : {"s", "d", "m", "l", "c"})
    EXPECT_GT(ValueOf(diff, name).own.sqnr_db(), 25) << name;
  EXPECT_LT(ValueOf(diff, "l").whole.sqnr_db(), 20);
  EXPECT_LT(ValueOf(diff, "l").own_share(), 0.2);
}

// The figure itself: the step of B alone on A's values as B rounds them, against A's step on the
// same.
TEST(ModelDiff, OwnErrorByDefinition) {
  const Graph net = MakeNet(kConvNet);
  const Graph quantized = Quantized(net, /*equalize=*/false);
  const ModelDiff diff = Between(net, quantized, 1);
  const std::vector<Tensor> inputs = SamplesOf(net, 1)[0];
  std::map<std::string, Tensor> a_values;
  ASSERT_TRUE(EvaluateGraph(net, inputs,
                            [&](ValueId v, const Tensor& t) { a_values[net.value(v).name] = t; }));
  const Node& a = net.node(net.FindNode("depthwise"));
  const Node& b = quantized.node(quantized.FindNode("depthwise"));
  const Tensor given = QuantizeTensor(a_values.at("s"), quantized.value(b.input(0)).type).value();
  const Tensor rounded = ToFloat32(given).value();
  const auto run = [](const Graph& graph, const Node& node, const Tensor& x) {
    std::vector<Tensor> in = {x};
    for (size_t i = 1; i < node.inputs.size(); ++i)
      in.push_back(node.inputs[i].valid() ? graph.value(node.inputs[i]).constant : Tensor());
    const TensorType type = graph.value(node.outputs[0]).type;
    return ToFloat32(EvaluateNode(node, in, std::span(&type, 1)).value()[0]).value();
  };
  const Tensor right = run(net, a, rounded), own = run(quantized, b, given);
  ValueError wanted;
  wanted.Add(right.values<float>(), own.values<float>());
  EXPECT_NEAR(ValueOf(diff, "d").own.sqnr_db(), wanted.sqnr_db(), 0.01);
  EXPECT_NEAR(ValueOf(diff, "d").own.max_abs(), wanted.max_abs(), 1e-5);
}

TEST(ModelDiff, EqualizedChannelsAreNoError) {
  const Graph net = Uneven();
  const ModelDiff plain = Between(net, Quantized(net, /*equalize=*/false));
  EXPECT_FALSE(ValueOf(plain, "h").rescaled);
  const ModelDiff diff = Between(net, Quantized(net));
  EXPECT_TRUE(ValueOf(diff, "h").rescaled);
  EXPECT_GT(ValueOf(diff, "h").whole.sqnr_db(), ValueOf(plain, "h").whole.sqnr_db() - 3);
  for (const char* name : {"h", "k", "y"}) EXPECT_GT(ValueOf(diff, name).own.sqnr_db(), 28) << name;
}

// A factor on channels that no reader takes back is an error, not another form.
TEST(ModelDiff, FactorsThatNobodyTakesBackAreErrors) {
  const Graph net = Uneven();
  Graph wrong = net;
  const ValueId w = wrong.FindValue("w1");
  Tensor scaled = wrong.value(w).constant.Clone();
  for (int64_t i = 0; i < 4; ++i) scaled.mutable_data<float>()[i] *= 1.5f;  // of channel 0
  wrong.SetConstant(w, scaled);
  const ModelDiff diff = Between(net, wrong);
  EXPECT_FALSE(ValueOf(diff, "h").rescaled);
  EXPECT_LT(ValueOf(diff, "h").own.sqnr_db(), 20);
  EXPECT_GT(ValueOf(diff, "k").own.sqnr_db(), 60);
}

TEST(ModelDiff, ReferenceIsAsGoodAsKernels) {
  const Graph net = MakeNet(kConvNet);
  ComparedModel reference = Given(net);
  reference.as = ComparedAs::kReference;
  auto diff = ModelDiff::Between(reference, Compiled(net), SamplesOf(net));
  ASSERT_TRUE(diff) << diff.error().message();
  ASSERT_TRUE(diff->Add(SamplesOf(net)[0]));
  for (const DiffedValue& value : diff->values()) EXPECT_GT(value.own.sqnr_db(), 100);
}

TEST(ModelDiff, ModelsThatHaveNothingInCommon) {
  const Graph net = MakeNet(kConvNet);
  const auto expect = [&](const std::string& text, const std::string& part) {
    const auto diff = ModelDiff::Between(Given(net), Compiled(MakeNet(text)), SamplesOf(net));
    ASSERT_FALSE(diff);
    EXPECT_NE(diff.error().message().find(part), std::string::npos) << diff.error().message();
  };
  expect(
      "graph o\ninput %u: float32[1, 3, 12, 12]\ninput %v: float32[1]\nn: %z: float32[1, 3, 12, "
      "12] "
      "= Add(%u, %v)\noutput %z\n",
      "a.onnx reads x, b.etm reads u, v");
  expect(
      "graph o\ninput %x: float32[1, 3, 12, 12]\nn: %z: float32[1, 3, 12, 12] = Relu(%x)\nm: %q: "
      "float32[1, 3, 12, 12] = Relu(%z)\noutput %z\noutput %q\n",
      "no value of b.etm has the name of one of a.onnx");
  expect(
      "graph o\ninput %x: float32[1, 3, 12, 12]\nn: %c: float32[1, 3, 12, 12] = Relu(%x)\noutput "
      "%c\n",
      "have other sizes: c");
}

}  // namespace
}  // namespace evoq
