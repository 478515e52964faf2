// Which layer of a float engine a quantized one is compared with, on runs made up by hand.
#include "foreign/profiles/pairing.h"

#include <gtest/gtest.h>

#include <map>

#include "base/text.h"
#include "foreign/profiles/rule.h"

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

// Convolutions of one kind, each behind the one before.
ForeignRun Chain(const char* precision, const std::vector<double>& ms) {
  std::vector<ForeignLayer> layers;
  for (size_t i = 0; i < ms.size(); ++i)
    layers.push_back(Conv(fmt::format("Conv_{}", i), ms[i], precision, kOut, k3x3, 589824,
                          fmt::format("t{}", i), fmt::format("t{}", i + 1)));
  return RunOf(layers);
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
  const auto found = Found(Chain("int8", {0.02, 0.06, 0.03}), Chain("fp16", {0.04, 0.05, 0.03}));
  EXPECT_EQ(LayersOf(found, "int8-layer-slower"), std::vector<std::string>{"Conv_1"})
      << "and not Conv_2, which takes as long";
  EXPECT_NEAR(found.at("int8-layer-slower").ms, 0.01, 1e-12);
  EXPECT_EQ(found.size(), 1u);
  // One of the baseline's is missing, and 0.06 ms is more than any of the others takes: 0.06 -
  // 0.05. 0.045 may be slower or not.
  const auto fewer = Found(Chain("int8", {0.045, 0.06, 0.03}), Chain("fp16", {0.04, 0.05}));
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

// Which names stay with an operator from file to file: two branches of one kind that have them are
// paired in whatever order they run, others are not.
TEST(Pairing, NamesThatLast) {
  const auto all = [](const ForeignLayer&) { return true; };
  const std::tuple<const char*, const char*, bool> rows[] = {
      {"/a/Conv", "/b/Conv", true},
      {"a.Conv", "b.Conv", true},
      {"resnet_conv0_fwd", "resnet_conv1_fwd", true},
      {"Conv_3", "Conv_5", false},
      {"Conv_3/WithoutBiases", "Conv_5/WithoutBiases", false},
      {"conv1/WithoutBiases", "/a_2/WithoutBiases", true},
      {"conv", "conv_a", false},
      {"", "1", false},
  };
  for (const auto& [first, second, lasting] : rows) {
    const auto run = [](const char* a, const char* b) {
      return RunOf({Conv(a, 1, "int8", kOut, k3x3, 9, "x", "a"),
                    Conv(b, 1, "int8", kOut, k3x3, 9, "x", "b")});
    };
    const auto pairs = PairLayers(run(first, second), all, run(second, first), all);
    EXPECT_EQ(pairs[0].sure.has_value(), lasting) << first;
    EXPECT_EQ(pairs[1].sure.has_value(), lasting) << first;
    EXPECT_TRUE(pairs[0].any || lasting) << first;
    if (!lasting) continue;
    EXPECT_EQ(pairs[0].sure, 1u) << first;
    EXPECT_EQ(pairs[1].sure, 0u) << first;
  }
  // A name that both layers of a run have tells neither.
  const auto both = [](const char* a, const char* b) {
    return RunOf(
        {Conv(a, 1, "int8", kOut, k3x3, 9, "x", "a"), Conv(b, 1, "int8", kOut, k3x3, 9, "x", "b")});
  };
  const auto twice = PairLayers(both("/a/Conv", "/a/Conv"), all, both("/a/Conv", "/b/Conv"), all);
  EXPECT_FALSE(twice[0].sure || twice[1].sure);
}

// Poolings by their own operators; a convolution by a product's name, and the other way round; a
// sum by neither.
TEST(Pairing, NamesOfWhatALayerIsFor) {
  const auto all = [](const ForeignLayer&) { return true; };
  const auto run = [](LayerGroup group, const char* a, const char* b) {
    ForeignRun made = RunOf({Conv(a, 1, "int8", {32, 9}, {}, 9, "x", "a"),
                             Conv(b, 1, "int8", {32, 9}, {}, 9, "x", "b")});
    for (ForeignLayer& layer : made.layers) layer.group = group;
    return made;
  };
  const struct {
    LayerGroup ours, theirs;
    const char *first, *second;
    bool sure;
  } rows[] = {
      {LayerGroup::kPooling, LayerGroup::kPooling, "/a/MaxPool", "/b/MaxPool", true},
      {LayerGroup::kConv, LayerGroup::kMatMul, "/a/MatMul", "/b/MatMul", true},
      {LayerGroup::kMatMul, LayerGroup::kConv, "/a/Conv", "/b/Conv", true},
      {LayerGroup::kConv, LayerGroup::kConv, "/a/Add", "/b/Add", false},
      {LayerGroup::kPooling, LayerGroup::kPooling, "/a/Conv", "/b/Conv", false},
      {LayerGroup::kConv, LayerGroup::kConv, "a/WithoutBiases", "b/WithoutBiases", true},
      {LayerGroup::kConv, LayerGroup::kConv, "a/x + a/y", "b/x + b/y", false},
      {LayerGroup::kConv, LayerGroup::kConv, "a.weight", "b.weight", true},
      {LayerGroup::kPooling, LayerGroup::kPooling, "a.weight", "b.weight", false},
  };
  for (const auto& row : rows) {
    const auto pairs = PairLayers(run(row.ours, row.first, row.second), all,
                                  run(row.theirs, row.second, row.first), all);
    EXPECT_EQ(pairs[0].sure.has_value(), row.sure) << row.first;
    EXPECT_EQ(pairs[1].sure.has_value(), row.sure) << row.first;
    if (row.sure) EXPECT_EQ(pairs[0].sure, 1u) << row.first;
  }
}

// What a layer without a sure counterpart may be: the least and the most that those take.
TEST(Pairing, RangesOfWhatItMayBe) {
  const auto all = [](const ForeignLayer&) { return true; };
  const auto some = [](std::vector<double> ms, std::vector<int64_t> kernel) {
    std::vector<ForeignLayer> layers;
    for (const double one : ms)
      layers.push_back(Conv("Conv_1", one, "fp16", kOut, kernel, 9, "x", "y"));
    return RunOf(layers);
  };
  const auto same = PairLayers(some({1}, k3x3), all, some({3, 2, 5, 4}, k3x3), all);
  EXPECT_TRUE(same[0].any && same[0].same_kind && !same[0].all_add && !same[0].sure);
  EXPECT_EQ(same[0].least_ms, 2);
  EXPECT_EQ(same[0].most_ms, 5);
  const auto other = PairLayers(some({1}, k3x3), all, some({3, 2, 5, 4}, {5, 5}), all);
  EXPECT_TRUE(other[0].any && !other[0].same_kind);
  EXPECT_EQ(other[0].least_ms, 2);
  EXPECT_EQ(other[0].most_ms, 5);
  const auto none = PairLayers(some({1}, k3x3), all, some({}, k3x3), all);
  EXPECT_FALSE(none[0].any || none[0].same_kind || none[0].sure);
  EXPECT_EQ(none[0].least_ms + none[0].most_ms, 0);
  EXPECT_TRUE(none[0].all_add);
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
  const auto found = Found(Chain("int8", {0.03, 0.01}), Chain("fp16", {0.02, 0.04, 0.02}));
  EXPECT_EQ(LayersOf(found, "int8-layer-unpaired"), std::vector<std::string>{"Conv_0"});
  EXPECT_EQ(found.size(), 1u);
  // Where one of those that it may be leaves the sum to others, more time than all of them take
  // proves nothing either.
  ForeignRun adds = Chain("int8", {0.05, 0.01}), before = Chain("fp16", {0.02, 0.04, 0.02});
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
  // What is written after it was read leads nowhere.
  const ForeignRun early = RunOf({link("x", "p"), link("a", "b"), link("p", "a")});
  EXPECT_FALSE(Wiring(early).DependsOn(1, 0));
  EXPECT_TRUE(Wiring(early).DependsOn(2, 0));
}

// A layer that works in place is no neighbour of its own; one that reads two of a layer's tensors
// is one neighbour.
TEST(Pairing, NeighboursInPlace) {
  using Layers = std::vector<size_t>;
  ForeignRun run = RunOf({Conv("w", 1, "fp16", kOut, k3x3, 9, "x", "a"),
                          Conv("in place", 1, "fp16", kOut, k3x3, 9, "a", "a"),
                          Conv("r", 1, "fp16", kOut, k3x3, 9, "a", "y")});
  EXPECT_EQ(Wiring(run).Readers(0), (Layers{1, 2}));
  EXPECT_EQ(Wiring(run).Readers(1), Layers{2});
  EXPECT_EQ(Wiring(run).Writers(1), Layers{0});
  EXPECT_EQ(Wiring(run).Writers(2), (Layers{0, 1}));
  run.layers[1].outputs = {{"b", {}, "", ""}, {"c", {}, "", ""}};
  run.layers[2].inputs = {{"c", {}, "", ""}, {"b", {}, "", ""}, {"a", {}, "", ""}};
  EXPECT_EQ(Wiring(run).Readers(1), Layers{2});
  EXPECT_EQ(Wiring(run).Writers(2), (Layers{0, 1}));
}

// Nothing that was measured, and nothing to compare it with.
TEST(Pairing, EmptyRuns) {
  const ForeignRun none;
  EXPECT_EQ(none.end_to_end_ms + none.layer_sum_ms, 0);
  EXPECT_EQ(none.weight_bytes, 0);
  EXPECT_FALSE(none.detailed || none.quantized());
  const Diagnosis alone = Diagnose(none, nullptr);
  EXPECT_TRUE(alone.findings.empty());
  EXPECT_EQ(alone.ideal_ms, 0);
  EXPECT_EQ(alone.below_ideal_ms, 0);
  EXPECT_EQ(Diagnose(none, &none).below_ideal_ms, 0);
  const ForeignLayer layer;
  EXPECT_EQ(layer.ms, 0);
  EXPECT_EQ(layer.weight_bytes + layer.weight_count, 0);
  EXPECT_FALSE(layer.has_residual);
  EXPECT_EQ(layer.group, LayerGroup::kOther);
  EXPECT_EQ(layer.conversion, Conversion::kNone);
}

// Without tensors and precisions of both runs nobody is compared.
TEST(Pairing, NamesAloneAreNotCompared) {
  ForeignRun int8 = RunOf({Conv("/a/Conv", 0.03, "int8", kOut, k3x3, 9, "x", "a")});
  ForeignRun fp16 = RunOf({Conv("/a/Conv", 0.02, "fp16", kOut, k3x3, 9, "x", "a")});
  EXPECT_EQ(Found(int8, fp16).size(), 1u);
  int8.detailed = false;
  EXPECT_TRUE(Found(int8, fp16).empty());
  int8.detailed = true;
  fp16.detailed = false;
  EXPECT_TRUE(Found(int8, fp16).empty());
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
  for (const char* precision : {"int8", "fp8", "int4", "fp4"})
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
