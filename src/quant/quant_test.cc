#include "quant/quant.h"

#include <gtest/gtest.h>

#include <set>

#include "quant/bf16.h"
#include "quant/params.h"
#include "quant/test_net.h"
#include "quant/unfuse.h"
#include "reference/reference.h"

namespace evoq {
namespace {

Ranges CalibrateOrDie(const Graph& graph, int samples = 8) {
  auto ranges = Calibrate(graph, Reference(), RandomSamples(graph, samples), {});
  EXPECT_TRUE(ranges) << ranges.error().message();
  return ranges.value_or(Ranges{});
}

const TensorType& TypeOf(const Graph& graph, std::string_view value) {
  const ValueId id = graph.FindValue(value);
  EXPECT_TRUE(id.valid()) << value << " in\n" << Print(graph);
  return graph.value(id).type;
}

int CountOps(const Graph& graph, std::string_view op) {
  int count = 0;
  for (NodeId id : graph.order()) count += graph.node(id).op == op;
  return count;
}

// The completeness test of schemes.inc: the least SQNR, in dB, that each scheme reaches on the net.
// Some of its data lies beyond the ranges.
const std::map<std::string, double> kLeastSqnr = {
    {"int8", 24},          {"int8-dynamic", 30},    {"int8-weights", 38},    {"int4-dynamic", 17},
    {"int4-weights", 17},  {"int2-dynamic", 6},     {"int2-weights", 6},     {"mxfp4-dynamic", 15},
    {"mxfp4-weights", 15}, {"nvfp4-dynamic", 16},   {"nvfp4-weights", 16},   {"nf4-weights", 16},
    {"bf16", 40},          {"float32", 200},        {"int16x8-dynamic", 41}, {"int16-dynamic", 85},
    {"int16x8", 30},       {"int16", 30},           {"uint4-dynamic", 17},   {"uint4-weights", 17},
    {"fp8-weights", 28},   {"fp8-e5m2-weights", 22}};

// Two products, whose weights take few bits.
constexpr char kProducts[] = R"(graph products
input %x: float32[8, 96]
const %w: float32[96, 64]
const %v: float32[64, 32]
a: %a: float32[8, 64] = MatMul(%x, %w)
r: %r: float32[8, 64] = Relu(%a)
b: %y: float32[8, 32] = MatMul(%r, %v)
output %y
)";

class Schemes : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Nets, Schemes, testing::Values(kConvNet, kProducts));

TEST_P(Schemes, EveryRowMeetsItsErrorBound) {
  const Graph net = MakeNet(GetParam());
  const Ranges ranges = CalibrateOrDie(net);
  for (const QuantScheme* scheme : AllSchemes()) {
    ASSERT_TRUE(kLeastSqnr.count(scheme->name))
        << "scheme " << scheme->name << " has no bound in this test";
    EXPECT_EQ(FindScheme(scheme->name), scheme);
    EXPECT_GT(std::string(scheme->doc).size(), 20);
    Graph quantized = net;
    auto report = scheme->run(quantized, scheme->needs_calibration ? ranges : Ranges{}, {});
    ASSERT_TRUE(report) << scheme->name << ": " << report.error().message();
    const double sqnr = Sqnr(net, quantized);
    EXPECT_GE(sqnr, kLeastSqnr.at(scheme->name)) << scheme->name << "\n" << Print(quantized);
    RecordProperty(scheme->name, std::to_string(sqnr));
  }
}

TEST(Dynamic, EveryLayerWithWeightsComputesWithIntegers) {
  const Graph net = MakeNet(kConvNet);
  Graph q = net;
  auto report = QuantizeDynamic(q, {.exclude = {"depthwise"}});
  ASSERT_TRUE(report) << report.error().message();
  int linear = 0;
  for (NodeId id : net.order()) linear += net.node(id).op == "Conv" || net.node(id).op == "MatMul";
  EXPECT_EQ(CountOps(q, "ConvInteger") + CountOps(q, "MatMulInteger"), linear - 1) << Print(q);
  EXPECT_EQ(CountOps(q, "Conv"), 1);
  EXPECT_EQ(report->float_reasons.at("depthwise").code, "excluded");
  EXPECT_GE(Sqnr(net, q), 30);
}

