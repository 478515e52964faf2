// The architectures layer by layer, written down a second time from their papers' tables, and the
// weights they are filled with.
#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "tests/sanitized.h"
#include "zoo/zoo.h"

namespace evoq {
namespace {

using Layers = std::vector<std::string>;

// The one number that all items are.
int64_t Same(const std::vector<int64_t>& items) {
  for (const int64_t item : items) EXPECT_EQ(item, items[0]);
  return items.at(0);
}

float ScalarInput(const Graph& graph, const Node& node, size_t i) {
  return graph.ConstantInput(node, i)->data<float>()[0];
}

// A node in short, without its inputs: "conv 64x3 k7 s2 p3", "fc 10x84", "clip 0 6".
std::string Layer(const Graph& graph, const Node& node) {
  const auto sizes = [&](size_t i) { return graph.value(node.input(i)).type.shape.sizes(); };
  const std::string& op = node.op;
  if (op == "Conv" || op == "MaxPool") {
    const std::vector<int64_t> kernel = node.attrs.Ints("kernel_shape");
    EXPECT_EQ(kernel.size(), 2u);
    EXPECT_EQ(node.attrs.Ints("strides").size(), 2u);
    EXPECT_EQ(node.attrs.Ints("pads").size(), 4u);
    const std::string window =
        fmt::format("k{} s{} p{}", Same(kernel), Same(node.attrs.Ints("strides")),
                    Same(node.attrs.Ints("pads")));
    if (op == "MaxPool") return "max " + window;
    const std::vector<int64_t> w = sizes(1);
    EXPECT_EQ(kernel, (std::vector<int64_t>{w.at(2), w.at(3)}));
    EXPECT_EQ(node.attrs.Ints("dilations"), (std::vector<int64_t>{1, 1}));
    const int64_t group = node.attrs.Int("group");
    if (node.inputs.size() == 3) EXPECT_EQ(sizes(2), (std::vector<int64_t>{w[0]}));
    return fmt::format("conv {}x{} {}{}{}", w[0], w[1], window,
                       group == 1 ? "" : fmt::format(" g{}", group),
                       node.inputs.size() == 3 ? "" : " no bias");
  }
  if (op == "Gemm") {
    EXPECT_EQ(node.attrs.Int("transB"), 1);
    EXPECT_EQ(sizes(2), (std::vector<int64_t>{sizes(1).at(0)}));
    return fmt::format("fc {}x{}", sizes(1).at(0), sizes(1).at(1));
  }
  if (op == "Clip")
    return fmt::format("clip {} {}", ScalarInput(graph, node, 1), ScalarInput(graph, node, 2));
  if (op == "BatchNormalization") {
    for (size_t i = 2; i < 5; ++i) EXPECT_EQ(sizes(i), sizes(1));
    return fmt::format("bn {} epsilon {}", sizes(1).at(0), node.attrs.Float("epsilon"));
  }
  if (op == "LayerNormalization") {
    EXPECT_EQ(sizes(2), sizes(1));
    return fmt::format("norm {} axis {} epsilon {}", sizes(1).at(0), node.attrs.Int("axis"),
                       node.attrs.Float("epsilon"));
  }
  if (op == "Reshape")
    return fmt::format("reshape {}",
                       fmt::join(ToInt64s(*graph.ConstantInput(node, 1)).value(), " "));
  if (op == "Transpose") return fmt::format("transpose {}", fmt::join(node.attrs.Ints("perm"), ""));
  if (op == "Softmax" || op == "Concat" || op == "Flatten" || op == "Gather") {
    std::string text = fmt::format("{} {}", op, node.attrs.Int("axis", 99));
    if (op == "Gather") text += fmt::format(" of {}", fmt::join(sizes(0), "x"));
    return text;
  }
  if (const Tensor* constant = graph.ConstantInput(node, 1); constant != nullptr) {
    if (constant->shape().rank() == 0) return fmt::format("{} {}", op, constant->data<float>()[0]);
    return fmt::format("{} {}", op, fmt::join(constant->sizes(), "x"));
  }
  return op;
}

// All nodes in order, each with how many nodes before it those stand that it reads, where that is
// not the one before it alone: "Add of 4 1". The graph's input stands before the first.
Layers LayersOf(const Graph& graph) {
  std::map<NodeId, size_t> place;
  Layers layers;
  for (const NodeId id : graph.order()) {
    const Node& node = graph.node(id);
    place[id] = layers.size() + 1;
    std::vector<size_t> back;
    for (const ValueId in : node.inputs) {
      if (graph.value(in).is_constant()) continue;
      const NodeId from = graph.value(in).producer;
      back.push_back(place[id] - (from.valid() ? place.at(from) : 0));
    }
    layers.push_back(Layer(graph, node));
    if (back != std::vector<size_t>{1})
      layers.back() += fmt::format(" of {}", fmt::join(back, " "));
  }
  return layers;
}

void Append(Layers& to, const Layers& more) { to.insert(to.end(), more.begin(), more.end()); }

// "conv" or, with normalization, what stands for it.
Layers Conv(const std::string& window, int64_t channels, bool norm, const std::string& of = "") {
  if (!norm) return {"conv " + window + of};
  return {"conv " + window + " no bias" + of, fmt::format("bn {} epsilon 1e-05", channels)};
}

Layers Lenet() {
  return {"conv 6x1 k5 s1 p2",  "Relu",       "max k2 s2 p0",
          "conv 16x6 k5 s1 p0", "Relu",       "max k2 s2 p0",
          "Flatten 1",          "fc 120x400", "Relu",
          "fc 84x120",          "Relu",       "fc 10x84"};
}

Layers Mobilenet() {
  Layers all = {"conv 32x3 k3 s2 p1", "clip 0 6"};
  int64_t in = 32;
  // Table 2: t, c, n, s.
  for (const auto& [t, c, n, s] : std::vector<std::tuple<int, int, int, int>>{{1, 16, 1, 1},
                                                                              {6, 24, 2, 2},
                                                                              {6, 32, 3, 2},
                                                                              {6, 64, 4, 2},
                                                                              {6, 96, 3, 1},
                                                                              {6, 160, 3, 2},
                                                                              {6, 320, 1, 1}}) {
    for (int i = 0; i < n; ++i) {
      if (t == 6) Append(all, {fmt::format("conv {}x{} k1 s1 p0", 6 * in, in), "clip 0 6"});
      Append(all, {fmt::format("conv {0}x1 k3 s{1} p1 g{0}", t * in, i == 0 ? s : 1), "clip 0 6",
                   fmt::format("conv {}x{} k1 s1 p0", c, t * in)});
      if (i > 0) all.push_back("Add of 6 1");
      in = c;
    }
  }
  Append(all,
         {"conv 1280x320 k1 s1 p0", "clip 0 6", "GlobalAveragePool", "Flatten 1", "fc 1000x1280"});
  return all;
}

Layers Squeezenet() {
  Layers all = {"conv 64x3 k3 s2 p0", "Relu", "max k3 s2 p0"};
  const auto fire = [&](int in, int squeeze, int expand) {
    Append(all,
           {fmt::format("conv {}x{} k1 s1 p0", squeeze, in), "Relu",
            fmt::format("conv {}x{} k1 s1 p0", expand, squeeze), "Relu",
            fmt::format("conv {}x{} k3 s1 p1 of 3", expand, squeeze), "Relu", "Concat 1 of 3 1"});
  };
  fire(64, 16, 64), fire(128, 16, 64);
  all.push_back("max k3 s2 p0");
  fire(128, 32, 128), fire(256, 32, 128);
  all.push_back("max k3 s2 p0");
  fire(256, 48, 192), fire(384, 48, 192), fire(384, 64, 256), fire(512, 64, 256);
  Append(all, {"conv 1000x512 k1 s1 p0", "Relu", "GlobalAveragePool", "Flatten 1"});
  return all;
}

Layers Vgg() {
  Layers all;
  int in = 3;
  for (const int out : {64, 64, 0, 128, 128, 0, 256, 256, 256, 0, 512, 512, 512, 0, 512, 512, 512,
                        0}) {  // 0: "M" of the paper
    if (out == 0) {
      all.push_back("max k2 s2 p0");
    } else {
      Append(all, {fmt::format("conv {}x{} k3 s1 p1", out, in), "Relu"});
      in = out;
    }
  }
  Append(all, {"Flatten 1", "fc 4096x25088", "Relu", "fc 4096x4096", "Relu", "fc 1000x4096"});
  return all;
}

Layers Resnet(const std::vector<int>& blocks, bool bottleneck, bool norm) {
  Layers all = Conv("64x3 k7 s2 p3", 64, norm);
  Append(all, {"Relu", "max k3 s2 p1"});
  int in = 64, width = 64;
  for (size_t stage = 0; stage < 4; ++stage, width *= 2) {
    const int out = bottleneck ? 4 * width : width;
    for (int i = 0; i < blocks[stage]; ++i) {
      const int stride = stage > 0 && i == 0 ? 2 : 1;
      const size_t begin = all.size();
      if (bottleneck) {
        Append(all, Conv(fmt::format("{}x{} k1 s1 p0", width, in), width, norm));
        all.push_back("Relu");
      }
      Append(all, Conv(fmt::format("{}x{} k3 s{} p1", width, bottleneck ? width : in, stride),
                       width, norm));
      all.push_back("Relu");
      Append(all, Conv(fmt::format("{}x{} k{} s1 p{}", out, width, bottleneck ? 1 : 3,
                                   bottleneck ? 0 : 1),
                       out, norm));
      const size_t branch = all.size() - begin;  // the block's input stands one before it
      const size_t shortcut = norm ? 2 : 1;      // nodes of a projection
      if (i == 0 && out != in) {
        Append(all, Conv(fmt::format("{}x{} k1 s{} p0", out, in, stride), out, norm,
                         fmt::format(" of {}", branch + 1)));
        all.push_back(fmt::format("Add of {} 1", shortcut + 1));
      } else {
        all.push_back(fmt::format("Add of 1 {}", branch + 1));
      }
      all.push_back("Relu");
      in = out;
    }
  }
  Append(all, {"GlobalAveragePool", "Flatten 1", fmt::format("fc 1000x{}", in)});
  return all;
}

Layers Bert(int length) {
  const std::string norm = "norm 768 axis -1 epsilon 1e-12";
  Layers all = {"Gather 0 of 30522x768", fmt::format("Add 1x{}x768", length), norm};
  const std::string split = fmt::format("reshape 0 {} 12 64", length);
  for (int layer = 0; layer < 12; ++layer) {
    Append(all, {"MatMul 768x768",
                 "Add 768",
                 split,
                 "transpose 0213",  // query, 1 to 4
                 "MatMul 768x768 of 5",
                 "Add 768",
                 split,
                 "transpose 0231",  // key, 5 to 8
                 "MatMul 768x768 of 9",
                 "Add 768",
                 split,
                 "transpose 0213",  // value, 9 to 12
                 "MatMul of 9 5",
                 "Div 8",
                 "Softmax -1",
                 "MatMul of 1 4",  // 13 to 16
                 "transpose 0213",
                 fmt::format("reshape 0 {} 768", length),  // 17, 18
                 "MatMul 768x768",
                 "Add 768",
                 "Add of 1 21",
                 norm,  // 19 to 22
                 "MatMul 768x3072",
                 "Add 3072",
                 "Div 1.4142135",
                 "Erf",
                 "Add 1",  // 23 to 27
                 "Mul of 4 1",
                 "Mul 0.5",
                 "MatMul 3072x768",
                 "Add 768",  // 28 to 31
                 "Add of 1 10",
                 norm});
  }
  return all;
}

// Sums over the weights that stand at one place of one operator, each as it would be if it were
// normally distributed with mean 0 and deviation 1.
struct Sums {
  double sum = 0, squares = 0, count = 0;
};
using SumsByPlace = std::map<std::string, Sums>;

SumsByPlace WeightsOf(const Graph& graph) {
  SumsByPlace places;
  for (const NodeId id : graph.order()) {
    const Node& node = graph.node(id);
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      const Tensor* w = graph.ConstantInput(node, i);
      if (w == nullptr || w->dtype() != DType::kFloat32 || w->shape().rank() == 0) continue;
      const std::vector<int64_t> sizes = w->sizes();
      double mean = 0, deviation = 0;
      if (node.op == "Conv") {
        deviation =
            i == 2 ? 0.05 : std::sqrt(2.0 / static_cast<double>(sizes[1] * sizes[2] * sizes[3]));
      } else if (node.op == "Gemm") {
        deviation = i == 2 ? 0.02 : std::sqrt(1.0 / static_cast<double>(sizes[1]));
      } else if (node.op == "MatMul") {
        deviation = std::sqrt(1.0 / static_cast<double>(sizes[0]));
      } else if (node.op == "BatchNormalization") {
        mean = i == 1 || i == 4 ? 1 : 0;
        deviation = i == 3 ? 0.1 : i == 4 ? 0.02 : 0.05;
      } else {  // normalizations, biases and embeddings of BERT
        mean = node.op == "LayerNormalization" && i == 1 ? 1 : 0;
        deviation = 0.02;
      }
      Sums& sums = places[fmt::format("{} {}", node.op, i)];
      for (const float v : w->values<float>()) {
        const double z = (v - mean) / deviation;
        sums.sum += z;
        sums.squares += z * z;
      }
      sums.count += static_cast<double>(w->elements());
    }
  }
  return places;
}

// Of places with at least 1,000 weights: the mean is within 4 / sqrt(1000), the deviation within
// 4 / sqrt(2000) of what is drawn from.
void ExpectDistribution(const SumsByPlace& places, const char* name) {
  for (const auto& [place, sums] : places) {
    ASSERT_GE(sums.count, 1000) << name << ": " << place;
    EXPECT_NEAR(sums.sum / sums.count, 0, 0.127) << name << ": " << place;
    EXPECT_NEAR(std::sqrt(sums.squares / sums.count), 1, 0.09) << name << ": " << place;
  }
}

TEST(ZooLayers, AsInThePapers) {
  const char* const image = "input %input: float32[N, 3, 224, 224]\n";
  const struct {
    const char* name;
    const char* input;
    const char* output;
    Layers layers;
    size_t places = 0;   // of weights, where their distribution is looked at
    bool large = false;  // a minute of random numbers under a sanitizer
  } cases[] = {
      {"lenet", "input %input: float32[N, 1, 28, 28]\n", "logits", Lenet()},
      {"mobilenetv2", image, "logits", Mobilenet()},
      {"resnet18", image, "logits", Resnet({2, 2, 2, 2}, false, false), 4},
      {"resnet50", image, "logits", Resnet({3, 4, 6, 3}, true, false)},
      {"resnet50-bn", image, "logits", Resnet({3, 4, 6, 3}, true, true), 7},
      {"squeezenet1.1", image, "logits", Squeezenet()},
      {"vgg16", image, "logits", Vgg(), 0, true},
      {"bert-base", "input %input_ids: int64[N, 16]\n", "last_hidden_state", Bert(16), 5, true},
  };
  EXPECT_EQ(ZooOptions{}.sequence, 128);
  for (const auto& c : cases) {
#ifdef EVOQ_SANITIZED
    if (c.large) continue;
#endif
    const ZooModel* model = FindZooModel(c.name);
    ASSERT_NE(model, nullptr) << c.name;
    const Graph graph = model->build({.sequence = 16});
    EXPECT_EQ(graph.name, c.name);
    EXPECT_EQ(graph.metadata.at("producer"), "evoq zoo");
    EXPECT_TRUE(graph.Verify()) << c.name;
    ASSERT_EQ(graph.inputs().size(), 1u) << c.name;
    EXPECT_NE(Print(graph).find(c.input), std::string::npos) << c.name;
    ASSERT_EQ(graph.outputs().size(), 1u) << c.name;
    EXPECT_EQ(graph.value(graph.outputs()[0]).name, c.output) << c.name;
    EXPECT_EQ(LayersOf(graph), c.layers) << c.name;
    if (c.places == 0) continue;
    const SumsByPlace places = WeightsOf(graph);
    EXPECT_EQ(places.size(), c.places) << c.name;
    ExpectDistribution(places, c.name);
  }
  EXPECT_EQ(FindZooModel("resnet"), nullptr);
}

// The first weights of seeds 1 and 2: the twelve uniform numbers of xorshift64* (Vigna 2016) that
// each is made of were summed by numpy in float32.
TEST(ZooLayers, TheSameNumbersEverywhere) {
  const auto first = [](const ZooOptions& options) {
    const Graph graph = FindZooModel("lenet")->build(options);
    const Tensor* w = graph.ConstantInput(graph.node(graph.order()[0]), 1);
    return std::vector<float>(w->data<float>(), w->data<float>() + 3);
  };
  const std::vector<float> one = {0x1.7e2d8p-2f, 0x1.0818c8p-3f, 0x1.0d9baap-3f};
  EXPECT_EQ(first({}), one) << "seed 1 unless another is asked for";
  EXPECT_EQ(first({.seed = 1}), one);
  EXPECT_EQ(first({.seed = 2}),
            (std::vector<float>{-0x1.7eb646p-2f, 0x1.741c02p-6f, 0x1.72512p-4f}));
}

}  // namespace
}  // namespace evoq
