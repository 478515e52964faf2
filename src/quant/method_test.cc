// The driver of methods: names, stages, what goes with which scheme; what the defaults are.
#include "quant/method.h"

#include <gtest/gtest.h>

#include <set>

#include "quant/params.h"
#include "quant/test_net.h"

namespace evoq {
namespace {

// The text of a graph and the bytes of its constants.
std::string All(const Graph& graph) {
  std::string all = Print(graph);
  for (int i = 0; i < graph.value_count(); ++i) {
    const Value& value = graph.value(ValueId{i});
    if (!value.is_constant()) continue;
    all.append(reinterpret_cast<const char*>(value.constant.raw()),
               static_cast<size_t>(value.constant.type().bytes().value_or(0)));
  }
  return all;
}

std::string Refusal(const Status& status) { return status ? "" : status.error().message(); }

MethodChoice Parsed(std::string_view names) {
  auto methods = ParseMethods(names);
  EXPECT_TRUE(methods) << names;
  return methods ? *methods : MethodChoice();
}

TEST(Method, RowsAreComplete) {
  std::set<std::string> names;
  for (const QuantMethod* method : AllMethods()) {
    EXPECT_TRUE(names.insert(method->name).second) << method->name;
    EXPECT_EQ(FindMethod(method->name), method);
    EXPECT_GT(std::string(method->doc).size(), 20) << method->name;
    EXPECT_GT(std::string(method->paper).size(), 10) << method->name;
    EXPECT_TRUE(method->run != nullptr || method->ask != nullptr) << method->name;
    int served = 0;
    for (const QuantScheme* scheme : AllSchemes()) served += method->refuses(*scheme, {}).empty();
    EXPECT_GT(served, 0) << method->name << " serves no scheme";
    EXPECT_FALSE(method->refuses(*FindScheme("float32"), {}).empty()) << method->name;
  }
}

TEST(Method, NamesAreReadInTheOrderOfStages) {
  EXPECT_FALSE(Parsed(""));
  EXPECT_TRUE(Parsed("none") && Parsed("none")->empty());
  const MethodChoice both = Parsed("bias-correction,equalize");
  ASSERT_EQ(both->size(), 2);
  EXPECT_STREQ((*both)[0]->name, "equalize");
  EXPECT_STREQ((*both)[1]->name, "bias-correction");
  const std::pair<const char*, const char*> rows[] = {
      {"gptk", "--method gptk: \"gptk\" is not one of `evoq list methods`; the nearest is gptq"},
      {"equalize,", "--method equalize,: \"\" is not one of `evoq list methods`"},
      {"none,equalize", "--method none,equalize: \"none\" is not one of `evoq list methods`"},
      {"equalize,equalize", "--method equalize,equalize: equalize stands there twice"}};
  for (const auto& [names, message] : rows) {
    const auto parsed = ParseMethods(names);
    ASSERT_FALSE(parsed) << names;
    EXPECT_EQ(parsed.error().message(), message);
    EXPECT_EQ(parsed.error().code(), ErrorCode::kUsage);
  }
}

TEST(Method, ThatDoesNotGoWithTheScheme) {
  const MethodChoice equalize = Parsed("equalize");
  EXPECT_EQ(Refusal(CheckMethods(equalize, *FindScheme("int4-weights"), {})),
            "--method equalize does not go with --scheme int4-weights: it widens channels of "
            "integer activations");
  EXPECT_EQ(Refusal(CheckMethods(equalize, *FindScheme("int8"), {.per_channel = false})),
            "--method equalize does not go with --scheme int8: weights with one scale "
            "(--per-tensor) would pay for it");
  EXPECT_TRUE(CheckMethods(equalize, *FindScheme("int8"), {}));
  EXPECT_TRUE(CheckMethods({}, *FindScheme("float32"), {}));
  Graph net = MakeNet(kConvNet);
  EXPECT_FALSE(QuantizeBy(*FindScheme("int8-dynamic"), equalize, net, {}, {}));
}

// The defaults of int8 by name give the graph that the scheme alone gives; "none" another one.
TEST(Method, DefaultsByName) {
  const Graph net = MakeNet(kConvNet);
  auto ranges = Calibrate(net, Reference(), RandomSamples(net, 4), {});
  ASSERT_TRUE(ranges);
  const auto quantized = [&](std::string_view names) {
    Graph graph = net;
    const auto report = QuantizeBy(*FindScheme("int8"), Parsed(names), graph, *ranges, {});
    EXPECT_TRUE(report) << report.error().message();
    return All(graph);
  };
  Graph alone = net;
  ASSERT_TRUE(FindScheme("int8")->run(alone, *ranges, {}));
  EXPECT_EQ(quantized(""), All(alone));
  EXPECT_EQ(quantized("equalize,bias-correction"), All(alone));
  Graph plain = net;
  ASSERT_TRUE(FindScheme("int8")->run(plain, *ranges, {.correct_bias = false, .equalize = false}));
  EXPECT_EQ(quantized("none"), All(plain));
  EXPECT_NE(All(plain), All(alone));
}

// What a scheme rounds, and that what is given in its place is what it takes.
TEST(Method, WeightsToRound) {
  const Graph net = MakeNet(kConvNet);
  auto ranges = Calibrate(net, Reference(), RandomSamples(net, 4), {});
  ASSERT_TRUE(ranges);
  for (const char* name : {"int8", "int8-dynamic", "int8-weights"}) {
    const QuantScheme& scheme = *FindScheme(name);
    QuantizeOptions options;
    auto weights = WeightsToRound(scheme, net, *ranges, options);
    ASSERT_TRUE(weights) << name;
    EXPECT_GE(weights->size(), 1) << name;
    std::map<std::string, Tensor> halves;
    for (const WeightRounding& w : *weights) {
      EXPECT_NE(net.FindNode(w.node), NodeId{}) << w.node;
      Tensor q = RoundToNearest(w, 1).Clone();
      for (int64_t i = 0; i < q.elements(); ++i) q.mutable_data<int8_t>()[i] = 7;
      halves.emplace(w.weight, q);
    }
    options.round = [&](const WeightRounding& w) { return halves.at(w.weight); };
    Graph graph = net;
    ASSERT_TRUE(scheme.run(graph, *ranges, options)) << name;
    size_t sevens = 0;
    for (int i = 0; i < graph.value_count(); ++i) {
      const Value& value = graph.value(ValueId{i});
      if (!value.is_constant() || value.type.dtype != DType::kInt8) continue;
      const auto q = value.constant.values<int8_t>();
      sevens += std::all_of(q.begin(), q.end(), [](int8_t v) { return v == 7; });
    }
    EXPECT_EQ(sevens, weights->size()) << name;
  }
}

// Of a scheme whose weights no method rounds, methods of rounding say that they did nothing.
TEST(Method, OfWeightsThatNoneRounds) {
  const Graph net = MakeNet(kConvNet);
  const MethodChoice methods = ParseMethods("quantease").value();
  const MethodData data{.prepare = Reference(), .samples = RandomSamples(net, 2)};
  const auto warnings = [&](const char* scheme) {
    Graph graph = net;
    const auto report = QuantizeBy(*FindScheme(scheme), methods, graph, {}, {}, data);
    EXPECT_TRUE(report) << scheme;
    return report ? report->warnings : std::vector<std::string>();
  };
  EXPECT_EQ(
      warnings("int16-dynamic"),
      std::vector<std::string>{"--method quantease: --scheme int16-dynamic has methods round no "
                               "weight of this model, so it did nothing"});
  EXPECT_TRUE(warnings("int16x8-dynamic").empty());
}

// HQQ moves zero points; it says where there are none.
TEST(Method, HqqNeedsZeroPoints) {
  const QuantMethod* const hqq = FindMethod("hqq");
  ASSERT_NE(hqq, nullptr);
  const auto refuses = [&](const char* scheme) { return hqq->refuses(*FindScheme(scheme), {}); };
  EXPECT_EQ(refuses("uint4-weights"), "");
  EXPECT_EQ(refuses("int2-dynamic"), "");
  EXPECT_EQ(refuses("int4-weights"),
            "it chooses zero points, and weights of int4 have none (uint4, int2)");
  EXPECT_EQ(refuses("int8"), "it chooses zero points, and weights of int8 have none (uint4, int2)");
  EXPECT_EQ(refuses("bf16"), "it rounds no weights");
}

// The stages before the scheme run once; what follows is what QuantizeBy gives, and with layers
// kept each of the others has the numbers that were chosen with all of them.
TEST(Method, PreparedOnceQuantizedOften) {
  const Graph net = MakeNet(kConvNet);
  auto ranges = Calibrate(net, Reference(), RandomSamples(net, 4), {});
  ASSERT_TRUE(ranges);
  int runs = 0;
  const MethodData data{.prepare =
                            [&](const Graph& graph) {
                              ++runs;
                              return Reference()(graph);
                            },
                        .samples = RandomSamples(net, 4)};
  const MethodChoice methods = Parsed("cle,gptq,bias-correction");
  const QuantScheme& int8 = *FindScheme("int8");
  const auto prepared = PreparedQuantization::Of(int8, methods, net, *ranges, {}, data);
  ASSERT_TRUE(prepared) << prepared.error().message();
  const int before = runs;
  const auto all = prepared->Quantize(), again = prepared->Quantize();
  const auto spared = prepared->Quantize({{"last", {"test", "kept"}}});
  ASSERT_TRUE(all && again && spared);
  EXPECT_EQ(runs, before) << "the methods ran again";
  Graph once = net;
  ASSERT_TRUE(QuantizeBy(int8, methods, once, *ranges, {}, data));
  EXPECT_EQ(All(all->graph), All(once));
  EXPECT_EQ(All(again->graph), All(once));
  EXPECT_EQ(spared->report.float_reasons.at("last").code, "test");
  EXPECT_EQ(all->report.float_reasons.count("last"), 0);
  for (const char* layer : {"depthwise", "project"}) {
    const auto weight = [&](const Graph& graph) {
      return graph.value(graph.node(graph.FindNode(layer)).input(1)).constant;
    };
    EXPECT_TRUE(BitEqual(weight(all->graph), weight(spared->graph))) << layer;
  }
}

}  // namespace
}  // namespace evoq