// Of static 16 bits the scales are constants, and what was not calibrated stays float32.
TEST(StaticBytes, ScalesAreThoseOfTheRanges) {
  const Graph net = MakeNet(kConvNet);
  Ranges ranges = CalibrateOrDie(net);
  Graph q = net;
  const auto report = QuantizeStaticBytes(q, ranges, {});
  ASSERT_TRUE(report) << report.error().message();
  EXPECT_EQ(CountOps(q, "DynamicQuantizeLinear"), 0);
  EXPECT_TRUE(report->float_reasons.empty());
  std::multiset<std::pair<float, int>> scales, wanted;
  for (NodeId id : q.order()) {
    const Node& node = q.node(id);
    if (node.op != "QuantizeLinear") continue;
    const int zero = q.value(node.input(2)).constant.data<uint8_t>()[0];
    const float scale = q.value(node.input(1)).constant.data<float>()[0];
    const NodeId of = q.value(node.input(0)).producer;
    if (of.valid() && q.node(of).op == "Sub") {
      EXPECT_EQ(zero, 128);
    } else {
      scales.insert({scale, zero});
    }
  }
  for (NodeId id : net.order()) {
    const Node& node = net.node(id);
    if (node.op != "Conv" && node.op != "MatMul") continue;
    const Range& range = ranges.at(net.value(node.input(0)).name);
    const QuantParams params = ActivationParams(range, DType::kUint8, false);
    wanted.insert({params.scales[0], params.zero_points[0]});
  }
  EXPECT_EQ(scales, wanted);
  // Nothing beyond them: as near as dynamic scales are.
  for (auto& [name, range] : ranges) range.min *= 1.5f, range.max *= 1.5f;
  for (const int weights : {1, 2}) {
    Graph wide = net;
    ASSERT_TRUE(QuantizeStaticBytes(wide, ranges, {}, {.data = 2, .weights = weights}));
    EXPECT_GE(Sqnr(net, wide), weights == 2 ? 80 : 41) << weights;
  }
  const std::string missing = net.value(net.node(net.FindNode("last")).input(0)).name;
  ranges.erase(missing);
  Graph part = net;
  const auto told = QuantizeStaticBytes(part, ranges, {});
  ASSERT_TRUE(told) << told.error().message();
  EXPECT_EQ(told->float_reasons.at("last"), (Reason{"no-range", missing + " was not calibrated"}));
}

// 16 bits are two bytes with a scale each; sums of the products of bytes are the product.
TEST(Dynamic, SixteenBitsAreTwoBytes) {
  const Graph net = MakeNet(kConvNet);
  int linear = 0;
  for (NodeId id : net.order()) linear += net.node(id).op == "Conv" || net.node(id).op == "MatMul";
  for (const int weights : {1, 2}) {
    Graph q = net;
    const auto report = QuantizeDynamic(q, {}, {.data = 2, .weights = weights});
    ASSERT_TRUE(report) << report.error().message();
    EXPECT_EQ(CountOps(q, "ConvInteger") + CountOps(q, "MatMulInteger"), 2 * weights * linear);
    EXPECT_EQ(report->nodes[Precision::kInt8], linear);
    EXPECT_EQ(report->float_reasons.size(), 0u);
    for (const auto& [name, type] : report->used)
      EXPECT_EQ(type.dtype, weights == 2 ? DType::kInt16 : DType::kInt8) << name;
  }
  // Constants by the names of their weights.
  const auto named = [&](DynamicBytes bytes, const char* name) {
    Graph q = net;
    EXPECT_TRUE(QuantizeDynamic(q, {}, bytes));
    const ValueId value = q.FindValue(name);
    return value.valid() ? q.value(value).type.dtype : DType::kUndefined;
  };
  const std::string stem = net.value(net.node(net.FindNode("stem")).input(1)).name;
  EXPECT_EQ(named({}, (stem + ".int8").c_str()), DType::kInt8);
  for (const char* byte : {".1", ".2"}) {
    EXPECT_EQ(named({.weights = 2}, (stem + ".int8" + byte).c_str()), DType::kInt8);
    EXPECT_EQ(named({.weights = 2}, (stem + ".scale" + byte).c_str()), DType::kFloat32);
  }
  // With weights that 8 bits hold exactly, only the data is rounded: to 2^-16 of its range.
  Graph exact = MakeNet(
      "graph g\ninput %x: float32[4, 64]\nconst %w: float32[64, 8]\nmm: %y = MatMul(%x, %w)\n"
      "output %y\n");
  Tensor w = Tensor::Allocate(TensorType(DType::kFloat32, Shape{64, 8}));
  for (int64_t i = 0; i < w.elements(); ++i)
    w.mutable_data<float>()[i] = static_cast<float>(i < 8 ? 127 : i * 37 % 255 - 127) / 64;
  exact.SetConstant(exact.FindValue("w"), w);
  Graph q8 = exact, q16 = exact;
  ASSERT_TRUE(QuantizeDynamic(q8, {}));
  ASSERT_TRUE(QuantizeDynamic(q16, {}, {.data = 2}));
  EXPECT_GE(Sqnr(exact, q8), 35);
  EXPECT_GE(Sqnr(exact, q16), Sqnr(exact, q8) + 45);  // 20 log10(254) is 48
}

