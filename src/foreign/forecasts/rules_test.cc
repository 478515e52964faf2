// Where each rule finds its fault and whether that can be repaired, condition by condition; and the
// numbers that repairs give, by hand.
#include <gtest/gtest.h>

#include <cmath>

#include "foreign/forecasts/complete.h"
#include "foreign/forecasts/rule.h"
#include "foreign/forecasts/test_net.h"
#include "tensor/test_attrs.h"

namespace evoq {
namespace {

// "2/1 (detail, ...)": places and how many of them can be repaired; "" where the rule finds none.
std::string Found(const Graph& graph, const char* runtime, std::string_view code) {
  for (const PlacementFinding& finding : Examine(graph, *FindRuntime(runtime)).findings) {
    if (code != finding.rule->code) continue;
    std::string details;
    for (const Fault& fault : finding.faults) {
      if (!fault.detail.empty()) details += (details.empty() ? "" : "; ") + fault.detail;
    }
    return fmt::format("{}/{}{}", finding.faults.size(), finding.repairable,
                       details.empty() ? "" : " (" + details + ")");
  }
  return "";
}

void Repair(Graph& graph, const char* runtime) {
  const auto repairs = RepairPlacement(graph, *FindRuntime(runtime));
  ASSERT_TRUE(repairs) << repairs.error().message();
  EXPECT_FALSE(repairs->repairs.empty());
}

// The type that the only QuantizeLinear behind the first node of this operator writes.
TensorType QuantTypeBehind(const Graph& graph, const char* op) {
  for (NodeId id : graph.order()) {
    if (graph.node(id).op != op) continue;
    const NodeId quantize = OnlyQuantizer(graph, graph.node(id).outputs[0]);
    if (quantize.valid() && QuantTypeOf(graph, quantize) != nullptr)
      return *QuantTypeOf(graph, quantize);
  }
  ADD_FAILURE() << "no quantization behind " << op;
  return TensorType(DType::kUint8, Shape{}, QuantParams::PerTensor(1, 0));
}

TEST(Rules, AnActivationApart) {
  enum {
    kAlone,
    kPairReadTwice,
    kStoredReadTwice,
    kReadTwice,
    kAfterMove,
    kAfterSum,
    kFloatBehind
  };
  const auto found = [](int kind) {
    Net n;
    ValueId y = n.Conv(n.Pair(n.x, 0.02f, 128));
    if (kind == kAfterMove) y = n.Op("Transpose", {y});
    if (kind == kAfterSum) y = n.Op("Add", {y, n.Conv(n.Pair(n.x, 0.02f, 128))});
    const ValueId stored = n.Quantize(y, 0.04f, 128), real = n.Dequantize(stored);
    const ValueId relu = n.Op("Relu", {real});
    std::vector<ValueId> outputs = {kind == kFloatBehind ? relu : n.Pair(relu, 0.02f)};
    if (kind == kPairReadTwice) outputs.push_back(n.Op("Exp", {real}));
    if (kind == kStoredReadTwice) outputs.push_back(n.Op("Exp", {n.Dequantize(stored)}));
    if (kind == kReadTwice) outputs.push_back(n.Op("Exp", {y}));
    return Found(n.Done(outputs), "openvino", "activation-apart");
  };
  EXPECT_EQ(found(kAlone), "1/1");
  EXPECT_EQ(found(kPairReadTwice), "1/0");
  EXPECT_EQ(found(kStoredReadTwice), "1/0");
  EXPECT_EQ(found(kReadTwice), "1/0");
  EXPECT_EQ(found(kAfterMove), "");
  EXPECT_EQ(found(kAfterSum), "1/1");
  EXPECT_EQ(found(kFloatBehind), "");
}

TEST(Rules, TwoPairsInARow) {
  const auto found = [](bool stored_input, bool output) {
    Net n;
    const TensorType type(DType::kInt8, Shape{1, 8, 6, 6}, QuantParams::PerTensor(0.1f, 0));
    const ValueId real = stored_input ? n.Dequantize(n.graph.AddInput("stored", type))
                                      : n.Pair(n.x, 0.02f, 0, DType::kInt8);
    std::vector<ValueId> outputs = {n.Conv(n.Pair(real, 0.03f, 0, DType::kInt8))};
    if (output) outputs.push_back(real);
    return Found(n.Done(outputs), "tensorrt", "double-pair");
  };
  EXPECT_EQ(found(false, false), "1/1");
  EXPECT_EQ(found(true, false), "1/0") << "the first one's integers are the caller's";
  EXPECT_EQ(found(false, true), "") << "somebody reads what lies between";
}

// The range becomes the part of itself that the clamp leaves.
TEST(Rules, AClampThatIsKept) {
  const auto net = [](bool clip, float scale, int zero, DType dtype = DType::kUint8) {
    Net n;
    const ValueId y = n.Conv(n.Pair(n.x, 0.02f, 128));
    const ValueId low = n.Floats(Shape{}, {-1}), high = n.Floats(Shape{}, {2});
    return n.Done(
        {n.Pair(clip ? n.Op("Clip", {y, low, high}) : n.Op("Relu", {y}), scale, zero, dtype)});
  };
  const auto found = [&](float scale, int zero, DType dtype = DType::kUint8) {
    return Found(net(false, scale, zero, dtype), "ort-cpu", "relu-kept");
  };
  EXPECT_EQ(found(0.03f, 0), "");
  EXPECT_EQ(found(0.03f, 1), "1/1");
  EXPECT_EQ(found(0.03f, 254), "1/1");
  EXPECT_EQ(found(0.03f, 255), "1/0") << "nothing of it is above 0";
  EXPECT_EQ(found(0.0003f, 100, DType::kUint16), "1/0");
  struct Case {
    bool clip;
    float scale;
    int zero;
    double low, high;
  };
  for (const Case& c : {Case{false, 0.03f, 100, 0, 4.65}, Case{true, 0.03f, 100, -1, 2},
                        Case{true, 0.03f, 20, -0.6, 2}, Case{true, 0.01f, 150, -1, 1.05}}) {
    Graph graph = net(c.clip, c.scale, c.zero);
    Repair(graph, "ort-cpu");
    const TensorType type = QuantTypeBehind(graph, c.clip ? "Clip" : "Relu");
    const double step = (c.high - c.low) / 255;
    EXPECT_NEAR(LowOf(type), c.low, step) << c.scale << ", " << c.zero;
    EXPECT_NEAR(HighOf(type), c.high, step) << c.scale << ", " << c.zero;
  }
}

// The same numbers in uint8: 128 more for each, and for the zero point.
TEST(Rules, SignedActivations) {
  const auto net = [](bool output) {
    Net n;
    const ValueId q = n.Quantize(n.x, 0.02f, 3, DType::kInt8), a = n.Dequantize(q);
    const ValueId y = n.Conv(a), z = n.Conv(a);
    std::vector<ValueId> outputs = {n.Pair(y, 0.05f, -5, DType::kInt8),
                                    n.Pair(z, 0.05f, 0, DType::kInt8)};
    if (output) outputs.push_back(q);
    return n.Done(outputs);
  };
  EXPECT_EQ(Found(net(false), "ort-cpu", "signed-activations"), "3/3");
  EXPECT_EQ(Found(net(true), "ort-cpu", "signed-activations"), "3/2") << "an output stays";
  Graph graph = net(false);
  Repair(graph, "ort-cpu");
  const TensorType type = QuantTypeBehind(graph, "Conv");
  EXPECT_EQ(type.dtype, DType::kUint8);
  EXPECT_EQ(type.quant->zero_points, (std::vector<int32_t>{123}));
  EXPECT_EQ(type.quant->scales, (std::vector<float>{0.05f}));
  // Where one reader of each can have it turned by the session itself, nothing is lost.
  Net n;
  EXPECT_EQ(
      Found(n.Done({n.Pair(n.Conv(n.Pair(n.x, 0.02f, 0, DType::kInt8)), 0.05f, 0, DType::kInt8)}),
            "ort-cpu", "signed-activations"),
      "");
}

// int8 around 0, in which the larger side fits: of uint8 with zero point 100 that is 155 steps.
TEST(Rules, ActivationsWithAZeroPoint) {
  const auto net = [](int zero, DType dtype, bool output = false) {
    Net n;
    const ValueId q = n.Quantize(n.x, 0.02f, zero, dtype);
    std::vector<ValueId> outputs = {n.Conv(n.Dequantize(q))};
    if (output) outputs.push_back(q);
    return n.Done(outputs);
  };
  const auto found = [](const Graph& graph) {
    return Found(graph, "tensorrt", "asymmetric-activations");
  };
  EXPECT_EQ(found(net(0, DType::kInt8)), "");
  EXPECT_EQ(found(net(1, DType::kInt8)).substr(0, 3), "1/1");
  EXPECT_EQ(found(net(0, DType::kUint8)).substr(0, 3), "1/1");
  EXPECT_EQ(found(net(0, DType::kUint8, true)).substr(0, 3), "1/0");
  EXPECT_EQ(found(net(0, DType::kInt16)).substr(0, 3), "1/0");
  EXPECT_NE(found(net(100, DType::kUint8)).find("(uint8[1, 8, 6, 6](scale 0.02, zero 100))"),
            std::string::npos)
      << found(net(100, DType::kUint8));
  Graph graph = net(100, DType::kUint8);
  Repair(graph, "tensorrt");
  const NodeId conv = graph.FindNode("Conv");
  const TensorType* type = ReadQuantType(graph, graph.node(conv).input(0));
  ASSERT_NE(type, nullptr);
  EXPECT_EQ(type->dtype, DType::kInt8);
  EXPECT_EQ(type->quant->zero_points[0], 0);
  EXPECT_NEAR(type->quant->scales[0], 0.02 * 155 / 127, 1e-4);
}

TEST(Rules, WhatIsToldOfAPlace) {
  Net n;
  ValueId y = n.Conv(n.Pair(n.x, 0.02f, 128));
  n.graph.attrs(n.graph.value(y).producer).Set("evoq.from", "QLinearConv");
  EXPECT_EQ(Found(n.Done({n.Pair(y, 0.02f, 128)}), "ort-cuda", "qlinear-operators"),
            "1/1 (QLinearConv)");
  Net m;
  EXPECT_EQ(Found(m.Done({m.Pair(m.Op("HardSwish", {m.Pair(m.x, 0.02f, 128)}), 0.02f)}), "ort-cpu",
                  "no-integer-kernel"),
            "1/0 (HardSwish)");
  Net c;
  EXPECT_EQ(Found(c.Done({c.Op("Relu", {c.Op("Tan", {c.Op("Relu", {c.x})})})}), "ort-cuda",
                  "cpu-fallback"),
            "1/0 (Tan, 2 Memcpy)");
  Net i;
  EXPECT_EQ(Found(i.Done({i.Op("Relu", {i.Op("Tan", {i.x})})}), "ort-cuda", "cpu-fallback"),
            "1/0 (Tan, 1 Memcpy)")
      << "inputs are on the host";
  // What one operator on the host gives to another needs no copy, though the GPU gets one.
  Net two;
  const ValueId first = two.Op("Tan", {two.Op("Relu", {two.x})});
  EXPECT_EQ(Found(two.Done({two.Op("Relu", {first}), two.Op("Relu", {two.Op("Tan", {first})})}),
                  "ort-cuda", "cpu-fallback"),
            "2/0 (Tan, 2 Memcpy; Tan, 1 Memcpy)");
}

// A pair whose integers nobody computes with.
TEST(Rules, APairBetweenFloats) {
  enum { kFloats, kOneReaderOnIntegers, kStoredIsOutput, kBehindIntegers };
  const auto found = [](int kind) {
    Net n;
    const ValueId a =
        kind == kBehindIntegers ? n.Conv(n.Pair(n.x, 0.02f, 128)) : n.Op("Tanh", {n.x});
    const ValueId q = n.Quantize(a, 0.01f, 128), real = n.Dequantize(q);
    std::vector<ValueId> outputs = {n.Op("Exp", {real})};
    if (kind == kOneReaderOnIntegers)
      outputs.push_back(n.Pair(n.Conv(n.Dequantize(q)), 0.05f, 128));
    if (kind == kStoredIsOutput) outputs.push_back(q);
    return Found(n.Done(outputs), "ort-cpu", "pair-between-floats");
  };
  EXPECT_EQ(found(kFloats), "1/1");
  EXPECT_EQ(found(kOneReaderOnIntegers), "");
  EXPECT_EQ(found(kStoredIsOutput), "");
  EXPECT_EQ(found(kBehindIntegers), "");
}

// The missing pairs of a sum are named, and are placed where their quantization parameters are
// known.
TEST(Rules, MissingPairsOfASum) {
  const auto found = [](bool left, bool right, bool result, const char* runtime) {
    Net n;
    const ValueId x = n.Pair(n.x, 0.02f, 128), a = n.Conv(x), b = n.Conv(x);
    const ValueId y =
        n.Op("Add", {left ? n.Pair(a, 0.05f, 128) : a, right ? n.Pair(b, 0.05f, 128) : b});
    return Found(n.Done({result ? n.Pair(y, 0.08f, 128) : y}), runtime, "residual-not-quantized");
  };
  EXPECT_EQ(found(true, false, true, "ort-cpu"), "1/1 (input 1)");
  EXPECT_EQ(found(false, true, true, "ort-cpu"), "1/1 (input 0)");
  EXPECT_EQ(found(false, false, true, "ort-cpu"), "1/0 (input 0, input 1)")
      << "of neither the other's range is known";
  EXPECT_EQ(found(true, false, false, "ort-cpu"), "") << "only floats are read";
  EXPECT_EQ(found(true, true, true, "ort-cpu"), "");
  EXPECT_EQ(found(true, true, false, "ort-cpu"), "") << "its integers would be nobody's";
}

// Paths that part and meet again, at each of 40 places: 2^40 ways from the first to the last.
TEST(Rules, ManyWaysToTheSameReader) {
  for (const bool quantized : {false, true}) {
    Net n({1, 2});
    const ValueId both = n.graph.AddConstant("both", Tensor::FromValues<int64_t>(Shape{2}, {0, 1}));
    ValueId y = n.Op("Flatten", {n.Pair(n.x, 0.02f)});
    for (int i = 0; i < 40; ++i)
      y = n.Op("Gather", {n.Op("Concat", {y, y}, With("axis", 1)), both}, With("axis", 1));
    const Graph graph = n.Done({quantized ? n.Pair(y, 0.02f) : y});
    EXPECT_EQ(LeadsToIntegers(graph, graph.node(graph.FindNode("Flatten")).outputs[0]), quantized);
  }
}

// What one of 40 moves needs is known when the one before it, or behind it, has its pair.
TEST(Rules, LongChainsOfMoves) {
  Net n({1, 4});
  ValueId y = n.Pair(n.x, 0.02f);
  for (int i = 0; i < 40; ++i) y = n.Op("Flatten", {y});
  Graph graph = n.Done({n.Pair(n.Op("Sigmoid", {n.Pair(y, 0.02f)}), 0.004f)});
  Repair(graph, "ort-cpu");
  EXPECT_EQ(Examine(graph, *FindRuntime("ort-cpu")).repairable(), 0);
  EXPECT_EQ(Found(graph, "ort-cpu", "move-in-float"), "");
}

// A file may leave out results that the operator has.
TEST(Rules, AResultThatIsOmitted) {
  for (const Runtime* runtime : AllRuntimes()) {
    Net n({1, 4});
    const TensorType half(DType::kFloat32, Shape{1, 2});
    const ValueId y = n.graph.AddValue("y", half);
    n.graph.AddNode({.op = "Split",
                     .name = "split",
                     .attrs = With("axis", 1),
                     .inputs = {n.Pair(n.x, 0.02f)},
                     .outputs = {ValueId(), y}});
    Graph graph = n.Done({y});
    EXPECT_FALSE(MissingPairs(graph, graph.node(graph.FindNode("split"))).output);
    EXPECT_TRUE(RepairPlacement(graph, *runtime)) << runtime->name;
    EXPECT_EQ(Examine(graph, *runtime).repairable(), 0) << runtime->name;
  }
}

// Integers that a file stores are no sign that what stands beside them should be integers.
TEST(Rules, ConstantsBesideFloats) {
  for (const char* runtime : {"ort-cpu", "openvino", "tensorrt"}) {
    Net n;
    const ValueId a = n.Op("Sin", {n.x});
    const ValueId stored = n.Stored(n.graph.value(a).type.shape.sizes(), -1);
    EXPECT_EQ(Found(n.Done({n.Op("Concat", {a, stored}, With("axis", 1))}), runtime,
                    "concat-not-quantized"),
              "")
        << runtime;
  }
}

TEST(Rules, AnInputThatIsOmittedHasNoQuantType) {
  Net n;
  EXPECT_EQ(ReadQuantType(n.graph, ValueId()), nullptr);
  EXPECT_EQ(WrittenQuantType(n.graph, ValueId()), nullptr);
  EXPECT_EQ(ReaderQuantType(n.graph, ValueId()), nullptr);
  EXPECT_NE(ReadQuantType(n.graph, n.Pair(n.x, 0.02f, 128)), nullptr);
}

TEST(Rules, AResultThatIsReadTwice) {
  enum { kOne, kOneAndFloat, kOneAndOutput, kTwo };
  const auto found = [](int kind, const char* op = "Conv") {
    Net n;
    const ValueId x = n.Pair(n.x, 0.02f, 128);
    const ValueId y = std::string_view(op) == "Conv" ? n.Conv(x) : n.Op(op, {x});
    std::vector<ValueId> outputs = {n.Pair(y, 0.05f, 128)};
    if (kind == kOneAndFloat) outputs.push_back(n.Op("Exp", {y}));
    if (kind == kOneAndOutput) outputs.push_back(y);
    if (kind == kTwo) outputs.push_back(n.Pair(y, 0.06f, 128));
    return Found(n.Done(outputs), "ort-cpu", "output-read-twice");
  };
  EXPECT_EQ(found(kOne), "");
  EXPECT_EQ(found(kOneAndFloat), "1/1");
  EXPECT_EQ(found(kOneAndOutput), "1/1");
  EXPECT_EQ(found(kTwo), "1/0");
  EXPECT_EQ(found(kOneAndFloat, "Relu"), "1/1");
  EXPECT_EQ(found(kOneAndFloat, "Softplus"), "") << "it has no integer form";
}

TEST(Rules, AnotherQuantTypeBehindAMove) {
  const auto found = [](float scale, bool output) {
    Net n;
    const ValueId y = n.Op("MaxPool", {n.Pair(n.Conv(n.Pair(n.x, 0.02f)), 0.02f)},
                           With("kernel_shape", std::vector<int64_t>{2, 2}));
    const ValueId q = n.Quantize(y, scale);
    std::vector<ValueId> outputs = {n.Pair(n.Conv(n.Dequantize(q)), 0.05f, 128)};
    if (output) outputs.push_back(q);
    return Found(n.Done(outputs), "ort-cpu", "grid-change");
  };
  EXPECT_EQ(found(0.02f, false), "");
  EXPECT_EQ(found(0.03f, false), "1/1");
  EXPECT_EQ(found(0.03f, true), "1/0");
}

// What LeakyRelu and Sigmoid must have read: of [-1.25, 5.125] behind a slope of 0.25, [-5, 5.125];
// of [0, 1.02] in steps of 0.004 behind a Sigmoid, what gives half a step and that less than 1:
// ln(0.998 / 0.002) = 6.2126 to both sides.
TEST(Rules, AnActivationThatIsNotSplit) {
  const auto net = [](const char* op, float alpha, float scale, int zero, DType dtype) {
    Net n;
    const ValueId y = n.Conv(n.Pair(n.x, 0.02f, 128));
    return n.Done({n.Pair(n.Op(op, {y}, With("alpha", alpha)), scale, zero, dtype)});
  };
  const auto found = [&](float alpha, DType dtype = DType::kUint8) {
    return Found(net("LeakyRelu", alpha, 0.025f, 50, dtype), "ort-cpu", "activation-not-split");
  };
  EXPECT_EQ(found(0.25f), "1/1");
  EXPECT_EQ(found(1), "1/1");
  EXPECT_EQ(found(1.01f), "");
  EXPECT_EQ(found(0), "");
  EXPECT_EQ(found(0.25f, DType::kUint16), "");
  Graph leaky = net("LeakyRelu", 0.25f, 0.025f, 50, DType::kUint8);
  Repair(leaky, "ort-cpu");
  EXPECT_NEAR(LowOf(QuantTypeBehind(leaky, "Conv")), -5, 0.04);
  EXPECT_NEAR(HighOf(QuantTypeBehind(leaky, "Conv")), 5.125, 0.04);
  Net n;
  Graph sigmoid = n.Done({n.Pair(n.Op("Sigmoid", {n.Conv(n.Pair(n.x, 0.02f, 128))}), 0.004f)});
  Repair(sigmoid, "ort-cpu");
  EXPECT_NEAR(LowOf(QuantTypeBehind(sigmoid, "Conv")), -6.2126, 0.05);
  EXPECT_NEAR(HighOf(QuantTypeBehind(sigmoid, "Conv")), 6.2126, 0.05);
}

// The integers less their zero point, where that fits a signed byte, with the same scales;
// otherwise integers of their own, per output channel.
TEST(Rules, WeightsWithAZeroPoint) {
  const auto net = [](DType dtype, int zero) {
    Net n;
    const ValueId w = n.Stored({8, 8, 3, 3}, -1, dtype, zero);
    return n.Done({n.Pair(n.Conv(n.Pair(n.x, 0.02f, 128), w), 0.05f, 128)});
  };
  const auto weights = [](const Graph& graph) {
    const Node& conv = graph.node(graph.FindNode("Conv"));
    return graph.value(graph.node(graph.value(conv.input(1)).producer).input(0)).constant;
  };
  EXPECT_EQ(Found(net(DType::kInt8, 0), "ort-cpu", "unsigned-weights"), "");
  EXPECT_EQ(Found(net(DType::kInt8, 3), "ort-cpu", "unsigned-weights"), "1/1");
  EXPECT_EQ(Found(net(DType::kUint8, 0), "ort-cpu", "unsigned-weights"), "1/1");
  for (const int zero : {120, 0}) {
    const Graph before = net(DType::kUint8, zero);
    Graph after = before;
    Repair(after, "ort-cpu");
    const Tensor w = weights(before), v = weights(after);
    ASSERT_EQ(v.dtype(), DType::kInt8);
    EXPECT_EQ(v.type().quant->scales.size(), zero == 120 ? 1u : 8u);
    for (const int32_t z : v.type().quant->zero_points) EXPECT_EQ(z, 0);
    const Tensor a = *ToFloat32(w), b = *ToFloat32(v);
    const float largest = zero == 120 ? 0 : 0.255f / 127;
    for (int64_t i = 0; i < a.elements(); ++i)
      EXPECT_NEAR(a.data<float>()[i], b.data<float>()[i], 0.51f * largest + 1e-7f);
  }
}

// A normalization is folded where nobody else reads the convolution, and its factors are numbers.
TEST(Rules, ABatchNormalizationApart) {
  const auto net = [](float variance, float epsilon, bool read_twice, bool computed = false) {
    Net n;
    const ValueId y = n.Conv(n.Pair(n.x, 0.02f, 128));
    const auto constant = [&](float v) { return n.Floats(Shape{8}, std::vector<float>(8, v)); };
    const ValueId mean =
        computed ? n.graph.AddInput("mean", TensorType(DType::kFloat32, Shape{8})) : constant(0.1f);
    const ValueId z =
        n.Op("BatchNormalization", {y, constant(0.01f), constant(0.2f), mean, constant(variance)},
             epsilon > 0 ? With("epsilon", epsilon) : Attrs());
    std::vector<ValueId> outputs = {n.Pair(z, 0.04f, 128)};
    if (read_twice) outputs.push_back(n.Op("Exp", {y}));
    return n.Done(outputs);
  };
  const auto found = [](const Graph& graph) { return Found(graph, "ort-cpu", "batch-norm-apart"); };
  EXPECT_EQ(found(net(2, 0, false)), "1/1");
  EXPECT_EQ(found(net(2, 0, true)), "1/0");
  EXPECT_EQ(found(net(2, 0, false, true)), "1/0");
  EXPECT_EQ(found(net(-1, 0, false)), "1/0") << "the root of a negative number";
  // Of a variance of 1e-5 the epsilon, 1e-5 unless told, is half: a scale of 0.001 becomes 0.001 *
  // 0.01 / sqrt(2e-5).
  for (const auto& [epsilon, sum] : {std::pair(0.0f, 2e-5), std::pair(3e-5f, 4e-5)}) {
    Graph graph = net(1e-5f, epsilon, false);
    Repair(graph, "ort-cpu");
    EXPECT_EQ(graph.FindNode("BatchNormalization"), NodeId{});
    const TensorType* w = ReadQuantType(graph, graph.node(graph.FindNode("Conv")).input(1));
    ASSERT_NE(w, nullptr);
    EXPECT_NEAR(w->quant->scales[0], 0.001 * 0.01 / std::sqrt(sum), 1e-7);
    // The bias is B - mean * factor.
    const Tensor bias = RealConstant(graph, graph.node(graph.FindNode("Conv")).input(2));
    ASSERT_TRUE(bias.defined());
    EXPECT_NEAR(bias.data<float>()[0], 0.2 - 0.1 * 0.01 / std::sqrt(sum), 1e-3);
  }
}

TEST(QuantTypes, LowAndHigh) {
  const TensorType u(DType::kUint8, Shape{2}, QuantParams::PerTensor(0.5f, 100)),
      i(DType::kInt8, Shape{2}, QuantParams::PerTensor(0.5f, -28));
  EXPECT_EQ(LowOf(u), -50);
  EXPECT_EQ(HighOf(u), 77.5);
  EXPECT_EQ(LowOf(i), -50);
  EXPECT_EQ(HighOf(i), 77.5);
  EXPECT_EQ(AsUint8(i), u);
}

// s_b = s_x * s_w for each channel, give or take 1%; one scale stands for all.
TEST(QuantTypes, OfBiases) {
  const auto type = [](DType dtype, std::vector<float> scales) {
    QuantParams params = QuantParams::PerTensor(scales[0], 0);
    params.zero_points.assign(scales.size(), 0);
    if (scales.size() > 1) params.axis = 0;
    params.scales = std::move(scales);
    return TensorType(dtype, Shape{2}, params);
  };
  const TensorType x = type(DType::kUint8, {0.5f}), w = type(DType::kInt8, {0.25f, 0.5f});
  const auto fits = [&](DType dtype, std::vector<float> scales) {
    return IsBiasQuantType(type(dtype, std::move(scales)), x, w);
  };
  EXPECT_TRUE(fits(DType::kInt32, {0.125f, 0.25f}));
  EXPECT_FALSE(fits(DType::kInt8, {0.125f, 0.25f}));
  EXPECT_TRUE(fits(DType::kInt32, {0.125f * 1.0099f, 0.25f * 0.9901f}));
  EXPECT_FALSE(fits(DType::kInt32, {0.125f * 1.0101f, 0.25f}));
  EXPECT_FALSE(fits(DType::kInt32, {0.125f, 0.25f * 0.9899f}));
  EXPECT_FALSE(fits(DType::kInt32, {0.125f})) << "one for both, and it is not the second's";
  EXPECT_FALSE(fits(DType::kInt32, {0.125f, 0.25f, 0.25f})) << "as many as there are channels";
  EXPECT_TRUE(
      IsBiasQuantType(type(DType::kInt32, {0.125f}), x, type(DType::kInt8, {0.25f, 0.25f})));
  EXPECT_TRUE(
      IsBiasQuantType(type(DType::kInt32, {0.125f, 0.125f}), x, type(DType::kInt8, {0.25f})));
  EXPECT_FALSE(IsBiasQuantType(type(DType::kInt32, {0.125f, 0.125f}),
                               type(DType::kUint8, {0.5f, 0.5f}), type(DType::kInt8, {0.25f})))
      << "activations have one scale";
}

}  // namespace
}  // namespace evoq
