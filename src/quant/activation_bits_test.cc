#include "quant/activation_bits.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "kernels/activation.h"
#include "quant/test_net.h"
#include "reference/reference.h"

namespace evoq {
namespace {

constexpr char kNet[] = R"(graph net
input %x: float32[1, 3, 12, 12]
const %w1: float32[8, 3, 3, 3]
const %w2: float32[8, 8, 3, 3]
const %w3: float32[8, 8, 1, 1]
const %w4: float32[8, 16, 3, 3]
a: %a = Conv{activation="Relu", pads=[1, 1, 1, 1]}(%x, %w1)
m: %m = MaxPool{kernel_shape=[2, 2], strides=[2, 2]}(%a)
b: %b = Conv{pads=[1, 1, 1, 1]}(%m, %w2)
c: %c = Conv{activation="Clip", activation_alpha=-0.25, activation_beta=0.5}(%m, %w3)
j: %j = Concat{axis=1}(%b, %c)
d: %d = Conv{pads=[1, 1, 1, 1]}(%j, %w4)
output %d
)";

// The integers that values take over some random inputs, by name.
std::map<std::string, std::set<int64_t>> LevelsOf(const Graph& integers) {
  std::map<std::string, std::set<int64_t>> levels;
  const auto note = [&](ValueId id, const Tensor& tensor) {
    if (!tensor.type().quantized()) return;
    for (int64_t i = 0; i < tensor.elements(); ++i)
      levels[integers.value(id).name].insert(tensor.dtype() == DType::kUint8
                                                 ? int64_t{tensor.data<uint8_t>()[i]}
                                                 : int64_t{tensor.data<int8_t>()[i]});
  };
  const Status each = RandomSamples(integers, 8)([&](std::span<const Tensor> inputs) -> Status {
    const auto run = EvaluateGraph(integers, inputs, note);
    return run ? Status() : tl::unexpected(run.error());
  });
  EXPECT_TRUE(each);
  return levels;
}

TEST(ActivationBits, ResultsUseTheirLevelsAndNoOthers) {
  const Graph net = MakeNet(kNet);
  const auto ranges = Calibrate(net, Reference(), RandomSamples(net, 8), {});
  ASSERT_TRUE(ranges);
  for (const DType type : {DType::kUint8, DType::kInt8}) {
    for (const int bits : {4, 2}) {
      SCOPED_TRACE(fmt::format("{} bits of {}", bits, DTypeName(type)));
      Graph q = net;
      const auto report =
          QuantizeStatic(q, *ranges, {.activation = type, .activation_bits = {{"*", bits}}});
      ASSERT_TRUE(report);
      // b and c share parameters; d is read by nobody.
      const std::map<std::string, int> few = {
          {"a", bits}, {"m", bits}, {"b", bits}, {"c", bits}, {"j", bits}};
      EXPECT_EQ(report->activation_bits, few);
      const LevelBounds bounds = LevelBoundsOf(type, bits);
      EXPECT_EQ(bounds.high - bounds.low + 1, 1 << bits);
      for (const auto& [name, seen] : LevelsOf(q)) {
        if (!few.count(name)) continue;
        EXPECT_GE(*seen.begin(), bounds.low) << name;
        EXPECT_LE(*seen.rbegin(), bounds.high) << name;
        if (name == "a" || name == "b")
          EXPECT_EQ(static_cast<int>(seen.size()), 1 << bits) << name << ": all of them";
      }
      EXPECT_GT(Sqnr(net, q), bits == 4 ? 10 : 0);
    }
  }
}

TEST(ActivationBits, OfSomeLayersAndNotBesideOthers) {
  const Graph net = MakeNet(kNet);
  const auto ranges = Calibrate(net, Reference(), RandomSamples(net, 8), {});
  ASSERT_TRUE(ranges);
  // What b gives is joined with what c gives, of 8 bits.
  Graph q = net;
  auto report = QuantizeStatic(q, *ranges, {.activation_bits = {{"*", 4}, {"c", 8}}});
  ASSERT_TRUE(report);
  EXPECT_EQ(report->activation_bits, (std::map<std::string, int>{{"a", 4}, {"m", 4}}));
  EXPECT_EQ(q.node(q.FindNode("b")).attrs.String("activation"), "");
  // The larger one counts where two differ.
  q = net;
  report = QuantizeStatic(q, *ranges, {.activation_bits = {{"b", 4}, {"c", 2}}});
  ASSERT_TRUE(report);
  EXPECT_EQ(report->activation_bits, (std::map<std::string, int>{{"b", 4}, {"c", 4}, {"j", 4}}));
}

TEST(ActivationBits, AClipIsOfWhatTheActivationLeaves) {
  const TensorType y(DType::kUint8, Shape{4}, QuantParams::PerTensor(0.125f, 3));
  const auto held = [&](const Activation& own) {
    Attrs attrs;
    ActivationToAttrs(own, attrs);
    HoldLevels(attrs, y, 4);
    const Activation made = *ActivationFromAttrs(attrs);
    EXPECT_EQ(made.kind, ActivationKind::kClip);
    return std::pair(made.alpha, made.beta);
  };
  EXPECT_EQ(held({}), std::pair(-0.375f, 1.5f));
  EXPECT_EQ(held({ActivationKind::kRelu}), std::pair(0.0f, 1.5f));
  EXPECT_EQ(held({ActivationKind::kClip, -0.25f, 6}), std::pair(-0.25f, 1.5f));
  EXPECT_EQ(held({ActivationKind::kClip, -1, 1}), std::pair(-0.375f, 1.0f));
  EXPECT_EQ(held({ActivationKind::kClip, 2, 3}), std::pair(1.5f, 1.5f));
}

TEST(ActivationBits, WhatIsNoClipCannotHoldLevels) {
  Node node{.op = "Conv"};
  for (const ActivationKind kind :
       {ActivationKind::kNone, ActivationKind::kRelu, ActivationKind::kClip,
        ActivationKind::kLeakyRelu, ActivationKind::kHardSwish, ActivationKind::kSilu}) {
    node.attrs = {};
    ActivationToAttrs({kind, 0, 1}, node.attrs);
    EXPECT_EQ(CanHoldLevels(node), kind <= ActivationKind::kClip) << ActivationName(kind);
  }
  node.attrs = {};
  ProductActivationToAttrs({{ActivationKind::kPRelu}, {0.5f}}, node.attrs);
  EXPECT_FALSE(CanHoldLevels(node));
  node = {.op = "Add"};
  EXPECT_FALSE(CanHoldLevels(node));
}

TEST(ActivationBits, ParametersAreOfTheMiddleOfTheRange) {
  const Range range{.min = -1, .max = 3};
  EXPECT_EQ(LevelParams(range, DType::kUint8, 8, false),
            ActivationParams(range, DType::kUint8, false));
  const QuantParams four = LevelParams(range, DType::kUint8, 4, false);
  EXPECT_NEAR(four.scales[0], 0.65 * 4 / 15, 1e-4);
  EXPECT_EQ(four.zero_points[0], 4);  // 0.65 / 0.1733 = 3.75
  const QuantParams two = LevelParams(range, DType::kInt8, 2, true);
  EXPECT_NEAR(two.scales[0], 0.4 * 3, 1e-3);
  EXPECT_EQ(two.zero_points[0], 0);
}

}  // namespace
}  // namespace evoq