// Given weights of 8 bits stay as they are; what has no dynamic form stays float32 beside weights
// of 16 bits, and says why.
TEST(Dynamic, SixteenBitsLeaveOtherWeights) {
  const Graph net = MakeNet(
      "graph g\ninput %x: float32[1, 4, 5, 5]\nconst %w: float32[4, 8, 3, 3]\n"
      "up: %y = ConvTranspose(%x, %w)\nconst %v: float32[4, 8, 1, 1]\nc: %z = Conv(%y, %v)\n"
      "output %z\n");
  Graph q = net;
  const QuantizeOptions options{
      .given = {{"v", {.dtype = DType::kInt8, .params = QuantParams::PerTensor(0.25f, 0)}}}};
  const auto report = QuantizeDynamic(q, options, {.data = 2, .weights = 2});
  ASSERT_TRUE(report) << report.error().message();
  EXPECT_EQ(CountOps(q, "ConvInteger"), 2);
  EXPECT_EQ(report->used.at("v").quant->scales, std::vector<float>{0.25f});
  EXPECT_EQ(report->float_reasons.at("up").sentence, "ConvTranspose has no dynamic form");
  EXPECT_EQ(report->nodes[Precision::kFloat32], 1);
  EXPECT_TRUE(TypeOf(q, "w").shape.rank() == 4 && TypeOf(q, "w").dtype == DType::kFloat32);
}

TEST(Static, ConvNetIsIntegerFromStemToClassifier) {
  const Graph net = MakeNet(kConvNet);
  Graph q = net;
  auto report = QuantizeStatic(q, CalibrateOrDie(net), {});
  ASSERT_TRUE(report) << report.error().message();
  EXPECT_EQ(report->nodes[Precision::kInt8], 9)
      << Print(q);  // 8 nodes and the activation that became one
  EXPECT_EQ(report->nodes[Precision::kFloat32], 0);
  EXPECT_EQ(CountOps(q, "QuantizeLinear"), 1);
  EXPECT_EQ(CountOps(q, "DequantizeLinear"), 0);  // the classifier gives float32 itself
  EXPECT_EQ(TypeOf(q, "c").dtype, DType::kFloat32);
  EXPECT_FALSE(TypeOf(q, "c").quantized());
  for (const char* name : {"s", "d", "p", "m", "l.linear", "l", "g", "f"}) {
    EXPECT_TRUE(TypeOf(q, name).quantized()) << name;
    EXPECT_EQ(TypeOf(q, name).dtype, DType::kUint8) << name;
  }
  EXPECT_EQ(TypeOf(q, "s").quant->zero_points[0], 0);       // after Relu
  EXPECT_EQ(*TypeOf(q, "p").quant, *TypeOf(q, "m").quant);  // MaxPool keeps the integers
  EXPECT_EQ(*TypeOf(q, "g").quant, *TypeOf(q, "f").quant);
  const Node& stem = q.node(q.FindNode("stem"));
  EXPECT_EQ(q.value(stem.input(1)).type.quant->axis, 0);
  EXPECT_EQ(q.value(stem.input(2)).type.dtype, DType::kInt32);
  const Node& classes = q.node(q.FindNode("classes"));
  EXPECT_EQ(q.value(classes.input(1)).type.quant->axis, 1);
}

