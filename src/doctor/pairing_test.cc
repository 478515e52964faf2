// Which layer of a float engine a quantized one is compared with, on runs made up by hand.
#include "doctor/pairing.h"

#include <gtest/gtest.h>

#include <map>

#include "base/text.h"
#include "doctor/rule.h"

namespace evoq {
namespace {

// A convolution that reads and writes those tensors.
ForeignLayer Conv(const std::string& name, double ms, const std::string& precision,
                  std::vector<int64_t> dims, std::vector<int64_t> kernel, int64_t weights,
                  const std::string& from, const std::string& to) {
  ForeignLayer layer;
  layer.name = name;
  layer.type = "CaskConvolution";
  layer.precision = precision;
  layer.group = LayerGroup::kConv;
  layer.ms = ms;
  layer.kernel = std::move(kernel);
  layer.weight_count = weights;
  layer.inputs = {{from, {32, 256, 14, 14}, "", precision}};
  layer.outputs = {{to, std::move(dims), "", precision}};
  layer.operators = OperatorsIn(name);
  return layer;
}

const std::vector<int64_t> kOut = {32, 256, 14, 14}, k3x3 = {3, 3}, k1x1 = {1, 1};

ForeignRun RunOf(std::vector<ForeignLayer> layers) {
  ForeignRun run;
  run.tool = "trtexec";
  run.detailed = true;
  run.layers = std::move(layers);
  Summarize(run);
  return run;
}

std::map<std::string, Finding> Found(const ForeignRun& run, const ForeignRun& baseline) {
  std::map<std::string, Finding> found;
  for (const Finding& f : Diagnose(run, &baseline).findings) found[f.rule->code] = f;
  return found;
}

const std::vector<std::string> kNobody;
std::vector<std::string> LayersOf(const std::map<std::string, Finding>& found,
                                  const std::string& code) {
  const auto it = found.find(code);
  return it == found.end() ? kNobody : it->second.layers;
}

// A residual block: a 3x3 convolution of 589,824 weights and beside it a 1x1 one of 32,768, with
// outputs of one size. The builder runs them in the other order in float. The 3x3 takes 0.026
// instead of 0.041 ms, the 1x1 0.013 instead of 0.014 ms: neither is slower.
TEST(Pairing, ByWeightsAndKernelWhateverTheOrder) {
  const ForeignRun int8 =
      RunOf({Conv("layer3.0.conv2.weight + QuantizeLinear_143 + Conv_145", 0.026, "int8", kOut,
                  k3x3, 589824, "a", "b"),
             Conv("layer3.0.downsample.0.weight + QuantizeLinear_154 + Conv_156", 0.013, "int8",
                  kOut, k1x1, 32768, "x", "c")});
  const ForeignRun fp16 = RunOf({Conv("Conv_27", 0.014, "fp16", kOut, k1x1, 32768, "x", "c"),
                                 Conv("Conv_26", 0.041, "fp16", kOut, k3x3, 589824, "a", "b")});
  EXPECT_TRUE(Found(int8, fp16).empty());
  const auto pairs = PairLayers(
      int8, [](const ForeignLayer&) { return true; }, fp16,
      [](const ForeignLayer&) { return true; });
  EXPECT_EQ(pairs[0].sure, 1u);
  EXPECT_EQ(pairs[1].sure, 0u);
}

// 0.050 instead of 0.041 ms: by the 9 us that they differ by, whatever the 1x1 one of 0.014 ms
// takes.
TEST(Pairing, ASlowerLayerIsChargedWithItsOwnExcess) {
  const ForeignRun int8 = RunOf({Conv("Conv_145", 0.050, "int8", kOut, k3x3, 589824, "a", "b"),
                                 Conv("Conv_156", 0.013, "int8", kOut, k1x1, 32768, "x", "c")});
  const ForeignRun fp16 = RunOf({Conv("Conv_27", 0.014, "fp16", kOut, k1x1, 32768, "x", "c"),
                                 Conv("Conv_26", 0.041, "fp16", kOut, k3x3, 589824, "a", "b")});
  const auto found = Found(int8, fp16);
  ASSERT_EQ(LayersOf(found, "int8-layer-slower"), std::vector<std::string>{"Conv_145"});
  EXPECT_NEAR(found.at("int8-layer-slower").ms, 0.009, 1e-12);
  EXPECT_EQ(found.size(), 1u);
}

// The baseline has a layer with such an output only, whose kernel is another: nobody is accused,
// and that is said.
TEST(Pairing, AnotherLayerWithTheSameOutputIsADoubt) {
  const ForeignRun int8 = RunOf({Conv("Conv_145", 0.026, "int8", kOut, k3x3, 589824, "a", "b")});
  const ForeignRun fp16 = RunOf({Conv("Conv_27", 0.014, "fp16", kOut, k1x1, 32768, "x", "c")});
  const auto found = Found(int8, fp16);
  EXPECT_EQ(LayersOf(found, "int8-layer-unpaired"), std::vector<std::string>{"Conv_145"});
  EXPECT_EQ(found.at("int8-layer-unpaired").ms, 0);
  EXPECT_EQ(found.size(), 1u);
  const Diagnosis diagnosis = Diagnose(int8, &fp16);
  EXPECT_NEAR(diagnosis.ideal_ms, 0.007, 1e-12) << "half of 16 bits";
  EXPECT_NEAR(diagnosis.below_ideal_ms, 0.019, 1e-12) << "0.026 - 0.007: a doubt takes nothing";
  // Nor is there a doubt where it is faster than that one, or where nothing is like it.
  EXPECT_TRUE(
      Found(RunOf({Conv("Conv_145", 0.014, "int8", kOut, k3x3, 589824, "a", "b")}), fp16).empty());
  EXPECT_TRUE(
      Found(RunOf({Conv("Conv_145", 0.026, "int8", {32, 512, 7, 7}, k3x3, 589824, "a", "b")}), fp16)
          .empty());
}

// Three layers of one kind, each behind the one before: the n-th is the n-th.
TEST(Pairing, AChainIsPairedInOrder) {
  const auto chain = [](const char* precision, std::vector<double> ms) {
    std::vector<ForeignLayer> layers;
    for (size_t i = 0; i < ms.size(); ++i)
      layers.push_back(Conv(fmt::format("Conv_{}", i), ms[i], precision, kOut, k3x3, 589824,
                            fmt::format("t{}", i), fmt::format("t{}", i + 1)));
    return RunOf(layers);
  };
  const auto found = Found(chain("int8", {0.02, 0.06, 0.03}), chain("fp16", {0.04, 0.05, 0.03}));
  EXPECT_EQ(LayersOf(found, "int8-layer-slower"), std::vector<std::string>{"Conv_1"})
      << "and not Conv_2, which takes as long";
  EXPECT_NEAR(found.at("int8-layer-slower").ms, 0.01, 1e-12);
  EXPECT_EQ(found.size(), 1u);
  // One of the baseline's is missing, and 0.06 ms is more than any of the others takes: 0.06 -
  // 0.05. 0.045 may be slower or not.
  const auto fewer = Found(chain("int8", {0.045, 0.06, 0.03}), chain("fp16", {0.04, 0.05}));
  EXPECT_EQ(LayersOf(fewer, "int8-layer-slower"), std::vector<std::string>{"Conv_1"});
  EXPECT_NEAR(fewer.at("int8-layer-slower").ms, 0.01, 1e-12);
  EXPECT_EQ(LayersOf(fewer, "int8-layer-unpaired"), std::vector<std::string>{"Conv_0"});
}

// Two branches of one kind that read the same tensor may run in any order: numbers in names do not
// tell which is which, paths do.
TEST(Pairing, BranchesOfOneKindAreToldByLastingNamesOnly) {
  const auto branches = [](const char* precision, const char* first, double first_ms,
                           const char* second, double second_ms) {
    return RunOf({Conv(first, first_ms, precision, kOut, k3x3, 589824, "x", "a"),
                  Conv(second, second_ms, precision, kOut, k3x3, 589824, "x", "b")});
  };
  const auto numbered = Found(branches("int8", "Conv_3", 0.03, "Conv_5", 0.01),
                              branches("fp16", "Conv_3", 0.02, "Conv_5", 0.04));
  EXPECT_EQ(LayersOf(numbered, "int8-layer-slower"), kNobody);
  EXPECT_EQ(LayersOf(numbered, "int8-layer-unpaired"), std::vector<std::string>{"Conv_3"});
  const auto named = Found(branches("int8", "/b1/Conv", 0.03, "/b2/Conv", 0.01),
                           branches("fp16", "/b2/Conv", 0.02, "/b1/Conv", 0.04));
  EXPECT_TRUE(named.empty());
  const auto slower = Found(
      branches("int8", "b1.weight + QuantizeLinear_7 + Conv_3", 0.03, "b2.weight + Conv_5", 0.01),
      branches("fp16", "b2.weight + Conv_1", 0.04, "b1.weight + Conv_2 + Relu_3", 0.02));
  EXPECT_EQ(LayersOf(slower, "int8-layer-slower").size(), 1u);
  EXPECT_NEAR(slower.at("int8-layer-slower").ms, 0.01, 1e-12);
  // The sum of both branches is fused into another branch: its name pairs nothing.
  const auto sum = Found(branches("int8", "/c/Conv + /a/Add", 0.03, "/d/Conv", 0.01),
                         branches("fp16", "/c/Conv", 0.04, "/d/Conv + /a/Add", 0.02));
  EXPECT_TRUE(sum.empty());
  // A chain here, branches there, and the other way round: the order is not theirs.
  const auto chain = [](const char* precision, double first_ms, double second_ms) {
    return RunOf({Conv("Conv_3", first_ms, precision, kOut, k3x3, 589824, "x", "a"),
                  Conv("Conv_5", second_ms, precision, kOut, k3x3, 589824, "a", "b")});
  };
  EXPECT_EQ(
      LayersOf(Found(chain("int8", 0.03, 0.01), branches("fp16", "Conv_3", 0.02, "Conv_5", 0.04)),
               "int8-layer-unpaired"),
      std::vector<std::string>{"Conv_3"});
  EXPECT_EQ(
      LayersOf(Found(branches("int8", "Conv_3", 0.03, "Conv_5", 0.01), chain("fp16", 0.02, 0.04)),
               "int8-layer-unpaired"),
      std::vector<std::string>{"Conv_3"});
}

// What differs in weights, in the kernel or in what it is for is no counterpart, whatever it is
// called.
TEST(Pairing, LayersOfOtherKinds) {
  const auto one = [](const char* name, double ms, const char* precision,
                      std::vector<int64_t> kernel, int64_t weights) {
    return RunOf({Conv(name, ms, precision, kOut, std::move(kernel), weights, "x", "y")});
  };
  EXPECT_EQ(LayersOf(Found(one("/a/Conv", 0.03, "int8", k3x3, 589824),
                           one("/a/Conv", 0.02, "fp16", k1x1, 65536)),
                     "int8-layer-unpaired")
                .size(),
            1u)
      << "of one name";
  EXPECT_EQ(
      LayersOf(Found(one("c", 0.03, "int8", {1, 9}, 589824), one("c", 0.02, "fp16", k3x3, 589824)),
               "int8-layer-unpaired")
          .size(),
      1u)
      << "as many weights";
  ForeignRun product = one("c", 0.02, "fp16", {}, 0);
  product.layers[0].group = LayerGroup::kMatMul;
  EXPECT_TRUE(Found(one("c", 0.03, "int8", {}, 0), product).empty())
      << "a product and a convolution of unknown weights";
  // Only integers against floats are judged.
  EXPECT_TRUE(Found(one("c", 0.03, "int8", k3x3, 9), one("c", 0.02, "int8", k3x3, 9)).empty());
  EXPECT_EQ(Found(one("c", 0.03, "fp16", k3x3, 9), one("c", 0.02, "fp16", k3x3, 9))
                .count("int8-layer-slower"),
            0u);
}

// Two of a kind, three in the baseline: an order proves nothing.
TEST(Pairing, MoreInTheBaselineProveNoOrder) {
  const auto chain = [](const char* precision, std::vector<double> ms) {
    std::vector<ForeignLayer> layers;
    for (size_t i = 0; i < ms.size(); ++i)
      layers.push_back(Conv(fmt::format("Conv_{}", i), ms[i], precision, kOut, k3x3, 589824,
                            fmt::format("t{}", i), fmt::format("t{}", i + 1)));
    return RunOf(layers);
  };
  const auto found = Found(chain("int8", {0.03, 0.01}), chain("fp16", {0.02, 0.04, 0.02}));
  EXPECT_EQ(LayersOf(found, "int8-layer-unpaired"), std::vector<std::string>{"Conv_0"});
  EXPECT_EQ(found.size(), 1u);
  // Where one of those that it may be leaves the sum to others, more time than all of them take
  // proves nothing either.
  ForeignRun adds = chain("int8", {0.05, 0.01}), before = chain("fp16", {0.02, 0.04, 0.02});
  adds.layers[0].has_residual = true;
  before.layers[0].has_residual = before.layers[1].has_residual = true;
  EXPECT_EQ(LayersOf(Found(adds, before), "int8-layer-unpaired"),
            std::vector<std::string>{"Conv_0"});
  before.layers[2].has_residual = true;
  EXPECT_NEAR(Found(adds, before).at("int8-layer-slower").ms, 0.01, 1e-12);
}

// 0.03 ms with the sum of the residual instead of 0.02 ms without: what the sum takes is not known.
TEST(Pairing, WhoAddsTheResidualDoesMore) {
  ForeignRun int8 = RunOf({Conv("/a/Conv", 0.03, "int8", kOut, k3x3, 589824, "x", "a")});
  ForeignRun fp16 = RunOf({Conv("/a/Conv", 0.02, "fp16", kOut, k3x3, 589824, "x", "a")});
  EXPECT_NEAR(Found(int8, fp16).at("int8-layer-slower").ms, 0.01, 1e-12);
  int8.layers[0].has_residual = true;
  EXPECT_EQ(LayersOf(Found(int8, fp16), "int8-layer-slower"), kNobody);
  EXPECT_EQ(LayersOf(Found(int8, fp16), "int8-layer-unpaired"),
            std::vector<std::string>{"/a/Conv"});
  fp16.layers[0].has_residual = true;
  EXPECT_NEAR(Found(int8, fp16).at("int8-layer-slower").ms, 0.01, 1e-12);
  int8.layers[0].has_residual = false;
  EXPECT_NEAR(Found(int8, fp16).at("int8-layer-slower").ms, 0.01, 1e-12) << "slower and does less";
}

// A classifier is a 1x1 convolution of single pixels in one engine and a product in the other.
TEST(Pairing, AClassifierIsAProduct) {
  ForeignLayer gemm = Conv("Gemm_48", 0.010, "fp16", {32, 1000}, {}, 512000, "x", "y");
  gemm.group = LayerGroup::kMatMul;
  const auto found =
      Found(RunOf({Conv("Gemm_257", 0.013, "int8", {32, 1000, 1, 1}, k1x1, 512000, "x", "y")}),
            RunOf({gemm}));
  EXPECT_NEAR(found.at("int8-layer-slower").ms, 0.003, 1e-12);
}

TEST(Pairing, DependsThroughAnyLayersBetween) {
  const auto link = [](const char* from, const char* to) {
    return Conv("c", 1, "fp16", kOut, k3x3, 9, from, to);
  };
  const ForeignRun run = RunOf({link("x", "a"), link("a", "b"), link("x", "c"), link("b", "d"),
                                link("c", "a"), link("a", "e")});
  const Wiring wiring(run);
  EXPECT_TRUE(wiring.DependsOn(3, 0));
  EXPECT_TRUE(wiring.DependsOn(1, 0));
  EXPECT_FALSE(wiring.DependsOn(2, 0));
  EXPECT_FALSE(wiring.DependsOn(3, 2));
  EXPECT_FALSE(wiring.DependsOn(5, 0)) << "a is written again before it is read";
  EXPECT_TRUE(wiring.DependsOn(5, 2)) << "through c and the new a";
}

// Two ways from each layer to the next: each layer is looked at once, not each way.
TEST(Pairing, ManyWaysLeadBack) {
  std::vector<ForeignLayer> layers = {Conv("alone", 1, "fp16", kOut, k3x3, 9, "x", "nobody's")};
  for (int i = 0; i < 200; ++i) {
    ForeignLayer layer =
        Conv("c", 1, "fp16", kOut, k3x3, 9, fmt::format("a{}", i), fmt::format("a{}", i + 1));
    layer.inputs.push_back({fmt::format("b{}", i), {}, "", ""});
    layer.outputs.push_back({fmt::format("b{}", i + 1), {}, "", ""});
    ForeignLayer beside = layer;  // the same from both to both of the next
    layer.outputs[1].name = beside.outputs[0].name = fmt::format("unread{}", i);
    layers.push_back(layer);
    layers.push_back(beside);
  }
  const ForeignRun run = RunOf(layers);
  EXPECT_TRUE(Wiring(run).DependsOn(layers.size() - 1, 1));
  EXPECT_FALSE(Wiring(run).DependsOn(layers.size() - 1, 0));
}

TEST(Pairing, NeighboursByTensorsOrByOrder) {
  ForeignRun run = RunOf({Conv("w", 1, "fp16", kOut, k3x3, 9, "x", "a"),
                          Conv("between", 1, "fp16", kOut, k3x3, 9, "x", "b"),
                          Conv("r", 1, "fp16", kOut, k3x3, 9, "a", "c")});
  EXPECT_EQ(Wiring(run).Readers(0), std::vector<size_t>{2});
  EXPECT_EQ(Wiring(run).Writers(2), std::vector<size_t>{0});
  EXPECT_TRUE(Wiring(run).Readers(2).empty());
  EXPECT_TRUE(Wiring(run).Writers(0).empty());
  // An output and an input without names are not one tensor.
  run.layers[0].outputs.push_back({});
  run.layers[1].inputs.push_back({});
  EXPECT_EQ(Wiring(run).Readers(0), std::vector<size_t>{2});
  for (ForeignLayer& layer : run.layers) layer.inputs[0].name = layer.outputs[0].name = "";
  EXPECT_EQ(Wiring(run).Readers(0), std::vector<size_t>{1})
      << "the next one, where tensors have no names";
  EXPECT_EQ(Wiring(run).Writers(2), std::vector<size_t>{1});
  EXPECT_TRUE(Wiring(run).Readers(2).empty());
}

TEST(Pairing, WhatIsQuantized) {
  for (const char* precision : {"int8", "fp8", "int4"})
    EXPECT_TRUE(RunOf({Conv("c", 1, precision, kOut, k3x3, 9, "x", "y")}).quantized()) << precision;
  for (const char* precision : {"fp32", "fp16", "bf16", "int32", "int64", ""})
    EXPECT_FALSE(RunOf({Conv("c", 1, precision, kOut, k3x3, 9, "x", "y")}).quantized())
        << precision;
  ForeignRun run = RunOf({Conv("c", 1, "int8", kOut, k3x3, 9, "x", "y")});
  run.layers[0].conversion = Conversion::kDequantize;
  EXPECT_FALSE(run.quantized()) << "weights that are dequantized compute nothing";
  run.layers[0].conversion = Conversion::kQuantize;
  EXPECT_TRUE(run.quantized());
}

// Only floats get narrower: an engine's shape arithmetic in int64 stays as it is in the ideal.
TEST(Pairing, IntegersAreIdealAsTheyAre) {
  ForeignLayer shape = Conv("Shape", 0.5, "int64", {4}, {}, 0, "x", "s");
  shape.group = LayerGroup::kOther;
  ForeignLayer bf16 = Conv("half", 0.2, "bf16", kOut, k3x3, 9, "x", "y");
  const ForeignRun run = RunOf({shape, Conv("whole", 0.4, "fp32", kOut, k1x1, 9, "y", "z"), bf16});
  EXPECT_NEAR(Diagnose(run, &run).ideal_ms, 0.5 + 0.1 + 0.1, 1e-12)
      << "a quarter of 32 bits, half of 16";
}

}  // namespace
}  // namespace evoq
