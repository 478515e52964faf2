// A model for several threads: how many runs go on at once, whatever their shapes, and that errors
// leave nothing behind.
#include "engine/shared.h"

#include <gtest/gtest.h>

#include <thread>

#include "models/models.h"
#include "reference/test_graph.h"

namespace evoq {
namespace {

std::unique_ptr<SharedEngine> Shared(const std::string& text, int streams) {
  auto engine = EngineFromGraph(Parsed(text), {.threads = 1});
  EXPECT_TRUE(engine) << engine.error().message();
  return std::make_unique<SharedEngine>(std::move(*engine), streams);
}

// Long enough for the runs of several callers to meet.
constexpr char kProducts[] = R"(input %x: float32["N", 256]
const %w: float32[256, 256]
a: %a: float32["N", 256] = MatMul(%x, %w)
b: %b: float32["N", 256] = Add(%a, %x)
output %b
)";

Tensor Rows(int64_t rows, float value) {
  Tensor x = Tensor::Allocate(TensorType(DType::kFloat32, Shape{rows, 256}));
  std::fill_n(x.mutable_data<float>(), x.elements(), value);
  return x;
}

// Runs from `callers` threads, each with a shape of its own, until as many as `wanted` were seen to
// run at once, or each has run `rounds` times. Returns the most that ran at once.
int MostAtOnce(SharedEngine& shared, int callers, int wanted, int rounds) {
  std::atomic<int> most = 0, left = callers;
  std::vector<std::thread> threads;
  for (int c = 0; c < callers; ++c) {
    threads.emplace_back([&, c] {
      const Tensor x = Rows(200 + c, static_cast<float>(c + 1));
      for (int round = 0; round < rounds && most < wanted; ++round) {
        const auto outputs = shared.Run(std::span(&x, 1));
        ASSERT_TRUE(outputs) << outputs.error().message();
        EXPECT_TRUE(BitEqual((*outputs)[0], x));  // the weights are zeros
      }
      --left;
    });
  }
  while (left > 0) most = std::max(most.load(), shared.running());
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(shared.running(), 0);
  return most;
}

TEST(SharedEngine, OneStreamRunsOneShapeAtATime) {
  const auto shared = Shared(kProducts, 1);
  EXPECT_EQ(MostAtOnce(*shared, 3, 2, 200), 1);
}

TEST(SharedEngine, StreamsRunTogether) {
  const auto shared = Shared(kProducts, 2);
  EXPECT_EQ(shared->streams(), 2);
  EXPECT_EQ(MostAtOnce(*shared, 4, 2, 100000), 2);
  EXPECT_LE(MostAtOnce(*shared, 4, 3, 100), 2);
}

// More shapes than the engine keeps, from several threads.
TEST(SharedEngine, ShapesComeAndGo) {
  const auto shared = Shared(kProducts, 2);
  std::vector<std::thread> threads;
  for (int c = 0; c < 3; ++c) {
    threads.emplace_back([&, c] {
      for (int64_t k = 0; k < 3 * static_cast<int64_t>(Engine::kMaxExecutors); ++k) {
        const Tensor x = Rows(1 + (k + 7 * c) % (2 * static_cast<int64_t>(Engine::kMaxExecutors)),
                              static_cast<float>(k));
        const auto outputs = shared->Run(std::span(&x, 1));
        ASSERT_TRUE(outputs) << outputs.error().message();
        EXPECT_TRUE(BitEqual((*outputs)[0], x));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

// An index out of range is found while the step runs.
TEST(SharedEngine, AnErrorReleasesItsStream) {
  const auto shared = Shared(
      "input %x: float32[2]\ninput %i: int64[1, 1]\ng: %y: float32[1] = GatherND(%x, %i)\noutput "
      "%y\n",
      1);
  const Tensor x = Tensor::FromValues<float>(Shape{2}, {1, 2});
  const auto run = [&](int64_t index) {
    return shared->Run({{x, Tensor::FromValues<int64_t>(Shape{1, 1}, {index})}});
  };
  EXPECT_EQ(shared->in_regions(), "");
  for (int i = 0; i < 3; ++i) {
    EXPECT_FALSE(run(5));
    EXPECT_EQ(shared->running(), 0);
    const auto good = run(1);
    ASSERT_TRUE(good) << good.error().message();
    EXPECT_EQ((*good)[0].data<float>()[0], 2);
  }
  EXPECT_FALSE(shared->Run({}));  // before it has a stream
  EXPECT_TRUE(run(0));
}

TEST(SharedEngine, RegionsHaveOneStream) {
  const auto shared =
      Shared("input %x: float32[3]\nnz: %y = NonZero(%x)\noutput %y\noutput %x\n", 4);
  const Tensor x = Tensor::FromValues<float>(Shape{3}, {0, 2, 3});
  std::vector<std::thread> threads;
  for (int c = 0; c < 3; ++c) {
    threads.emplace_back([&] {
      for (int i = 0; i < 100; ++i) {
        const auto outputs = shared->Run(std::span(&x, 1));
        ASSERT_TRUE(outputs) << outputs.error().message();
        EXPECT_TRUE(BitEqual((*outputs)[0], Tensor::FromValues<int64_t>(Shape{1, 2}, {1, 2})));
        EXPECT_TRUE(BitEqual((*outputs)[1], x));
        EXPECT_NE((*outputs)[1].raw(), x.raw());
        EXPECT_LE(shared->running(), 1);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_NE(shared->in_regions(), "");
}

}  // namespace
}  // namespace evoq