TEST(Static, OptionsChangeTypes) {
  const Graph net = MakeNet(kConvNet);
  const Ranges ranges = CalibrateOrDie(net);
  struct Case {
    QuantizeOptions options;
    DType dtype;
    int32_t zero_of_s;
    double least_sqnr;
  };
  for (const Case& c :
       {Case{{.activation = DType::kInt8}, DType::kInt8, -128, 24},
        Case{{.symmetric_activations = true}, DType::kUint8, 128, 20},
        Case{{.activation = DType::kInt8, .symmetric_activations = true}, DType::kInt8, 0, 20},
        Case{{.per_channel = false}, DType::kUint8, 0, 20}}) {
    Graph q = net;
    auto report = QuantizeStatic(q, ranges, c.options);
    ASSERT_TRUE(report) << report.error().message();
    EXPECT_EQ(TypeOf(q, "s").dtype, c.dtype);
    EXPECT_EQ(TypeOf(q, "s").quant->zero_points[0], c.zero_of_s);
    EXPECT_GE(Sqnr(net, q), c.least_sqnr);
    EXPECT_EQ(q.value(q.node(q.FindNode("stem")).input(1)).type.quant->per_tensor(),
              !c.options.per_channel);
  }
  Graph q = net;
  EXPECT_FALSE(QuantizeStatic(q, ranges, {.activation = DType::kInt16}));
}

TEST(Static, ExcludedNodesStayFloatWithAReason) {
  const Graph net = MakeNet(kConvNet);
  Graph q = net;
  auto report =
      QuantizeStatic(q, CalibrateOrDie(net), {.skip_first_last = true, .exclude = {"dep*"}});
  ASSERT_TRUE(report) << report.error().message();
  EXPECT_EQ(report->float_reasons.at("depthwise"),
            (Reason{"excluded", "the name matches the excluded pattern \"dep*\""}));
  EXPECT_EQ(report->float_reasons.at("stem").code, "first-or-last");
  EXPECT_EQ(report->float_reasons.at("classes").code, "first-or-last");
  EXPECT_EQ(q.node(q.FindNode("stem")).attrs.String("evoq.float_reason"),
            report->float_reasons.at("stem").ToString());
  // project reads %s, float now, as its residual: that is quantized too.
  EXPECT_TRUE(q.value(q.node(q.FindNode("project")).input(3)).type.quantized());
  EXPECT_GE(Sqnr(net, q), 24);
}

TEST(Static, AResidualSumSplitsOnRequest) {
  const Graph net = MakeNet(kConvNet);
  const Ranges ranges = CalibrateOrDie(net);
  Graph q = net;
  auto report = QuantizeStatic(q, ranges, {.target = FindQdqTarget("ort")});
  ASSERT_TRUE(report) << report.error().message();
  const Node& project = q.node(q.FindNode("project"));
  EXPECT_FALSE(project.input(3).valid());
  EXPECT_TRUE(q.value(project.outputs[0]).type.quantized());
  const Node& add = q.node(q.FindNode("project.add"));
  ASSERT_EQ(add.op, "Add");
  for (ValueId v : {add.input(0), add.input(1), add.outputs[0]})
    EXPECT_TRUE(q.value(v).type.quantized());
  EXPECT_GE(Sqnr(net, q), 24);

  // Ranges from elsewhere may lack the product: the sum stays exact then.
  Ranges without = ranges;
  std::erase_if(without, [](const auto& entry) { return entry.first.ends_with(".product"); });
  Graph exact = net;
  report = QuantizeStatic(exact, without, {.target = FindQdqTarget("ort")});
  ASSERT_TRUE(report) << report.error().message();
  EXPECT_TRUE(exact.node(exact.FindNode("project")).input(3).valid());
  EXPECT_EQ(report->warnings.size(), 1);
}

// What TensorRT reads: int8 with zero point 0, biases in float.
TEST(Static, TensorrtGetsNoZeroPointsAndFloatBiases) {
  const Graph net = MakeNet(kConvNet);
  Graph q = net;
  ASSERT_TRUE(QuantizeStatic(q, CalibrateOrDie(net), {.target = FindQdqTarget("tensorrt")}));
  int quantized = 0;
  for (int i = 0; i < q.value_count(); ++i) {
    const TensorType& type = q.value(ValueId{i}).type;
    EXPECT_NE(type.dtype, DType::kInt32) << q.value(ValueId{i}).name;
    if (!type.quantized()) continue;
    ++quantized;
    EXPECT_EQ(type.dtype, DType::kInt8) << q.value(ValueId{i}).name;
    for (int32_t zero : type.quant->zero_points) EXPECT_EQ(zero, 0) << q.value(ValueId{i}).name;
  }
  EXPECT_GT(quantized, 4);
  EXPECT_GE(Sqnr(net, q), 22);
}

