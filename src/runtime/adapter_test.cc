#include "runtime/adapter.h"

#include <gtest/gtest.h>

namespace evoq {
namespace {

// A model with a value of scale 1 under the set "mid", 4 under "wide" and 0.25 under "fine".
Model ThreeSets() {
  auto graph = ParseGraph(R"(input %x: float32[1, 4]
q: %q: uint8[1, 4](scale 1, zero 0) = QuantizeLinear(%x)
d: %y: float32[1, 4] = DequantizeLinear(%q)
output %y)");
  EXPECT_TRUE(graph) << graph.error().message();
  Model model;
  model.graph = std::move(*graph);
  const auto change = [](float scale) {
    return ScaleChange{
        "q", std::make_shared<const QuantParams>(QuantParams::PerTensor(scale, 0)), {}};
  };
  model.sets = {{"mid", 1, {}}, {"wide", 1, {change(4)}}, {"fine", 1, {change(0.25f)}}};
  return model;
}

// One run of 1000 elements, of which so many lie outside of each set: mid, wide, fine.
size_t Frame(Adapter& adapter, std::vector<uint32_t> outside, int every = 1) {
  const size_t tensor = adapter.Register("q");
  const Adapter::Turn turn = adapter.Begin(every);
  const Adapter::Count count{tensor, 1000, outside};
  if (turn.look) adapter.End(std::span(&count, 1));
  return turn.set;
}

constexpr size_t kMid = 0, kWide = 1, kFine = 2;
const std::vector<uint32_t> kQuiet = {0, 0, 0}, kMedium = {0, 0, 300}, kLoud = {300, 0, 300};

TEST(Adapter, BeginsWithTheWidestSet) {
  Adapter adapter(ThreeSets(), {});
  EXPECT_EQ(adapter.state().active, kWide);
  EXPECT_EQ(adapter.state().sets, (std::vector<std::string>{"mid", "wide", "fine"}));
}

TEST(Adapter, TakesAFinerSetOnlyWhenItFittedOftenInARow) {
  Adapter adapter(ThreeSets(), {.narrow_after = 3});
  EXPECT_EQ(Frame(adapter, kMedium), kWide);
  EXPECT_EQ(Frame(adapter, kMedium), kWide);
  EXPECT_EQ(Frame(adapter, kLoud), kWide);  // interrupts
  EXPECT_EQ(Frame(adapter, kMedium), kWide);
  EXPECT_EQ(Frame(adapter, kMedium), kWide);
  EXPECT_EQ(Frame(adapter, kMedium), kWide);
  EXPECT_EQ(Frame(adapter, kMedium), kMid);
  EXPECT_EQ(adapter.state().switches, 1);
  EXPECT_EQ(adapter.state().runs_by_set, (std::vector<int64_t>{1, 6, 0}));
}

TEST(Adapter, TakesTheFinestSetThatFits) {
  Adapter adapter(ThreeSets(), {.narrow_after = 1});
  EXPECT_EQ(Frame(adapter, kQuiet), kWide);
  EXPECT_EQ(Frame(adapter, kQuiet), kFine);
  EXPECT_EQ(Frame(adapter, kQuiet), kFine);
}

// Of wider sets nothing is known: one after the other is tried.
TEST(Adapter, WidensUntilASetFits) {
  Adapter adapter(ThreeSets(), {.narrow_after = 1});
  Frame(adapter, kQuiet);
  EXPECT_EQ(Frame(adapter, {0, 0, 400}), kFine);
  EXPECT_EQ(Frame(adapter, kLoud), kMid);
  EXPECT_EQ(Frame(adapter, kLoud), kWide);
  // Nothing is wider than the widest, though it cuts off.
  EXPECT_EQ(Frame(adapter, {400, 200, 500}), kWide);
  EXPECT_EQ(Frame(adapter, {400, 200, 500}), kWide);
  EXPECT_EQ(adapter.state().clip_rate, 0.2);
}

TEST(Adapter, WaitsBeforeItWidens) {
  Adapter adapter(ThreeSets(), {.widen_after = 2, .narrow_after = 1});
  Frame(adapter, kMedium);
  EXPECT_EQ(Frame(adapter, kMedium), kMid);
  EXPECT_EQ(Frame(adapter, kLoud), kMid);
  EXPECT_EQ(Frame(adapter, kMedium), kMid);  // the one loud run was an outlier
  EXPECT_EQ(Frame(adapter, kLoud), kMid);
  EXPECT_EQ(Frame(adapter, kLoud), kMid);
  EXPECT_EQ(Frame(adapter, kLoud), kWide);
}

// A finer set has to fit by half of the limit; the set in use may stay up to all of it. Between the
// two nothing changes.
TEST(Adapter, KeepsItsSetBetweenTheTwoLimits) {
  const AdaptiveOptions options{.clip_limit = 0.01, .narrow_after = 1};
  Adapter adapter(ThreeSets(), options);
  EXPECT_EQ(Frame(adapter, {8, 0, 900}), kWide);
  EXPECT_EQ(Frame(adapter, {4, 0, 900}), kWide);
  EXPECT_EQ(Frame(adapter, {8, 0, 900}), kMid);
  EXPECT_EQ(Frame(adapter, {11, 0, 900}), kMid);
  EXPECT_EQ(Frame(adapter, {8, 0, 900}), kWide);
}

// Levels that change from run to run make one switch at most in narrow_after + 1 looks.
TEST(Adapter, DoesNotFlipFromRunToRun) {
  Adapter adapter(ThreeSets(), {});
  for (int i = 0; i < 100; ++i) Frame(adapter, i % 2 ? kLoud : kQuiet);
  EXPECT_EQ(adapter.state().switches, 0);
}

TEST(Adapter, LooksEverySoManyRuns) {
  Adapter adapter(ThreeSets(), {.narrow_after = 1});
  for (int i = 0; i < 10; ++i) Frame(adapter, kMedium, 4);
  EXPECT_EQ(adapter.state().looks, 3);
  EXPECT_EQ(adapter.state().runs, 10);
  Adapter asked(ThreeSets(), {.every = 5});
  for (int i = 0; i < 10; ++i) Frame(asked, kMedium, 4);
  EXPECT_EQ(asked.state().looks, 2);
}

TEST(Adapter, CountsClippedElementsOfTheSetInUse) {
  Adapter adapter(ThreeSets(), {});
  Frame(adapter, {1, 2, 3});
  Frame(adapter, {1, 4, 3});
  ASSERT_EQ(adapter.state().tensors.size(), 1u);
  EXPECT_EQ(adapter.state().tensors[0].seen, 2000);
  EXPECT_EQ(adapter.state().tensors[0].clipped, 6);
  EXPECT_EQ(adapter.state().tensors[0].rate(), 0.003);
}

TEST(Adapter, PinnedSetsStay) {
  Adapter adapter(ThreeSets(), {.narrow_after = 1, .pinned = "mid"});
  for (int i = 0; i < 5; ++i) EXPECT_EQ(Frame(adapter, kLoud), kMid);
  EXPECT_EQ(adapter.state().switches, 0);
  adapter.Pin("fine");
  EXPECT_EQ(Frame(adapter, kLoud), kFine);
  EXPECT_EQ(adapter.state().switches, 1);
  adapter.Pin("");
  Frame(adapter, kLoud);
  EXPECT_NE(adapter.state().active, kFine);
}

TEST(Adapter, AFreshOneKnowsNothing) {
  Adapter adapter(ThreeSets(), {.narrow_after = 1});
  Frame(adapter, kQuiet);
  const auto fresh = adapter.Fresh();
  EXPECT_EQ(fresh->state().runs, 0);
  EXPECT_EQ(fresh->state().active, kWide);
  EXPECT_TRUE(fresh->state().tensors.empty());
  EXPECT_EQ(adapter.state().runs, 1);
}

TEST(Adapter, RefusesWhatDoesNotFit) {
  const Model model = ThreeSets();
  const auto why = [&](const AdaptiveOptions& options) {
    const Status status = CheckAdaptive(options, model);
    return status ? "" : status.error().message();
  };
  EXPECT_EQ(why({}), "");
  EXPECT_EQ(why({.clip_limit = 1}), "a clip limit of 1, expected 0 to 1");
  EXPECT_EQ(why({.widen_after = 0}), "a switch after 0 and 8 looks, expected 1 or more");
  EXPECT_EQ(why({.every = -1}), "a look every -1 runs, expected 0 or more");
  EXPECT_EQ(why({.pinned = "night"}), "it has no scale set night: mid, wide, fine");
  EXPECT_EQ(CheckAdaptive({}, Model{.graph = model.graph}).error().message(),
            "it has one set of scales: `evoq quantize --scale-sets K` makes more");
}

}  // namespace
}  // namespace evoq
