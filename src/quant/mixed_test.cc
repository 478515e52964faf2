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
  const Graph net = MakeNet(kConvNet);
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
