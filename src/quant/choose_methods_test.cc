// Trials of methods: what is reported is what a quantization gives on samples that it has not seen.
#include "quant/choose_methods.h"

#include <gtest/gtest.h>

#include <cmath>

#include "quant/test_net.h"

namespace evoq {
namespace {

constexpr char kNet[] = R"(graph net
input %x: float32[1, 12, 32]
const %scale: float32[32]
norm: %n: float32[1, 12, 32] = RMSNormalization{axis=-1}(%x, %scale)
const %w1: float32[32, 24]
one: %a: float32[1, 12, 24] = MatMul{activation="Relu"}(%n, %w1)
const %w2: float32[24, 16]
two: %b: float32[1, 12, 16] = MatMul(%a, %w2)
output %b
)";

SamplesFn Numbered(const Graph& net, const std::vector<int>& seeds) {
  return [&net, seeds](const std::function<Status(std::span<const Tensor>)>& use) -> Status {
    for (int seed : seeds) {
      const Tensor input = RandomInput(net, seed);
      EVOQ_TRY(use(std::span(&input, 1)));
    }
    return {};
  };
}

// A clock that goes on by a second whenever it is asked.
MethodSearchOptions Ticking(double limit_s) {
  auto now = std::make_shared<double>(0);
  return {.limit_s = limit_s, .seconds = [now] { return (*now)++; }};
}

Result<MethodSearch> Choose(const Graph& net, const char* scheme, const std::vector<int>& seeds,
                            const MethodSearchOptions& search) {
  const MethodData data{Reference(), Numbered(net, seeds)};
  Ranges ranges;
  if (FindScheme(scheme)->needs_calibration) {
    EVOQ_ASSIGN(ranges, Calibrate(net, data.prepare, data.samples, {}));
  }
  return ChooseMethods(*FindScheme(scheme), net, ranges, {}, data, search);
}

TEST(ChooseMethods, TakesWhatPaysOnSamplesThatItHasNotSeen) {
  const Graph net = MakeNet(kNet);
  for (const char* scheme : {"int4-weights", "int8"}) {
    const auto found = Choose(net, scheme, {0, 1, 2, 3, 4, 5, 6, 7}, Ticking(1e9));
    ASSERT_TRUE(found) << found.error().message();
    EXPECT_EQ(found->observed, 6);
    EXPECT_EQ(found->judged, 2);
    EXPECT_FALSE(found->out_of_time);
    ASSERT_GT(found->tried.size(), 5u);
    EXPECT_EQ(found->tried[0].names, "none");
    const MethodData data{Reference(), Numbered(net, {0, 1, 2, 4, 5, 6})};
    Ranges ranges;
    if (FindScheme(scheme)->needs_calibration)
      ranges = *Calibrate(net, data.prepare, data.samples, {});
    double best = -INFINITY;
    for (const TriedMethods& tried : found->tried) {
      EXPECT_GT(tried.seconds, 0);
      if (!tried.why_not.empty()) continue;
      Graph graph = net;
      ASSERT_TRUE(
          QuantizeBy(*FindScheme(scheme), *ParseMethods(tried.names), graph, ranges, {}, data));
      double signal = 0, noise = 0;
      for (const int seed : {3, 7}) {
        const Tensor input = RandomInput(net, seed);
        const auto x = EvaluateGraph(net, std::span(&input, 1)),
                   y = EvaluateGraph(graph, std::span(&input, 1));
        for (int64_t k = 0; k < (*x)[0].elements(); ++k) {
          const double a = (*x)[0].data<float>()[k], b = (*y)[0].data<float>()[k];
          signal += a * a;
          noise += (a - b) * (a - b);
        }
      }
      EXPECT_NEAR(tried.sqnr_db, 10 * std::log10(signal / noise), 1e-6) << tried.names;
      EXPECT_EQ(tried.taken, tried.sqnr_db >= best + 0.1) << tried.names;
      if (tried.taken) best = tried.sqnr_db;
    }
    EXPECT_GT(best, found->tried[0].sqnr_db + 0.5) << scheme;
    const auto last = std::ranges::find_if(found->tried, [&](const TriedMethods& tried) {
      return tried.names == NamesOf(found->chosen);
    });
    ASSERT_NE(last, found->tried.end());
    EXPECT_EQ(last->sqnr_db, best);
  }
}

TEST(ChooseMethods, StopsAtTheLimit) {
  const Graph net = MakeNet(kNet);
  const auto found = Choose(net, "int4-weights", {0, 1, 2, 3}, Ticking(0));
  ASSERT_TRUE(found);
  EXPECT_EQ(found->tried.size(), 1u);
  EXPECT_TRUE(found->out_of_time);
  EXPECT_EQ(NamesOf(found->chosen), "none");
}

// What does not reach is told, and nothing breaks.
TEST(ChooseMethods, WhatFailsIsTold) {
  std::string text = kNet;
  text += "output %n\n";
  const Graph net = MakeNet(text);
  const auto found = Choose(net, "int4-weights", {0, 1, 2, 3}, Ticking(1e9));
  ASSERT_TRUE(found);
  int told = 0;
  for (const TriedMethods& tried : found->tried)
    told += tried.why_not.starts_with("hadamard: it does not reach the values of this model: ");
  EXPECT_EQ(told, 1);
}

TEST(ChooseMethods, BadData) {
  const Graph net = MakeNet(kNet);
  const auto few = Choose(net, "int4-weights", {0, 1, 2}, Ticking(1e9));
  ASSERT_FALSE(few);
  EXPECT_EQ(few.error().message(),
            "--method auto judges by every 4th sample and was given 3: it needs 4 or more");
  const auto none = ChooseMethods(*FindScheme("int4-weights"), net, {}, {}, {}, Ticking(1e9));
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().message(), "--method auto needs samples to judge by");
  MethodSearchOptions stopped = Ticking(1e9);
  stopped.before = [](const std::string& names) {
    return Fail(ErrorCode::kConditionFailed, "stopped before {}", names);
  };
  const auto found = Choose(net, "int4-weights", {0, 1, 2, 3}, stopped);
  ASSERT_FALSE(found);
  EXPECT_EQ(found.error().message(), "stopped before none");
}

}  // namespace
}  // namespace evoq
