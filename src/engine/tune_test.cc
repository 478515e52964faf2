#include "engine/tune.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "base/file.h"
#include "compile/compile.h"
#include "engine/engine.h"
#include "engine/tuning_cache.h"

namespace evoq {
namespace {

class TuneTest : public ::testing::Test {
 protected:
  void SetUp() override {
    dir_ = std::filesystem::temp_directory_path() / fmt::format("evoq_tune_{}", ::getpid());
    cache_ = (dir_ / "deep" / "tuning.json").string();
  }
  void TearDown() override { std::filesystem::remove_all(dir_); }

  static Model Convolutions() {
    return LowerAndPack(ParseGraph(R"(
input %x: float32[1, 16, 20, 20]
const %w: float32[64, 16, 3, 3]
const %v: float32[64, 64, 1, 1]
a: %a: float32[1, 64, 18, 18] = Conv{kernel_shape=[3, 3]}(%x, %w)
b: %b: float32[1, 64, 18, 18] = Conv{kernel_shape=[1, 1]}(%a, %v)
output %b
)").value()).value();
  }
  TuneOptions Options() const {
    TuneOptions options;
    options.threads = 2;
    options.isa = SelectIsa().value();
    options.cache_path = cache_;
    options.seconds = 0.01;
    return options;
  }

  std::filesystem::path dir_;
  std::string cache_;
};

TEST_F(TuneTest, CacheKeepsWhatWasPut) {
  ASSERT_TRUE(TuningCache::Open(cache_)) << "no file is an empty cache";
  TuningCache first, second;
  first.Put("a", {"7x64", 1, {{"conv default", kSlowerWhenMeasured, "3 us"}}});
  second.Put("b", {"", 0, {}});
  ASSERT_TRUE(first.Save(cache_));
  ASSERT_TRUE(second.Save(cache_)) << "beside what another process wrote";
  const TuningCache both = TuningCache::Open(cache_).value();
  ASSERT_NE(both.Find("a"), nullptr);
  EXPECT_EQ(both.Find("a")->variant, "7x64");
  EXPECT_EQ(both.Find("a")->threads, 1);
  EXPECT_EQ(both.Find("a")->slower.at(0).why, "3 us");
  EXPECT_NE(both.Find("b"), nullptr);
  EXPECT_EQ(both.Find("c"), nullptr);
}

TEST_F(TuneTest, DamagedCachesAreRefusedAndReplaced) {
  std::filesystem::create_directories(std::filesystem::path(cache_).parent_path());
  for (const char* text : {"", "{", "[]", "{\"version\": 1}", "{\"version\": 1, \"entries\": []}", "{\"version\": 1, \"entries\": {\"a\": 3}}",
                           "{\"version\": 1, \"entries\": {\"a\": {\"variant\": 1, \"threads\": 0, \"slower\": []}}}",
                           "{\"version\": 1, \"entries\": {\"a\": {\"variant\": \"\", \"threads\": 0, \"slower\": [[1]]}}}"}) {
    ASSERT_TRUE(WriteFileAtomic(cache_, text));
    EXPECT_FALSE(TuningCache::Open(cache_)) << text;
  }
  Model model = Convolutions();
  const auto report = TuneModel(model, Options());
  ASSERT_TRUE(report) << report.error().message();
  ASSERT_EQ(report->warnings.size(), 1u);
  EXPECT_NE(report->warnings[0].find(cache_), std::string::npos);
  EXPECT_TRUE(TuningCache::Open(cache_));
}

TEST_F(TuneTest, ChoicesAreMeasuredOnceStoredAndFollowed) {
  Model model = Convolutions();
  const auto report = TuneModel(model, Options());
  ASSERT_TRUE(report) << report.error().message();
  EXPECT_GE(report->steps, 2);
  EXPECT_GE(report->measured, 2);
  EXPECT_GT(report->default_ms, 0);
  ASSERT_EQ(model.plans.size(), 1u);
  ASSERT_EQ(model.plans[0].tunings.size(), 1u);
  const Tuning& tuning = model.plans[0].tunings[0];
  EXPECT_EQ(tuning.threads, 2);
  const std::string machine = MachineName(Options().isa);
  EXPECT_EQ(tuning.machine, machine);
  // Of each convolution: what lost and why, in the program of this machine and number of threads only.
  const Program followed = Compile(model, {}, {machine, 2}).value(), other = Compile(model, {}, {machine, 1}).value();
  for (size_t s = 0; s < followed.steps.size(); ++s) {
    if (followed.steps[s].decision.kernel != "conv_f32") continue;
    const auto slower = [](const Step& step) {
      const auto& rejected = step.decision.rejected;
      return std::count_if(rejected.begin(), rejected.end(), [](const auto& r) { return r.code == kSlowerWhenMeasured; });
    };
    EXPECT_GT(slower(followed.steps[s]), 0);
    EXPECT_EQ(slower(other.steps[s]), 0);
    EXPECT_EQ(other.steps[s].tuning.variant, "");
  }
  // The second time, for a fresh model, nothing is measured and the choices are the same.
  Model again = Convolutions();
  const auto cached = TuneModel(again, Options());
  ASSERT_TRUE(cached);
  EXPECT_EQ(cached->measured, 0);
  ASSERT_EQ(again.plans[0].tunings.size(), 1u);
  for (const auto& [node, step] : tuning.steps) EXPECT_EQ(again.plans[0].tunings[0].steps.at(node).variant, step.variant);
  // Tuning again replaces.
  ASSERT_TRUE(TuneModel(again, Options()));
  EXPECT_EQ(again.plans[0].tunings.size(), 1u);
}

// What was measured with two threads says nothing of one: it is measured anew, kept beside it, and
// each is followed where it was measured only.
TEST_F(TuneTest, NumbersOfThreadsAreKeptApart) {
  Model model = Convolutions();
  TuneOptions options = Options();
  const auto two = TuneModel(model, options);
  ASSERT_TRUE(two);
  options.threads = 1;
  const auto one = TuneModel(model, options);
  ASSERT_TRUE(one);
  EXPECT_GT(one->measured, 0) << "taken from the cache of two threads";
  ASSERT_EQ(model.plans.size(), 1u);
  ASSERT_EQ(model.plans[0].tunings.size(), 2u);
  EXPECT_EQ(model.plans[0].tunings[0].threads, 2);
  EXPECT_EQ(model.plans[0].tunings[1].threads, 1);
  for (const auto& [node, step] : model.plans[0].tunings[1].steps)
    EXPECT_EQ(step.threads, 0) << node << ": one thread is all";
  for (const int threads : {1, 2}) {
    Model again = Convolutions();
    options.threads = threads;
    const auto cached = TuneModel(again, options);
    ASSERT_TRUE(cached);
    EXPECT_EQ(cached->measured, 0) << threads;
    const Tuning& known = model.plans[0].tunings[threads == 2 ? 0 : 1];
    ASSERT_EQ(again.plans[0].tunings.size(), 1u);
    EXPECT_EQ(again.plans[0].tunings[0].threads, threads);
    for (const auto& [node, step] : known.steps) {
      EXPECT_EQ(again.plans[0].tunings[0].steps.at(node).variant, step.variant) << node;
      EXPECT_EQ(again.plans[0].tunings[0].steps.at(node).threads, step.threads) << node;
    }
  }
  // And by the machine.
  options.isa = Isa::kScalar;
  Model elsewhere = Convolutions();
  const auto scalar = TuneModel(elsewhere, options);
  ASSERT_TRUE(scalar);
  if (Options().isa != Isa::kScalar && scalar->steps > 0) EXPECT_GT(scalar->measured, 0);
}

}  // namespace
}  // namespace evoq
