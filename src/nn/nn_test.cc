// Networks from JSON: what layers give, and what is said of those that do not fit.
#include <gtest/gtest.h>

#include <set>

#include "nn/layer.h"

namespace evoq {
namespace {

using nlohmann::json;

// A layer of each row, in a network that it fits in.
const std::map<std::string, std::string>& Cases() {
  static const std::map<std::string, std::string> kCases = {
      {"activation", R"([3, 8, 8] {"layer": "activation", "kind": "relu6"} [N, 3, 8, 8])"},
      {"average-pool", R"([3, 8, 8] {"layer": "average-pool", "size": 3, "stride": 2, "pad": 1})"
                       R"( [N, 3, 4, 4])"},
      {"batch-norm", R"([3, 8, 8] {"layer": "batch-norm"} [N, 3, 8, 8])"},
      {"concat", R"([3, 8, 8] {"layer": "concat", "layers": [{"layer": "conv", "channels": 4},)"
                 R"( {"layer": "sequential", "layers": []}]} [N, 7, 8, 8])"},
      {"conv", R"([4, 8, 7] {"layer": "conv", "channels": 6, "size": 5, "stride": 2, "groups": 2})"
               R"( [N, 6, 4, 4])"},
      {"flatten", R"([3, 8, 8] {"layer": "flatten"} [N, 192])"},
      {"global-pool", R"([3, 8, 8] {"layer": "global-pool"} [N, 3, 1, 1])"},
      {"group-norm", R"([4, 8, 8] {"layer": "group-norm", "groups": 2} [N, 4, 8, 8])"},
      {"linear", R"([7, 12] {"layer": "linear", "outputs": 5} [N, 7, 5])"},
      {"layer-norm", R"([7, 12] {"layer": "layer-norm"} [N, 7, 12])"},
      {"max-pool", R"([3, 8, 8] {"layer": "max-pool"} [N, 3, 4, 4])"},
      {"rms-norm", R"([7, 12] {"layer": "rms-norm"} [N, 7, 12])"},
      {"residual", R"([3, 8, 8] {"layer": "residual", "layers": [{"layer": "conv", "channels": 5,)"
                   R"( "stride": 2}], "shortcut": [{"layer": "conv", "channels": 5, "size": 1,)"
                   R"( "stride": 2}]} [N, 5, 4, 4])"},
      {"sequential", R"([12] {"layer": "sequential", "layers": [{"layer": "linear", "outputs": 4},)"
                     R"( {"layer": "activation"}]} [N, 4])"},
      {"attention", R"([7, 12] {"layer": "attention", "heads": 3, "causal": true} [N, 7, 12])"},
      {"embedding", R"("tokens" {"layer": "embedding", "pieces": 9, "width": 6} [N, T, 6])"},
      {"positions", R"([7, 12] {"layer": "positions", "length": 9} [N, 7, 12])"},
  };
  return kCases;
}

TEST(Layers, GiveTheShapesThatTheyName) {
  for (const LayerDef* row : AllLayers()) {
    ASSERT_EQ(Cases().count(row->name), 1u) << row->name;
    const std::string& text = Cases().at(row->name);
    const size_t begin = text.find('{'), end = text.rfind('}') + 1;
    json network = {{"input", json::parse(text.substr(0, begin))}};
    network["layers"].push_back(json::parse(text.substr(begin, end - begin)));
    const auto graph = BuildNetwork(network, 1);
    ASSERT_TRUE(graph) << row->name << ": " << graph.error().message();
    EXPECT_EQ(graph->value(graph->outputs()[0]).type.ToString(), "float32" + text.substr(end + 1))
        << row->name;
  }
}

TEST(Layers, AreSortedAndTheirOptionsAreTheirs) {
  std::string last;
  for (const LayerDef* row : AllLayers()) {
    EXPECT_LT(last, row->name);
    last = row->name;
  }
}

std::string ErrorOf(const std::string& text) {
  const auto graph = ParseNetwork(text, 1);
  return graph ? "built" : graph.error().message();
}

TEST(Networks, SayWhichLayerDoesNotFit) {
  const auto layers = [](const std::string& list, const std::string& input = "[3, 8, 8]") {
    return ErrorOf(R"({"input": )" + input + R"(, "layers": [)" + list + "]}");
  };
  EXPECT_EQ(layers(R"({"layer": "flatten"})"), "built");
  EXPECT_EQ(layers(R"({"layer": "conv"})"), "layer 0: conv: channels is missing");
  EXPECT_EQ(layers(R"({"layer": "flatten"}, {"layer": "conv", "channels": 0})"),
            "layer 1: conv: channels is 0, expected an integer from 1 to 16777216");
  EXPECT_EQ(layers(R"({"layer": "conv", "channels": 2.5})"),
            "layer 0: conv: channels is 2.5, expected an integer from 1 to 16777216");
  EXPECT_EQ(layers(R"({"layer": "conv", "channels": 4, "groups": 2})"),
            "layer 0: conv: groups is 2, expected a divisor of 3 and 4 channels");
  EXPECT_EQ(layers(R"({"layer": "conv", "chanels": 4})"),
            "layer 0: conv: chanels is none of its options: channels size stride pad groups "
            "dilation bias");
  EXPECT_EQ(
      layers(R"({"layer": "convv"})"),
      "layer 0: \"layer\" is \"convv\", expected a name of `evoq list layers`; the nearest is "
      "conv");
  EXPECT_EQ(layers("7"), "layer 0: \"layer\" is missing, expected a name of `evoq list layers`");
  EXPECT_EQ(layers(R"({"layer": "activation", "kind": "rely"})").substr(0, 53),
            "layer 0: activation: kind is rely, expected one of re");
  EXPECT_EQ(layers(R"({"layer": "residual", "layers": [{"layer": "conv", "channels": 4}]})"),
            "layer 0: residual: its layers give float32[N, 4, 8, 8], expected float32[N, 3, 8, 8] "
            "to add to");
  EXPECT_EQ(layers(R"({"layer": "residual", "layers": []})").substr(0, 30),
            "layer 0: residual: its layers ");
  EXPECT_EQ(layers(R"({"layer": "attention", "heads": 2})"),
            "layer 0: attention: its input is float32[N, 3, 8, 8], expected [N, T, width]");
  EXPECT_EQ(layers(R"({"layer": "attention", "heads": 5})", "[7, 12]"),
            "layer 0: attention: heads is 5, expected a divisor of the width 12");
  EXPECT_EQ(layers(R"({"layer": "embedding", "pieces": 3, "width": 4})"),
            "layer 0: embedding: its input is float32[N, 3, 8, 8], expected tokens");
  EXPECT_NE(layers(R"({"layer": "max-pool", "size": 9})"), "built");
  EXPECT_EQ(layers(R"({"layer": "conv", "channels": 16777216, "size": 16777216, "pad": 8388608})"),
            "layer 0: conv: more than 2147483648 numbers of weights");
  EXPECT_EQ(layers(R"({"layer": "linear", "outputs": 16777216})", "[16777216, 16777216]"),
            "layer 0: linear: more than 2147483648 numbers of weights");
  std::string deep = R"({"layer": "flatten"})";
  for (int i = 0; i < 80; ++i) deep = R"({"layer": "sequential", "layers": [)" + deep + "]}";
  EXPECT_EQ(layers(deep), "nested deeper than 64 levels");
  EXPECT_EQ(ErrorOf("[]"), "expected an object with \"input\" and \"layers\"");
  EXPECT_EQ(ErrorOf(R"({"input": [1], "layers": []})"), "layers is empty");
  EXPECT_EQ(ErrorOf(R"({"input": [1], "layers": 3})"),
            "layers is number, expected a list of layers");
  EXPECT_EQ(ErrorOf(R"({"input": [0], "layers": [{"layer": "flatten"}]})"),
            "input is [0], expected sizes from 1 to 16777216, or \"tokens\"");
  EXPECT_EQ(ErrorOf(R"({"input": [1], "layer": 2, "layers": [{"layer": "flatten"}]})"),
            "layer is none of a network's members: name, input, layers");
}

TEST(Networks, TheSeedDecidesTheWeights) {
  const std::string text = R"({"input": "tokens", "layers": [
      {"layer": "embedding", "pieces": 9, "width": 8}, {"layer": "positions", "length": 5},
      {"layer": "residual", "layers": [{"layer": "attention", "heads": 2, "causal": true}]},
      {"layer": "linear", "outputs": 9, "bias": false}]})";
  const auto weights = [&](uint64_t seed) {
    const Graph graph = *ParseNetwork(text, seed);
    const Tensor& w = graph.value(graph.FindValue("embedding_1.weight")).constant;
    return std::vector<float>(w.data<float>(), w.data<float>() + w.elements());
  };
  EXPECT_EQ(weights(1), weights(1));
  EXPECT_NE(weights(1), weights(2));
  const Graph graph = *ParseNetwork(text, 1);
  EXPECT_EQ(graph.value(graph.outputs()[0]).type.ToString(), "float32[N, ?, 9]");
  EXPECT_EQ(graph.value(graph.outputs()[0]).name, "logits");
}

}  // namespace
}  // namespace evoq
