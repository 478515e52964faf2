// Different scales for each channel of a depthwise operator's input: the same numbers with one.
#include <gtest/gtest.h>

#include <random>

#include "passes/pass.h"
#include "reference/reference.h"

namespace evoq {
namespace {

const PassDef& Pass() {
  for (const PassDef* pass : AllPasses()) {
    if (std::string_view(pass->name) == "equal-channel-scales") return *pass;
  }
  std::abort();
}

// A pointwise and a depthwise Conv with the activation between them that `between` makes of %y.
Graph NetOf(const std::string& between, QuantParams quant, bool gives_integers = false) {
  auto graph = ParseGraph(
      "input %x: float32[1, 4, 5, 5]\nconst %w: float32[3, 4, 1, 1]\nconst %b: float32[3]\n"
      "const %d: int8[3, 1, 3, 3](3 scales on axis 0)\n"
      "const %low: float32[] = [0.0]\nconst %high: float32[] = [6.0]\n"
      "conv: %y: float32[1, 3, 5, 5] = Conv(%x, %w, %b)\n" +
      between +
      "q: %q: uint8[1, 3, 5, 5](3 scales on axis 1) = QuantizeLinear(%z)\n"
      "r: %r: float32[1, 3, 5, 5] = DequantizeLinear(%q)\n"
      "dr: %dr: float32[3, 1, 3, 3] = DequantizeLinear(%d)\n"
      "out: %out: float32[1, 3, 3, 3] = Conv{group=3}(%r, %dr)\noutput %out\n" +
      (gives_integers ? "output %q\n" : ""));
  EXPECT_TRUE(graph) << graph.error().message();
  std::mt19937 random(1);
  for (int i = 0; i < graph->value_count(); ++i) {
    const Value& value = graph->value(ValueId{i});
    if (!value.is_constant() || value.constant.elements() == 1) continue;
    Tensor t = Tensor::Allocate(value.type);
    for (int64_t k = 0; k < t.elements(); ++k) {
      if (t.dtype() == DType::kFloat32)
        t.mutable_data<float>()[k] = static_cast<float>(random() % 2000) / 500 - 2;
      else
        t.mutable_data<int8_t>()[k] = static_cast<int8_t>(random());
    }
    graph->SetConstant(ValueId{i}, t);
  }
  const ValueId q = graph->FindValue("q");
  graph->SetType(q, TensorType(DType::kUint8, graph->value(q).type.shape, std::move(quant)));
  EXPECT_TRUE(InferTypes(*graph));
  return std::move(*graph);
}

QuantParams Scales(std::vector<float> scales, int32_t zero) {
  QuantParams quant{scales, std::vector<int32_t>(scales.size(), zero), 1, 0};
  return quant;
}

// The integers are the same, or one apart where the factor's rounding falls on a tie.
TEST(EqualChannelScales, TheIntegersAreTheSame) {
  for (const char* between : {"act: %z: float32[1, 3, 5, 5] = Relu(%y)\n",
                              "act: %z: float32[1, 3, 5, 5] = Clip(%y, %low, %high)\n",
                              "act: %z: float32[1, 3, 5, 5] = Identity(%y)\n"}) {
    SCOPED_TRACE(between);
    const QuantParams scales = Scales({6.0f / 255, 0.002f, 0.011f}, 0);
    Graph whole = NetOf(between, scales, true);
    EXPECT_EQ(RunPass(whole, Pass()).value_or(-1), 0) << "an output keeps its scales";
    Graph graph = NetOf(between, scales);
    Tensor x = Tensor::Allocate(TensorType(DType::kFloat32, Shape{1, 4, 5, 5}));
    std::mt19937 random(2);
    for (int64_t i = 0; i < x.elements(); ++i)
      x.mutable_data<float>()[i] = static_cast<float>(random() % 1000) / 1000;
    std::map<std::string, Tensor> before, after;
    const auto run = [&](const Graph& g, std::map<std::string, Tensor>& seen) {
      ASSERT_TRUE(EvaluateGraph(g, std::vector<Tensor>{x},
                                [&](ValueId id, const Tensor& t) { seen[g.value(id).name] = t; }));
    };
    run(graph, before);
    Graph open = graph;
    const auto changes = RunPass(open, Pass());
    ASSERT_TRUE(changes) << changes.error().message();
    const bool identity = std::string_view(between).find("Identity") != std::string_view::npos;
    EXPECT_EQ(*changes, identity ? 0 : 1);
    if (identity) continue;
    EXPECT_TRUE(open.value(open.FindValue("q")).type.quant->per_tensor());
    run(open, after);
    for (int64_t i = 0; i < before["q"].elements(); ++i)
      EXPECT_NEAR(before["q"].data<uint8_t>()[i], after["q"].data<uint8_t>()[i], 1) << i;
    for (int64_t i = 0; i < before["out"].elements(); ++i)
      EXPECT_NEAR(before["out"].data<float>()[i], after["out"].data<float>()[i], 6) << i;
  }
}

// Bounds that cut off what the integers could hold, and zero points that differ, stay.
TEST(EqualChannelScales, WhatStays) {
  const auto changes = [](QuantParams quant) {
    Graph graph = NetOf("act: %z: float32[1, 3, 5, 5] = Clip(%y, %low, %high)\n", std::move(quant));
    return RunPass(graph, Pass()).value_or(-1);
  };
  EXPECT_EQ(changes(Scales({6.0f / 255, 0.002f, 0.011f}, 0)), 1);
  EXPECT_EQ(changes(Scales({6.1f / 255, 0.002f, 0.011f}, 0)), 0);
  EXPECT_EQ(changes(Scales({6.0f / 255, 0.002f, 0.011f}, 3)), 0) << "0 is within the range";
  QuantParams mixed = Scales({0.01f, 0.002f, 0.011f}, 0);
  mixed.zero_points[1] = 1;
  EXPECT_EQ(changes(std::move(mixed)), 0);
}

}  // namespace
}  // namespace evoq