// ONNX Runtime's integer convolution writes integers: without a pair behind it, it is a float one
// that dequantizes its weights at each run.
TEST(Static, ConvolutionsForOnnxRuntimeWriteIntegers) {
  const Graph net = MakeNet(R"(graph last
input %x: float32[1, 4, 6, 6]
const %w: float32[8, 4, 3, 3]
conv: %y: float32[1, 8, 4, 4] = Conv{}(%x, %w)
exp: %z: float32[1, 8, 4, 4] = Exp{}(%y)
output %z
)");
  const Ranges ranges = CalibrateOrDie(net);
  for (const char* target : {"ort", "openvino"}) {
    Graph q = net;
    ASSERT_TRUE(QuantizeStatic(q, ranges, {.target = FindQdqTarget(target)}));
    EXPECT_EQ(q.value(q.node(q.FindNode("conv")).outputs[0]).type.quantized(),
              std::string_view(target) == "ort")
        << target;
    EXPECT_EQ(q.value(q.node(q.FindNode("conv")).input(0)).type.dtype, DType::kUint8) << target;
  }
}

TEST(Static, ConcatSharesOneScaleAndSharedValuesAreConvertedOnce) {
  const Graph net = MakeNet(R"(graph fire
input %x: float32[1, 4, 6, 6]
const %w0: float32[4, 4, 1, 1]
squeeze: %s: float32[1, 4, 6, 6] = Conv{activation="Relu"}(%x, %w0)
const %w1: float32[4, 4, 1, 1]
one: %a: float32[1, 4, 6, 6] = Conv{activation="Relu"}(%s, %w1)
const %w2: float32[8, 4, 3, 3]
three: %b: float32[1, 8, 6, 6] = Conv{activation="LeakyRelu", activation_alpha=0.1, pads=[1, 1, 1, 1]}(%s, %w2)
join: %c: float32[1, 12, 6, 6] = Concat{axis=1}(%a, %b)
const %w3: float32[5, 12, 1, 1]
last: %l: float32[1, 5, 6, 6] = Conv(%c, %w3)
soft: %p: float32[1, 5, 6, 6] = Softmax{axis=1}(%l)
output %p
output %s
output %c
)");
  Graph q = net;
  auto report = QuantizeStatic(q, CalibrateOrDie(net), {});
  ASSERT_TRUE(report) << report.error().message();
  const NodeId join = q.FindNode("join");
  const QuantParams params = *q.value(q.node(join).outputs[0]).type.quant;
  for (ValueId in : q.node(join).inputs) EXPECT_EQ(*q.value(in).type.quant, params);
  EXPECT_EQ(report->float_reasons.at("soft").code, "no-int8-kernel");
  EXPECT_EQ(TypeOf(q, "l").dtype, DType::kFloat32)
      << "the last convolution gives float32 to Softmax";
  // Outputs of the model keep name and type.
  ASSERT_EQ(q.outputs().size(), 3);
  EXPECT_EQ(q.value(q.outputs()[1]).name, "s");
  EXPECT_EQ(q.value(q.outputs()[1]).type.ToString(), "float32[1, 4, 6, 6]");
  EXPECT_EQ(CountOps(q, "QuantizeLinear"), 1);
  EXPECT_EQ(CountOps(q, "DequantizeLinear"), 2);
  EXPECT_GE(Sqnr(net, q), 30);
}

// Behind convolutions, depthwise ones, residual sums and products of matrices, a slope for each
// channel; not where another reads what it reads, nor where the options keep it.
constexpr char kSlopes[] = R"(graph slopes
input %x: float32[1, 6, 9, 9]
const %w0: float32[8, 6, 3, 3]
const %b0: float32[8]
const %s0: float32[8, 1, 1]
conv: %c: float32[1, 8, 9, 9] = Conv{pads=[1, 1, 1, 1]}(%x, %w0, %b0)
act: %a: float32[1, 8, 9, 9] = PRelu(%c, %s0)
const %w1: float32[8, 1, 3, 3]
const %s1: float32[1, 8, 1, 1]
depth: %d: float32[1, 8, 9, 9] = Conv{group=8, pads=[1, 1, 1, 1]}(%a, %w1)
act_d: %e: float32[1, 8, 9, 9] = PRelu(%d, %s1)
pool: %p: float32[1, 8, 4, 4] = MaxPool{kernel_shape=[2, 2], strides=[2, 2]}(%e)
const %w2: float32[8, 8, 1, 1]
const %s2: float32[1] = [-0.25]
sum: %m: float32[1, 8, 4, 4] = Conv(%p, %w2, _, %p)
act_m: %q: float32[1, 8, 4, 4] = PRelu(%m, %s2)
flat: %f: float32[1, 128] = Flatten(%q)
const %w3: float32[128, 5]
const %s3: float32[5]
fc: %g: float32[1, 5] = MatMul(%f, %w3)
act_g: %h: float32[1, 5] = PRelu(%g, %s3)
const %w4: float32[5, 3]
fc2: %o: float32[1, 3] = MatMul(%h, %w4)
output %o
)";

