// The architectures of the zoo are those of their papers: parameters and multiply-accumulates as
// published (torchvision's models of these names, with BatchNormalization folded to a bias where
// ours is).
#include "zoo/zoo.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "reference/reference.h"
#include "tests/sanitized.h"

namespace evoq {
namespace {

struct Published {
  const char* name;
  int64_t parameters, macs;  // of one sample
  std::vector<int64_t> output;
};

const std::vector<Published>& AllPublished() {
  static const std::vector<Published> all = {
      // 5x5 convolutions of 28 x 28 and 10 x 10 places, and three products:
      // (25 + 1) 6 + (150 + 1) 16 + 401 x 120 + 121 x 84 + 85 x 10.
      {"lenet", 61706, 117600 + 240000 + 48000 + 10080 + 840, {1, 10}},
      // torchvision's 3504872 hold scale and shift of 17056 channels: one bias each is left.
      {"mobilenetv2", 3504872 - 17056, 300774272, {1, 1000}},
      {"resnet18", 11689512 - 4800, 1814073344, {1, 1000}},
      {"resnet50", 25557032 - 26560, 4089184256, {1, 1000}},
      // Mean and variance are constants too.
      {"resnet50-bn", 25557032 + 2 * 26560, 4089184256, {1, 1000}},
      {"squeezenet1.1", 1235496, 349151936, {1, 1000}},
      {"vgg16", 138357544, 15470264320, {1, 1000}},
      // 12 layers of 4 (768 + 1) 768 + (768 + 1) 3072 + (3072 + 1) 768 + 4 x 768, behind words,
      // 128 positions and a normalization; products of 128 tokens with the weights and, in 12
      // heads, with each other.
      {"bert-base",
       12 * 7087872 + (30522 + 128) * 768 + 2 * 768,
       12 * (128 * (4 * 768 + 2 * 3072) * 768LL + 2 * 128 * 128 * 768LL),
       {1, 128, 768}},
  };
  return all;
}

int64_t Elements(const Graph& graph, ValueId id) {
  return graph.value(id).type.shape.elements().value();
}

int64_t Macs(const Graph& graph, const Node& node) {
  if (node.op == "Conv") {
    const Shape& w = graph.value(node.input(1)).type.shape;
    return Elements(graph, node.outputs[0]) * w[1].value * w[2].value * w[3].value;
  }
  if (node.op != "Gemm" && node.op != "MatMul") return 0;
  return Elements(graph, node.outputs[0]) * graph.value(node.input(0)).type.shape.sizes().back();
}

TEST(Zoo, ParametersAndMultiplicationsAsPublished) {
  const auto graphs = std::ranges::count_if(
      AllZooModels(), [](const ZooModel* model) { return model->build != nullptr; });
  ASSERT_EQ(static_cast<size_t>(graphs), AllPublished().size());
  for (const Published& want : AllPublished()) {
#ifdef EVOQ_SANITIZED
    if (want.parameters > 50'000'000) continue;  // a minute of random numbers
#endif
    const ZooModel* model = FindZooModel(want.name);
    ASSERT_NE(model, nullptr) << want.name;
    Graph graph = model->build({});
    const Value& input = graph.value(graph.inputs()[0]);
    std::vector<int64_t> sizes = input.type.shape.sizes();
    sizes[0] = 1;
    const Status bound = BindShapes(graph, {{input.name, sizes}});
    ASSERT_TRUE(bound) << want.name << ": " << bound.error().message();
    int64_t parameters = 0, macs = 0;
    for (int i = 0; i < graph.value_count(); ++i) {
      const Value& value = graph.value(ValueId{i});
      if (value.is_constant() && value.type.dtype == DType::kFloat32 && value.type.shape.rank() > 0)
        parameters += value.constant.elements();
    }
    for (const NodeId id : graph.order()) macs += Macs(graph, graph.node(id));
    EXPECT_EQ(parameters, want.parameters) << want.name;
    EXPECT_EQ(macs, want.macs) << want.name;
    ASSERT_EQ(graph.outputs().size(), 1u) << want.name;
    EXPECT_EQ(graph.value(graph.outputs()[0]).type.shape.sizes(), want.output) << want.name;
  }
}

// The same seed gives the same weights, another one others; weights of the deviation that keeps
// values in range.
TEST(Zoo, WeightsFollowTheSeed) {
  const auto weights = [](uint32_t seed) {
    const Graph graph = FindZooModel("lenet")->build({.seed = seed});
    const Tensor& w = graph.value(graph.node(graph.order()[0]).input(1)).constant;
    return std::vector<float>(w.data<float>(), w.data<float>() + w.elements());
  };
  const std::vector<float> one = weights(1);
  EXPECT_EQ(one, weights(1));
  EXPECT_NE(one, weights(2));
  double squares = 0;
  for (const float v : one) squares += static_cast<double>(v) * v;
  EXPECT_NEAR(squares / static_cast<double>(one.size()), 2.0 / 25, 0.02) << "2 / fan-in";
}

}  // namespace
}  // namespace evoq
