// Steps that integers would make slower stay float32, and say why.
#include <gtest/gtest.h>

#include "quant/plan.h"
#include "quant/test_net.h"
#include "quant/unfuse.h"

namespace evoq {
namespace {

// A layer "c": `x` and `w` are the shapes of its data and weights.
std::string Net(const std::string& x, const std::string& w, const std::string& call) {
  return fmt::format(
      "graph g\ninput %x: float32{0}\nconst %w: float32{1}\n"
      "b: %y0: float32{0} = Relu(%x)\nc: %y = {2}(%y0, %w)\n"
      "output %y\n",
      x, w, call);
}

// Why the layer "c" stays float; "" where it computes with integers.
std::string ReasonOf(const std::string& text, const QuantizeOptions& options = {}) {
  const Graph net = MakeNet(text);
  Ranges ranges;
  for (int i = 0; i < net.value_count(); ++i) ranges[net.value(ValueId{i}).name] = {-1, 1};
  const QuantPlan plan = MakePlan(net, ranges, options);
  const NodeId id = net.FindNode("c");
  return plan.integer.contains(id) ? "" : plan.reasons.at(id).ToString();
}

std::string Depthwise(int64_t high, int64_t wide, const std::string& attrs = "") {
  return Net("[1, 32, 40, 40]", fmt::format("[32, 1, {}, {}]", high, wide),
             fmt::format("Conv{{group=32{}}}", attrs));
}

bool NamesNoKernel(const std::string& reason) { return reason.starts_with("no-int8-kernel: "); }

std::string Volume(int64_t group) {
  return Net("[1, 16, 8, 8, 8]", fmt::format("[16, {}, 3, 3, 3]", 16 / group),
             fmt::format("Conv{{group={}}}", group));
}

TEST(IntegerKernels, DepthwiseWindowsOfAllSizesAreFast) {
  for (const auto& [high, wide] :
       {std::pair<int64_t, int64_t>{3, 3}, {7, 7}, {1, 31}, {3, 1}, {9, 9}, {2, 2}})
    EXPECT_EQ(ReasonOf(Depthwise(high, wide)), "") << high << " x " << wide;
  EXPECT_EQ(ReasonOf(Depthwise(3, 3, ", strides=[3, 3]")), "");
}

TEST(IntegerKernels, LinesAndVolumes) {
  const auto line = [](const char* length) {
    return Net(fmt::format("[1, 16, {}]", length), "[16, 1, 5]", "Conv{group=16}");
  };
  EXPECT_EQ(ReasonOf(line("200")), "");
  EXPECT_EQ(ReasonOf(line("L")), "");  // asked at an example's size
  const std::string reason = ReasonOf(Volume(16));
  EXPECT_TRUE(NamesNoKernel(reason)) << reason;
  EXPECT_NE(reason.find("windows [16, 1, 3, 3, 3]"), std::string::npos) << reason;
  EXPECT_EQ(ReasonOf(Volume(4)), "");
}

// No integer kernel takes such a stride; float32 has one.
TEST(IntegerKernels, WhatNoIntegerKernelTakesStaysFloat) {
  const auto stride = [](int64_t s) {
    return Net("[1, 4, 1]", "[4, 4, 2]", fmt::format("ConvTranspose{{strides=[{}]}}", s));
  };
  EXPECT_EQ(ReasonOf(stride(2)), "");
  const std::string reason = ReasonOf(stride(70000));
  EXPECT_TRUE(NamesNoKernel(reason)) << reason;
  EXPECT_NE(reason.find("phases"), std::string::npos) << reason;
}

// Other runtimes have kernels of their own.
TEST(IntegerKernels, OtherRuntimesAreNotAsked) {
  QuantizeOptions options;
  options.target = FindQdqTarget("ort");
  EXPECT_EQ(ReasonOf(Volume(16), options), "");
}

TEST(IntegerKernels, DynamicSchemesAskToo) {
  const auto reasons = [](const std::string& text) {
    Graph net = MakeNet(text);
    const auto report = QuantizeDynamic(net, {});
    EXPECT_TRUE(report) << report.error().message();
    return report->float_reasons;
  };
  EXPECT_TRUE(reasons(Depthwise(1, 31)).empty());
  EXPECT_TRUE(reasons(Depthwise(5, 5)).empty());
  const Reasons few = reasons(Depthwise(3, 3));
  ASSERT_TRUE(few.contains("c"));
  EXPECT_NE(few.at("c").sentence.find("sums 9 products"), std::string::npos);
  // Behind another depthwise convolution, which stays in float32, and behind a product.
  const auto chain = [](const char* weight, const char* attributes) {
    return fmt::format(R"(
      input %x: float32[1, 16, 8, 8]
      const %w1: float32{}
      const %w2: float32[16, 1, 3, 3]
      a: %a: float32[1, 16, 8, 8] = Conv{{pads=[1, 1, 1, 1]{}}}(%x, %w1)
      c: %y: float32[1, 16, 8, 8] = Conv{{pads=[1, 1, 1, 1], group=16}}(%a, %w2)
      output %y
    )",
                       weight, attributes);
  };
  EXPECT_EQ(reasons(chain("[16, 1, 3, 3]", ", group=16")).size(), 2u);
  EXPECT_TRUE(reasons(chain("[16, 16, 3, 3]", "")).empty());
  const Reasons one = reasons(Volume(16));
  ASSERT_TRUE(one.contains("c"));
  EXPECT_TRUE(NamesNoKernel(one.at("c").ToString()));
}

}  // namespace
}  // namespace evoq