TEST(Static, SlopesOfChannelsAreAnActivationOfProducts) {
  const Graph net = MakeNet(kSlopes);
  const Ranges ranges = CalibrateOrDie(net);
  Graph q = net;
  auto report = QuantizeStatic(q, ranges, {});
  ASSERT_TRUE(report) << report.error().message();
  EXPECT_EQ(report->nodes[Precision::kFloat32], 0) << Print(q);
  EXPECT_EQ(CountOps(q, "PRelu"), 0);
  for (const char* name : {"a", "e", "p", "q", "h"}) EXPECT_TRUE(TypeOf(q, name).quantized());
  const Node& conv = q.node(q.FindNode("conv"));
  const auto wanted = net.value(net.FindValue("s0")).constant.values<float>();
  EXPECT_EQ(conv.attrs.Floats("activation_slopes"),
            std::vector<float>(wanted.begin(), wanted.end()));
  EXPECT_EQ(q.node(q.FindNode("sum")).attrs.Floats("activation_slopes"),
            std::vector<float>(8, -0.25f));
  EXPECT_GE(Sqnr(net, q), 30);

  // What keeps one of the two as it is keeps both apart.
  for (const char* pattern : {"act", "conv"}) {
    Graph kept = net;
    report = QuantizeStatic(kept, ranges, {.exclude = {pattern}});
    ASSERT_TRUE(report) << report.error().message();
    EXPECT_EQ(CountOps(kept, "PRelu"), 1) << pattern;
    EXPECT_EQ(kept.node(kept.FindNode("conv")).attrs.String("activation"), "") << pattern;
    EXPECT_GE(Sqnr(net, kept), 30) << pattern;
  }
  // ONNX Runtime's integer convolution wants a pair of its own behind it.
  Graph ort = net;
  ASSERT_TRUE(QuantizeStatic(ort, ranges, {.target = FindQdqTarget("ort")}));
  EXPECT_EQ(CountOps(ort, "PRelu"), 4);
}

TEST(Static, AddsConstantsAndPads) {
  const Graph net = MakeNet(R"(graph more
input %x: float32[1, 4, 6, 6]
const %w0: float32[4, 4, 1, 1]
first: %s: float32[1, 4, 6, 6] = Conv(%x, %w0)
const %k: float32[1, 4, 1, 1]
scale: %m: float32[1, 4, 6, 6] = Mul(%s, %k)
sum: %a: float32[1, 4, 6, 6] = Add{activation="Relu"}(%m, %s)
const %pads: int64[8] = [0, 0, 1, 1, 0, 0, 1, 1]
pad: %p: float32[1, 4, 8, 8] = Pad(%m, %pads)
const %w1: float32[4, 4, 3, 3]
second: %t: float32[1, 4, 6, 6] = Conv(%p, %w1, _, %a)
relu: %r: float32[1, 4, 6, 6] = Relu(%t)
output %r
)");
  Graph q = net;
  auto report = QuantizeStatic(q, CalibrateOrDie(net), {});
  ASSERT_TRUE(report) << report.error().message();
  EXPECT_TRUE(TypeOf(q, "m").quantized());
  EXPECT_TRUE(TypeOf(q, "p").quantized());
  EXPECT_GE(Sqnr(net, q), 28) << Print(q);
  // The residual of a convolution with a float32 output is float32, and so is what only it reads.
  EXPECT_FALSE(TypeOf(q, "a").quantized());
  EXPECT_EQ(report->float_reasons.at("sum").code, "float-readers");
  const Node& second = q.node(q.FindNode("second"));
  EXPECT_FALSE(q.value(second.outputs[0]).type.quantized());
  EXPECT_FALSE(q.value(second.input(3)).type.quantized());
  EXPECT_EQ(report->float_reasons.at("relu").code, "float-readers");
}

