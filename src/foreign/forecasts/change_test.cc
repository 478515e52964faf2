#include "foreign/forecasts/change.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "foreign/forecasts/rule.h"
#include "foreign/forecasts/test_net.h"
#include "reference/reference.h"

namespace evoq {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

Graph TwoOutputs() {
  Net n({1, 2});
  return n.Done({n.Op("Relu", {n.x}), n.Op("Neg", {n.x})});
}

Tensor Row(std::vector<float> values) {
  return Tensor::FromValues<float>(Shape{1, static_cast<int64_t>(values.size())}, values);
}

OutputChange Change(const Tensor& before, const Tensor& after) {
  const Graph graph = TwoOutputs();
  const Tensor same = Row({1, 1});
  const auto changes = CompareOutputs(graph, {{before, same}}, {{after, same}});
  EXPECT_EQ(changes.size(), 2);
  EXPECT_TRUE(changes[1].exact());
  return changes[0];
}

TEST(OutputChange, SignalToNoiseAndDifferences) {
  // signal 9 + 16 + 0 + 144 = 169, noise 0.25 + 1 = 1.25 over two samples: 10 log10(135.2)
  // = 21.3098 dB
  const Graph graph = TwoOutputs();
  const auto changes =
      CompareOutputs(graph, {{Row({3, -4}), Row({1, 2})}, {Row({0, 12}), Row({1, 2})}},
                     {{Row({3, -4.5f}), Row({1, 2})}, {Row({1, 12}), Row({1, 2})}});
  ASSERT_EQ(changes.size(), 2);
  EXPECT_EQ(changes[0].output, graph.value(graph.outputs()[0]).name);
  EXPECT_EQ(changes[1].output, graph.value(graph.outputs()[1]).name);
  EXPECT_NEAR(changes[0].snr_db, 21.3098, 1e-4);
  EXPECT_EQ(changes[0].max_difference, 1);
  EXPECT_EQ(changes[0].largest, 12);
  EXPECT_FALSE(changes[0].exact());
  EXPECT_EQ(changes[1].max_difference, 0);
  EXPECT_EQ(changes[1].snr_db, std::numeric_limits<double>::infinity());
  EXPECT_TRUE(changes[1].exact());
  EXPECT_EQ(Worst(changes), &changes[0]);
}

// 1e-5 * 131072 = 1.31072; floats of this size are multiples of 1/128.
TEST(OutputChange, ExactUpToRoundingOfFloat32) {
  EXPECT_TRUE(Change(Row({131072, 0}), Row({131072, 1.3125f - 0.0078125f})).exact());
  EXPECT_FALSE(Change(Row({131072, 0}), Row({131072, 1.3125f})).exact());
  EXPECT_TRUE(Change(Row({-131072, 0}), Row({-131071, 0})).exact());
  EXPECT_TRUE(Change(Row({0, 0}), Row({0, -0.0f})).exact());
  EXPECT_FALSE(Change(Row({0, 0}), Row({0, 1e-30f})).exact());
  EXPECT_LT(Change(Row({0, 0}), Row({0, 1})).snr_db, -1e300) << "there is no signal";
}

TEST(OutputChange, WhatIsNotFiniteMustStay) {
  EXPECT_TRUE(Change(Row({NAN, 1}), Row({NAN, 1})).exact());
  EXPECT_TRUE(Change(Row({kInf, 1}), Row({kInf, 1})).exact());
  for (const auto& [before, after] : std::vector<std::pair<float, float>>{
           {NAN, 1}, {1, NAN}, {kInf, 1}, {1, kInf}, {kInf, -kInf}, {kInf, NAN}}) {
    const OutputChange c = Change(Row({before, 5}), Row({after, 5}));
    EXPECT_EQ(c.max_difference, std::numeric_limits<double>::infinity()) << before << " " << after;
    EXPECT_LT(c.snr_db, -1e300);
    EXPECT_FALSE(c.exact());
    EXPECT_EQ(c.largest, 5);
  }
  EXPECT_FALSE(Change(Row({1, 2}), Row({1, 2, 3})).exact());
}

TEST(OutputChange, IntegersAreNumbersToo) {
  const Tensor a = Tensor::FromValues<int64_t>(Shape{1, 2}, {4, 3}),
               b = Tensor::FromValues<int64_t>(Shape{1, 2}, {4, 2});
  EXPECT_TRUE(Change(a, a).exact());
  const OutputChange c = Change(a, b);
  EXPECT_EQ(c.max_difference, 1);
  EXPECT_NEAR(c.snr_db, 10 * std::log10(25.0), 1e-9);
}

TEST(OutputChange, TheWorstIsTheOneWithLeastSignalToNoise) {
  std::vector<OutputChange> c = {
      {"a", 300, 0, 1}, {"b", 20, 0.5, 1}, {"c", 10, 0.4, 1}, {"d", 5, 1e-6, 1}};
  EXPECT_EQ(Worst(c)->output, "c");  // d is rounding of float32
  EXPECT_EQ(Worst(std::span(c).first(1))->output, "a");
  EXPECT_EQ(Worst({}), nullptr);
  std::swap(c[0], c[1]);
  EXPECT_EQ(Worst(std::span(c).first(2))->output, "b");
}

class Repairing : public ::testing::Test {
 protected:
  // Signed activations of two outputs (the repair keeps every number), and a pair in front of a
  // Relu (the repair rounds once instead of twice).
  static Graph Faulty() {
    Net n;
    const ValueId a = n.Pair(n.x, 0.02f, 0, DType::kInt8), b = n.Pair(n.x, 0.02f, 128);
    return n.Done({n.Pair(n.Conv(a), 0.05f, 0, DType::kInt8),
                   n.Pair(n.Conv(a), 0.05f, 0, DType::kInt8),
                   n.Pair(n.Op("Relu", {n.Pair(n.Conv(b), 0.05f, 128)}), 0.03f)});
  }
  static SampleOutputs Run(const Graph& graph) {
    SampleOutputs outputs;
    for (int seed : {1, 2}) {
      std::mt19937 random(seed);
      std::uniform_real_distribution<float> uniform(-2.5f, 2.5f);
      Tensor x = Tensor::Allocate(graph.value(graph.inputs()[0]).type);
      for (int64_t i = 0; i < x.elements(); ++i) x.mutable_data<float>()[i] = uniform(random);
      auto y = EvaluateGraph(graph, std::span(&x, 1));
      EXPECT_TRUE(y) << y.error().message();
      outputs.push_back(std::move(*y));
    }
    return outputs;
  }
  static const Repair* Find(const Repairs& repairs, std::string_view code) {
    for (const Repair& r : repairs.repairs) {
      if (code == r.rule->code) return &r;
    }
    return nullptr;
  }
};

TEST_F(Repairing, WhatChangesOutputsIsTakenBackAndToldUnlessAccepted) {
  const Runtime& runtime = *FindRuntime("ort-cpu");
  const Graph faulty = Faulty();
  const SampleOutputs before = Run(faulty);
  for (bool accept : {false, true}) {
    Graph graph = faulty;
    int runs = 0;
    const auto repairs = RepairPlacement(graph, runtime,
                                         {.run = [&](const Graph& g) -> Result<SampleOutputs> {
                                            ++runs;
                                            return Run(g);
                                          },
                                          .accept_changes = accept});
    ASSERT_TRUE(repairs) << repairs.error().message();
    const Repair* exact = Find(*repairs, "signed-activations");
    const Repair* lossy = Find(*repairs, "activation-apart");
    ASSERT_NE(exact, nullptr);
    ASSERT_NE(lossy, nullptr);
    EXPECT_TRUE(exact->made);
    ASSERT_TRUE(exact->change);
    EXPECT_TRUE(exact->change->exact());
    EXPECT_GT(exact->places, 0);
    EXPECT_EQ(lossy->made, accept);
    ASSERT_TRUE(lossy->change);
    EXPECT_FALSE(lossy->change->exact());
    EXPECT_GT(lossy->change->max_difference, 0.01);  // a step is 0.03
    EXPECT_EQ(lossy->places, 1);
    EXPECT_GE(runs, 3);
    // What is told of all repairs together is what comparing the files gives.
    const SampleOutputs after = Run(graph);
    double signal = 0, noise = 0, worst = 0;
    for (size_t s = 0; s < before.size(); ++s) {
      for (int64_t i = 0; i < before[s][2].elements(); ++i) {
        const double a = before[s][2].data<float>()[i], d = a - after[s][2].data<float>()[i];
        signal += a * a;
        noise += d * d;
        worst = std::max(worst, std::fabs(d));
      }
    }
    ASSERT_EQ(repairs->changes.size(), 3);
    for (int k : {0, 1}) EXPECT_EQ(repairs->changes[k].max_difference, 0);
    EXPECT_EQ(repairs->changes[2].max_difference, worst);
    EXPECT_EQ(lossy->change->output, graph.value(graph.outputs()[2]).name);
    if (accept) {
      EXPECT_NEAR(repairs->changes[2].snr_db, 10 * std::log10(signal / noise), 1e-9);
      EXPECT_GT(worst, 0);
      EXPECT_EQ(Examine(graph, runtime).repairable(), 0);
    } else {
      EXPECT_EQ(worst, 0) << "outputs stay, to the bit";
      EXPECT_EQ(Examine(graph, runtime).repairable(), 1);
    }
  }
}

TEST_F(Repairing, WithoutRunningAllIsRepairedAndNothingTold) {
  Graph graph = Faulty();
  const auto repairs = RepairPlacement(graph, *FindRuntime("ort-cpu"));
  ASSERT_TRUE(repairs);
  EXPECT_TRUE(repairs->changes.empty());
  for (const Repair& r : repairs->repairs) {
    EXPECT_TRUE(r.made);
    EXPECT_FALSE(r.change);
  }
  EXPECT_EQ(Examine(graph, *FindRuntime("ort-cpu")).repairable(), 0);
}

TEST_F(Repairing, ErrorsOfTheRunPassThrough) {
  Graph graph = Faulty();
  const auto repairs = RepairPlacement(
      graph, *FindRuntime("ort-cpu"),
      {.run = [](const Graph&) -> Result<SampleOutputs> { return InvalidInput("no data"); }});
  ASSERT_FALSE(repairs);
  EXPECT_EQ(repairs.error().message(), "no data");
}

}  // namespace
}  // namespace evoq
