#include "quant/mixed.h"

#include "quant/test_net.h"

namespace evoq {
namespace {

Ranges RangesOf(const Graph& graph) {
  auto ranges = Calibrate(graph, Reference(), RandomSamples(graph, 8), {});
  EXPECT_TRUE(ranges) << ranges.error().message();
  return ranges.value_or(Ranges{});
}

TEST(Mixed, LayersAreTheLinearOperatorsInOrder) {
  const Graph net = MakeNet(kConvNet);
  std::vector<std::string> names;
  for (NodeId id : Layers(net)) names.push_back(net.node(id).name);
  EXPECT_EQ(names, std::vector<std::string>({"stem", "depthwise", "project", "last", "classes"}));
}

// Embeddings, a GRU and a product, behind tables that are no layers: too small, integers, of
// another axis, or a list.
constexpr char kWordNet[] = R"(graph words
input %x: float32[6, 1, 16]
const %few: float32[4, 16]
const %third: int64[6] = [3, 0, 1, 2, 3, 1]
few: %p: float32[6, 16] = Gather{axis=0}(%few, %third)
const %numbers: int64[300, 1]
const %zero: int64[1] = [0]
numbers: %n: int64[1, 1] = Gather{axis=0}(%numbers, %zero)
const %columns: float32[16, 32]
columns: %q: float32[16, 6] = Gather{axis=1}(%columns, %third)
const %list: float32[300]
list: %l: float32[6] = Gather{axis=0}(%list, %third)
const %words: float32[40, 16]
words: %e: float32[6, 16] = Gather{axis=0}(%words, %third)
add: %s: float32[6, 16] = Add(%p, %e)
const %shape: int64[3] = [6, 1, 16]
view: %v: float32[6, 1, 16] = Reshape(%s, %shape)
sum: %t: float32[6, 1, 16] = Add(%v, %x)
const %w: float32[1, 192, 16]
const %r: float32[1, 192, 64]
cell: %y: float32[6, 1, 1, 64] = GRU{hidden_size=64}(%t, %w, %r)
const %flat: int64[2] = [6, 64]
flat: %f: float32[6, 64] = Reshape(%y, %flat)
const %o: float32[64, 16]
last: %z: float32[6, 16] = MatMul(%f, %o)
output %z
output %q
output %n
output %l
)";

TEST(Mixed, TablesAndRecurrentOperatorsAreLayers) {
  const Graph net = MakeNet(kWordNet);
  std::vector<std::string> names;
  for (NodeId id : Layers(net)) names.push_back(net.node(id).name);
  EXPECT_EQ(names, std::vector<std::string>({"words", "cell", "last"}));
  Graph q = net;
  const auto type_of = [&](const char* name, size_t input) {
    return q.value(q.node(q.FindNode(name)).input(input)).type;
  };
  auto report = QuantizeMixed(
      q, {}, {},
      {{"words", {"int8-weights", {}}}, {"cell", {"int4-dynamic", {}}}, {"last", {"bf16", {}}}});
  ASSERT_TRUE(report) << report.error().message();
  EXPECT_EQ(type_of("words", 0).dtype, DType::kInt8) << Print(q);
  EXPECT_EQ(type_of("few", 0).dtype, DType::kFloat32);
  EXPECT_EQ(type_of("cell", 1).dtype, DType::kInt4);
  EXPECT_EQ(type_of("cell", 2).dtype, DType::kInt4);
  EXPECT_EQ(type_of("last", 1).dtype, DType::kBfloat16);
  EXPECT_EQ(report->nodes[Precision::kInt8], 1);
  EXPECT_EQ(report->nodes[Precision::kBf16], 1);
  EXPECT_EQ(report->nodes[Precision::kFloat32], 1);
  EXPECT_EQ(report->int8_weights, 1);
  EXPECT_TRUE(report->float_reasons.empty());

  q = net;
  report = QuantizeMixed(q, {}, {},
                         {{"cell", {"bf16", {}}}, {"words", {"float32", {"test", "as it is"}}}});
  ASSERT_TRUE(report) << report.error().message();
  EXPECT_EQ(report->nodes[Precision::kFloat32], 3);
  EXPECT_EQ(report->float_reasons.at("cell").ToString(),
            "no-narrow-form: bf16 leaves GRU as it is");
  EXPECT_EQ(q.node(q.FindNode("cell")).attrs.String("evoq.float_reason"),
            "no-narrow-form: bf16 leaves GRU as it is");
  EXPECT_EQ(report->float_reasons.at("words").ToString(), "test: as it is");
  EXPECT_FALSE(type_of("words", 0).quantized());
  EXPECT_EQ(type_of("cell", 1).dtype, DType::kFloat32);

  // What is narrow already is nobody's to choose.
  q = net;
  ASSERT_TRUE(QuantizeDynamic(q, {}));
  EXPECT_TRUE(Layers(q).empty()) << Print(q);
}

TEST(Mixed, EachLayerGetsItsMethod) {
  const Graph net = MakeNet(kConvNet);
  Graph q = net;
  const MixedPlan plan = {{"stem", {"int8", {}}},
                          {"depthwise", {"int8-dynamic", {}}},
                          {"project", {"bf16", {}}},
                          {"last", {"float32", {"slower-when-measured", "2 ms"}}},
                          {"classes", {"int8-weights", {}}}};
  const auto report = QuantizeMixed(q, RangesOf(net), {}, plan);
  ASSERT_TRUE(report) << report.error().message();
  EXPECT_EQ(report->nodes.Total(), 5);
  EXPECT_EQ(report->nodes[Precision::kInt8], 2);  // of classes, 160 weights are too few
  EXPECT_EQ(report->nodes[Precision::kBf16], 1);
  EXPECT_EQ(report->nodes[Precision::kFloat32], 2);
  EXPECT_EQ(report->float_reasons.at("last"), (Reason{"slower-when-measured", "2 ms"}));
  EXPECT_EQ(report->float_reasons.at("classes").code, "small");
  EXPECT_EQ(q.node(q.FindNode("last")).attrs.String("evoq.float_reason"),
            "slower-when-measured: 2 ms");
  EXPECT_TRUE(q.value(q.node(q.FindNode("stem")).input(1)).type.quantized()) << Print(q);
  EXPECT_EQ(q.node(q.FindNode("depthwise")).op, "ConvInteger") << Print(q);
  EXPECT_EQ(q.value(q.node(q.FindNode("project")).input(1)).type.dtype, DType::kBfloat16)
      << Print(q);
  EXPECT_EQ(q.value(q.node(q.FindNode("last")).input(1)).type,
            net.value(net.node(net.FindNode("last")).input(1)).type);
  EXPECT_GE(Sqnr(net, q), 24);
}

TEST(Mixed, AUniformPlanIsTheMethodItself) {
  for (const char* text : {kConvNet, kWordNet}) {
    const Graph net = MakeNet(text);
    const Ranges ranges = RangesOf(net);
    for (const QuantScheme* scheme : AllSchemes()) {
      Graph mixed = net, uniform = net;
      MixedPlan plan;
      for (NodeId id : Layers(net)) plan[net.node(id).name] = {scheme->name, {}};
      ASSERT_TRUE(QuantizeMixed(mixed, ranges, {}, plan));
      ASSERT_TRUE(scheme->run(uniform, ranges, {}));
      for (Graph* graph : {&mixed, &uniform}) {
        for (NodeId id : graph->order()) graph->attrs(id).Erase("evoq.float_reason");
      }
      EXPECT_EQ(Print(mixed), Print(uniform)) << scheme->name;
    }
  }
}

// What picks from an activation is no table: it computes on integers as between layers of one
// scheme.
TEST(Mixed, OnlyConstantsAreTables) {
  const Graph net = MakeNet(
      "graph g\ninput %x: float32[4, 16]\nconst %v: float32[16, 16]\nconst %w: float32[16, 16]\n"
      "const %i: int64[2] = [2, 0]\na: %a: float32[4, 16] = MatMul(%x, %v)\n"
      "g: %g: float32[2, 16] = Gather{axis=0}(%a, %i)\n"
      "b: %y: float32[2, 16] = MatMul(%g, %w)\noutput %y\n");
  const Ranges ranges = RangesOf(net);
  Graph mixed = net, uniform = net;
  const auto report = QuantizeMixed(mixed, ranges, {}, {{"a", {"int8", {}}}, {"b", {"int8", {}}}});
  ASSERT_TRUE(report) << report.error().message();
  EXPECT_EQ(report->float_reasons.count("g"), 0);
  ASSERT_TRUE(QuantizeStatic(uniform, ranges, {}));
  EXPECT_EQ(Print(mixed), Print(uniform));
}

TEST(Mixed, WeightsAloneComputeInFloat32) {
  Graph net = MakeNet(
      "graph g\ninput %x: float32[4, 16]\nconst %v: float32[16, 16]\nconst %w: float32[16, 16]\n"
      "a: %a: float32[4, 16] = MatMul(%x, %v)\n"
      "b: %y: float32[4, 16] = MatMul(%a, %w)\noutput %y\n");
  const auto report =
      QuantizeMixed(net, {}, {}, {{"a", {"int8-weights", {}}}, {"b", {"int8-dynamic", {}}}});
  ASSERT_TRUE(report) << report.error().message();
  EXPECT_EQ(report->nodes[Precision::kInt8], 1);
  EXPECT_EQ(report->nodes[Precision::kFloat32], 1);
  EXPECT_EQ(report->int8_weights, 1);
}

TEST(Mixed, LayersWithoutAnEntryStayFloat) {
  const Graph net = MakeNet(kConvNet);
  Graph q = net;
  const auto report = QuantizeMixed(q, {}, {}, {{"stem", {"bf16", {}}}});
  ASSERT_TRUE(report) << report.error().message();
  EXPECT_EQ(report->nodes[Precision::kBf16], 1);
  EXPECT_EQ(report->float_reasons.at("classes"), (Reason{"plan", "the plan leaves it in float32"}));
}

TEST(Mixed, AnUnknownSchemeIsRefused) {
  Graph q = MakeNet(kConvNet);
  const auto report = QuantizeMixed(q, {}, {}, {{"stem", {"int3", {}}}});
  ASSERT_FALSE(report);
  EXPECT_EQ(report.error().message(), "layer stem: int3 is no scheme");
}

}  // namespace
}  // namespace evoq