TEST(Static, BiasCorrectionRemovesTheMeanErrorOfRounding) {
  // Weights that all round the same way, inputs with a mean far from 0: without correction the
  // output is off by a constant.
  Graph net = MakeNet(R"(graph one
input %x: float32[1, 64]
const %w: float32[64, 2]
m: %y: float32[1, 2] = MatMul(%x, %w)
output %y
)");
  Tensor w = Tensor::Allocate(TensorType(DType::kFloat32, Shape{64, 2}));
  for (int i = 0; i < 128; ++i) w.mutable_data<float>()[i] = i < 2 ? 1.27f : 0.0146f;
  net.SetConstant(net.FindValue("w"), w);
  const auto samples = [&](const std::function<Status(std::span<const Tensor>)>& body) -> Status {
    for (int i = 0; i < 4; ++i) {
      Tensor x = RandomInput(net, i, 0.1f);
      for (int k = 0; k < 64; ++k) x.mutable_data<float>()[k] += 2;
      EVOQ_TRY(body(std::span<const Tensor>(&x, 1)));
    }
    return {};
  };
  auto ranges = Calibrate(net, Reference(), samples, {});
  ASSERT_TRUE(ranges);
  ASSERT_EQ(ranges->at("x").channel_means.size(), 64);
  EXPECT_NEAR(ranges->at("x").channel_means[5], 2, 0.3);
  EXPECT_TRUE(ranges->at("y").channel_means.empty());
  Tensor x = RandomInput(net, 9, 0.1f);
  for (int k = 0; k < 64; ++k) x.mutable_data<float>()[k] += 2;
  const auto run = [&](bool correct) {
    Graph q = net;
    EXPECT_TRUE(QuantizeStatic(q, *ranges, {.correct_bias = correct}));
    auto y = EvaluateGraph(q, std::span<const Tensor>(&x, 1));
    return y ? (*y)[0].values<float>()[0] : NAN;
  };
  const float wanted = (*EvaluateGraph(net, std::span<const Tensor>(&x, 1)))[0].values<float>()[0];
  EXPECT_GT(std::fabs(run(false) - wanted), 0.4f);
  EXPECT_LT(std::fabs(run(true) - wanted), 0.06f);
}

TEST(Static, EqualizationGivesSmallChannelsMoreSteps) {
  // Channels of very different size, through a depthwise and a dense convolution.
  Graph net = MakeNet(R"(graph chain
input %x: float32[1, 4, 8, 8]
const %w1: float32[16, 4, 1, 1]
const %b1: float32[16]
expand: %e: float32[1, 16, 8, 8] = Conv{activation="Clip", activation_alpha=0.0, activation_beta=6.0}(%x, %w1, %b1)
const %w2: float32[16, 1, 3, 3]
depthwise: %d: float32[1, 16, 8, 8] = Conv{activation="Relu", group=16, pads=[1, 1, 1, 1]}(%e, %w2)
const %w3: float32[8, 16, 1, 1]
project: %p: float32[1, 8, 8, 8] = Conv{activation="Relu"}(%d, %w3)
output %p
)");
  Tensor w1 = net.value(net.FindValue("w1")).constant.Clone(),
         w2 = net.value(net.FindValue("w2")).constant.Clone();
  for (int c = 0; c < 16; ++c) {
    const float size = std::exp2f(static_cast<float>(-(c % 8)));
    for (int k = 0; k < 4; ++k) w1.mutable_data<float>()[c * 4 + k] *= size;
    for (int k = 0; k < 9; ++k) w2.mutable_data<float>()[c * 9 + k] /= size;
  }
  net.SetConstant(net.FindValue("w1"), w1);
  net.SetConstant(net.FindValue("w2"), w2);
  Tensor b1 = Tensor::Allocate(TensorType(DType::kFloat32, Shape{16}));
  net.SetConstant(net.FindValue("b1"), b1);
  const Ranges ranges = CalibrateOrDie(net);
  ASSERT_EQ(ranges.at("e").channel_max.size(), 16);
  Graph plain = net, equalized = net;
  ASSERT_TRUE(QuantizeStatic(plain, ranges, {.equalize = false}));
  ASSERT_TRUE(QuantizeStatic(equalized, ranges, {}));
  EXPECT_GE(Sqnr(net, equalized), Sqnr(net, plain) + 6);
  EXPECT_EQ(*TypeOf(equalized, "e").quant, *TypeOf(plain, "e").quant) << "the range stays";
}

