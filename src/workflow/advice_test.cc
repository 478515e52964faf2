// Each rule of advice: a deployment that has the trouble, and one that has not.
#include "workflow/advice.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "graph/run_choices.h"
#include "models/models.h"
#include "reference/test_graph.h"
#include "report/html.h"

namespace evoq {
namespace {

// Four values of 1 MB, of which two are alive at a time.
constexpr char kChain[] = R"(input %x: float32[262144]
a: %a: float32[262144] = Neg(%x)
b: %b: float32[262144] = Cos(%a)
c: %c: float32[262144] = Sin(%b)
d: %y: float32[262144] = Abs(%c)
output %y
)";

class AdviceTest : public ::testing::Test {
 protected:
  void Use(Graph graph) {
    auto model = LowerAndPack(std::move(graph));
    ASSERT_TRUE(model) << model.error().message();
    model_ = std::move(*model);
    auto engine = Engine::Of({model_, ""}, {.threads = 1}, AllParts());
    ASSERT_TRUE(engine) << engine.error().message();
    engine_ = std::move(*engine);
    executor_ = *engine_->Default();
    deployed_ = {.model = &model_, .executor = executor_.get()};
  }
  // The codes of what is said, in order: "a b".
  std::string Said() {
    std::string codes;
    for (const Advice& advice : Advise(deployed_)) {
      codes += (codes.empty() ? "" : " ") + advice.code;
      said_ = advice.sentence;
      EXPECT_NE(advice.fix, "");
    }
    return codes;
  }

  Model model_;
  std::unique_ptr<Engine> engine_;
  std::shared_ptr<Executor> executor_;
  Deployed deployed_;
  std::string said_;
};

TEST_F(AdviceTest, ASoundDeploymentNeedsNone) {
  Use(Parsed(kChain));
  EXPECT_EQ(Said(), "");
  deployed_.sqnr_db = 120;
  deployed_.baseline_arena = 4e6;
  deployed_.streams = 2;
  deployed_.streams_speedup = 1.9;
  EXPECT_EQ(Said(), "");
}

TEST_F(AdviceTest, AccuracyFalls) {
  Graph graph = Parsed(kChain);
  graph.metadata[kPrecisionChoice] = "bf16 Conv";
  Use(std::move(graph));
  deployed_.sqnr_db = 41.26;
  EXPECT_EQ(Said(), "accuracy-falls");
  EXPECT_EQ(said_,
            "an output is 41.3 dB from the original model's; the model asks for 'bf16 Conv'");
}

TEST_F(AdviceTest, MemoryIsNotReused) {
  Graph graph = Parsed(kChain);
  graph.metadata[kMemoryReuseChoice] = "off";
  Use(std::move(graph));
  EXPECT_EQ(Said(), "memory-stays");
  EXPECT_EQ(said_.substr(0, said_.find(':')), "memory reuse is off");
}

TEST_F(AdviceTest, OneStepNeedsTheMemory) {
  Use(Parsed(R"(input %x: float32[262144]
a: %a: float32[262144] = Neg(%x)
b: %b: float32[1048576] = Concat{axis=0}(%a, %a, %a, %a)
c: %y: float32[1] = ReduceMax{keepdims=1}(%b)
output %y
)"));
  const auto arena = static_cast<double>(executor_->arena_bytes());
  deployed_.baseline_arena = arena;
  EXPECT_EQ(Said(), "memory-stays");
  const std::vector<int64_t> live = LiveBytes(executor_->program());
  EXPECT_LT(live[0], std::ranges::max(live));
  EXPECT_NE(
      said_.find(fmt::format("step b (Concat) needs {:.2f} MB at once, its inputs and outputs",
                             static_cast<double>(std::ranges::max(live)) / 1e6)),
      std::string::npos)
      << said_;
  deployed_.baseline_arena = 2 * arena;
  EXPECT_EQ(Said(), "");
}

TEST_F(AdviceTest, StreamsGainLittle) {
  Use(Parsed(kChain));
  deployed_.streams = 300;
  deployed_.streams_speedup = 1.1;
  EXPECT_EQ(Said(), "streams-gain-little");
  EXPECT_EQ(said_, fmt::format("300 streams do 1.10 times what one does in a second; there are {} "
                               "cores",
                               PhysicalCores()));
  deployed_.streams = 1;
  EXPECT_EQ(Said(), "");
}

TEST_F(AdviceTest, AShapeWasNotPrepared) {
  Use(Parsed(kChain));
  deployed_.prepare_ms = 12.34;
  EXPECT_EQ(Said(), "");
  model_.plans[0].shapes["x"] = {7};
  EXPECT_EQ(Said(), "shape-not-prepared");
  EXPECT_EQ(said_,
            "the first run at these sizes waited 12.3 ms for a plan; the file has 1 for other "
            "sizes");
}

TEST_F(AdviceTest, MeasuredElsewhere) {
  Use(Parsed(kChain));
  model_.plans[0].tunings.push_back({.machine = "another processor"});
  EXPECT_EQ(Said(), "other-processor");
  EXPECT_EQ(said_.find("what was measured for this file was measured on another processor"), 0);
  model_.plans[0].tunings.push_back({.machine = MachineName(*SelectIsa())});
  EXPECT_EQ(Said(), "");
}

TEST(AdviceRules, HaveDifferentCodes) {
  std::set<std::string> codes;
  for (const AdviceRule* rule : AllAdviceRules()) {
    EXPECT_TRUE(codes.insert(rule->code).second) << rule->code;
    EXPECT_NE(std::string(rule->symptom), "");
  }
  EXPECT_EQ(codes.size(), 5);
}

}  // namespace
}  // namespace evoq
