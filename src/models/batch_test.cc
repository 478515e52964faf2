// Batches that run sample by sample give what a run of each sample gives.
#include <gtest/gtest.h>

#include <chrono>
#include <cstring>
#include <numeric>
#include <random>

#include "models/models.h"
#include "reference/reference.h"

namespace evoq {
namespace {

// Activations of a few samples exceed a core's cache; a free batch.
Graph Net() {
  auto graph = ParseGraph(R"(graph net
input %x: float32["N", 3, 64, 64]
const %w0: float32[32, 3, 3, 3]
stem: %a: float32["N", 32, 64, 64] = Conv{activation="Relu", pads=[1, 1, 1, 1]}(%x, %w0)
const %w1: float32[32, 1, 3, 3]
depth: %b: float32["N", 32, 64, 64] = Conv{group=32, pads=[1, 1, 1, 1]}(%a, %w1)
add: %c: float32["N", 32, 64, 64] = Add(%a, %b)
pool: %d: float32["N", 32, 1, 1] = GlobalAveragePool(%c)
flat: %e: float32["N", 32] = Flatten(%d)
const %w2: float32[32, 10]
head: %f: float32["N", 10] = MatMul(%e, %w2)
soft: %y: float32["N", 10] = Softmax{axis=-1}(%f)
output %y
output %c
)");
  EXPECT_TRUE(graph) << graph.error().message();
  std::mt19937 random(3);
  std::normal_distribution<float> normal(0, 0.3f);
  for (int i = 0; i < graph->value_count(); ++i) {
    const Value& value = graph->value(ValueId{i});
    if (!value.is_constant()) continue;
    Tensor t = Tensor::Allocate(value.type);
    for (int64_t k = 0; k < t.elements(); ++k) t.mutable_data<float>()[k] = normal(random);
    graph->SetConstant(ValueId{i}, t);
  }
  EXPECT_TRUE(InferTypes(*graph));
  return std::move(*graph);
}

Tensor Input(int64_t samples) {
  Tensor x = Tensor::Allocate(TensorType(DType::kFloat32, Shape{samples, 3, 64, 64}));
  std::mt19937 random(5);
  for (int64_t i = 0; i < x.elements(); ++i)
    x.mutable_data<float>()[i] = static_cast<float>(random() % 2000) / 1000 - 1;
  return x;
}

TEST(BatchEngine, SamplesEqualSingleRuns) {
  for (int threads : {1, 2, 3}) {
    for (int64_t samples : {2, 3, 12}) {
      auto engine = EngineFromGraph(Net(), {threads, {}});
      ASSERT_TRUE(engine) << engine.error().message();
      const Tensor x = Input(samples);
      auto batch = (*engine)->Run(std::span(&x, 1));
      ASSERT_TRUE(batch) << batch.error().message();
      auto executor = (*engine)->At({{"x", {samples, 3, 64, 64}}});
      ASSERT_TRUE(executor);
      const bool split = samples % threads == 0 || samples >= 4 * threads;
      EXPECT_EQ((*executor)->repeats(), split ? samples : 1)
          << threads << " threads, " << samples << " samples";
      EXPECT_EQ((*executor)->input_types()[0].shape[0].value, samples);
      std::vector<int64_t> ns((*executor)->program().steps.size(), -1);
      auto timed = *batch;
      ASSERT_TRUE((*executor)->RunTimed(std::span(&x, 1), timed, ns));
      for (int64_t t : ns) EXPECT_GE(t, 0);
      for (int64_t n = 0; n < samples; ++n) {
        Tensor one = Tensor::Allocate(TensorType(DType::kFloat32, Shape{1, 3, 64, 64}));
        std::memcpy(one.mutable_raw(), x.raw() + n * one.bytes(), one.bytes());
        auto single = (*engine)->Run(std::span(&one, 1));
        ASSERT_TRUE(single) << single.error().message();
        for (size_t i = 0; i < single->size(); ++i) {
          const Tensor& y = (*single)[i];
          if (split) {
            EXPECT_EQ(std::memcmp((*batch)[i].raw() + n * y.bytes(), y.raw(), y.bytes()), 0)
                << "sample " << n;
          }
          EXPECT_EQ(std::memcmp((*batch)[i].raw(), timed[i].raw(), timed[i].bytes()), 0);
        }
      }
    }
  }
}

// Where threads take whole samples, a step's time is the mean over threads: together the steps take
// no longer than the run, in each run anew. (Their sum over two threads takes nearly twice as long
// as a run.)
TEST(BatchEngine, TimesOfStepsFitTheirRun) {
  using Clock = std::chrono::steady_clock;
  constexpr int64_t kSamples = 8;
  auto engine = EngineFromGraph(Net(), {2, {}});
  ASSERT_TRUE(engine);
  auto executor = (*engine)->At({{"x", {kSamples, 3, 64, 64}}});
  ASSERT_TRUE(executor);
  ASSERT_EQ((*executor)->repeats(), kSamples);
  const Tensor x = Input(kSamples);
  std::vector<Tensor> y;
  for (const TensorType& type : (*executor)->output_types()) y.push_back(Tensor::Allocate(type));
  for (int run = 0; run < 30; ++run) {
    std::vector<int64_t> ns((*executor)->program().steps.size(), -1);
    const auto start = Clock::now();
    ASSERT_TRUE((*executor)->RunTimed(std::span(&x, 1), y, ns));
    const auto wall =
        std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - start).count();
    const int64_t sum = std::accumulate(ns.begin(), ns.end(), int64_t{0});
    EXPECT_LE(sum, wall);
    EXPECT_GT(sum, 0);
  }
}

}  // namespace
}  // namespace evoq