TEST(Static, UncalibratedValuesStayFloat) {
  const Graph net = MakeNet(kConvNet);
  Ranges ranges = CalibrateOrDie(net);
  ranges.erase("d");
  Graph q = net;
  auto report = QuantizeStatic(q, ranges, {});
  ASSERT_TRUE(report) << report.error().message();
  EXPECT_EQ(report->float_reasons.at("depthwise"), (Reason{"no-range", "d was not calibrated"}));
  EXPECT_EQ(report->float_reasons.at("project"), (Reason{"no-range", "d was not calibrated"}));
  EXPECT_GE(Sqnr(net, q), 24);
  Graph none = net;
  auto empty = QuantizeStatic(none, {}, {});
  ASSERT_TRUE(empty);
  EXPECT_EQ(empty->nodes[Precision::kInt8], 0);
  EXPECT_EQ(empty->warnings.size(), 1);
  EXPECT_EQ(Sqnr(net, none), INFINITY);
}

TEST(Bf16, ConvNetStaysBfloat16FromStemToClassifier) {
  const Graph net = MakeNet(kConvNet);
  Graph q = net;
  auto report = ConvertToBf16(q, {});
  ASSERT_TRUE(report) << report.error().message();
  EXPECT_EQ(report->nodes[Precision::kBf16], 5) << Print(q);
  EXPECT_EQ(report->nodes[Precision::kFloat32], 0);
  EXPECT_EQ(CountOps(q, "Cast"), 2);  // of the input and of the output
  for (const char* name : {"s_bf16", "d_bf16", "p_bf16", "m_bf16", "l_bf16", "g_bf16", "f_bf16",
                           "c_bf16", "w1.bf16", "w5.bf16"})
    EXPECT_EQ(TypeOf(q, name).dtype, DType::kBfloat16) << name;
  for (const char* name : {"x", "c", "b1", "b5"})
    EXPECT_EQ(TypeOf(q, name).dtype, DType::kFloat32) << name;
}

// What only float32 reads is not rounded; an excluded node says why and its neighbours get Casts.
TEST(Bf16, FloatReadersAndExclusionsStayFloat) {
  const Graph net = MakeNet(R"(graph tail
input %x: float32[4, 32]
const %w: float32[32, 32]
a: %a: float32[4, 32] = MatMul(%x, %w)
r: %r: float32[4, 32] = Relu(%a)
b: %b: float32[4, 32] = MatMul(%r, %w)
s: %s: float32[4, 32] = Softmax(%b)
output %s
)");
  Graph q = net;
  auto report = ConvertToBf16(q, {});
  ASSERT_TRUE(report) << report.error().message();
  EXPECT_EQ(report->nodes[Precision::kBf16], 2);
  EXPECT_EQ(TypeOf(q, "r_bf16").dtype, DType::kBfloat16);
  EXPECT_EQ(TypeOf(q, "s").dtype, DType::kFloat32);
  EXPECT_EQ(q.node(q.FindNode("a")).input(1), q.node(q.FindNode("b")).input(1))
      << "a shared weight stays shared";
  EXPECT_GE(Sqnr(net, q), 40);
  q = net;
  QuantizeOptions options;
  options.exclude = {"b"};
  report = ConvertToBf16(q, options);
  ASSERT_TRUE(report) << report.error().message();
  EXPECT_EQ(report->nodes[Precision::kBf16], 1);
  EXPECT_EQ(report->float_reasons.at("b").code, "excluded");
  EXPECT_EQ(TypeOf(q, "r").dtype, DType::kFloat32);
  EXPECT_FALSE(q.FindValue("r_bf16").valid()) << "Relu has only float32 readers";
}

TEST(WeightsOnly, LargeWeightsBecomeInt8AndSharedOnesStayShared) {
  const Graph net = MakeNet(R"(graph words
input %x: float32[4, 32]
const %w: float32[32, 32]
a: %y: float32[4, 32] = MatMul(%x, %w)
b: %z: float32[4, 32] = MatMul(%y, %w)
const %v: float32[32, 4]
c: %o: float32[4, 4] = MatMul(%z, %v)
output %o
)");
  Graph q = net;
  auto report = QuantizeWeights(q, {});
  ASSERT_TRUE(report) << report.error().message();
  EXPECT_EQ(report->int8_weights, 2);
  EXPECT_EQ(report->float_reasons.at("c").code, "small");
  EXPECT_EQ(q.node(q.FindNode("a")).input(1), q.node(q.FindNode("b")).input(1));
  EXPECT_EQ(TypeOf(q, "w.int8").dtype, DType::kInt8);
  EXPECT_GE(Sqnr(net, q), 38);
}

}  // namespace
}  // namespace evoq
