#include "engine/tune.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "base/file.h"
#include "compile/compile.h"
#include "engine/tuning_cache.h"
#include "models/models.h"
#include "reference/reference.h"

namespace evoq {
namespace {

using std::string_literals::operator""s;

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
)")
                            .value())
        .value();
  }
  TuneOptions Options() const {
    TuneOptions options;
    options.evaluator = &kReference;
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
  first.Put("a", {"7x64", 1, {{"conv default", {kSlowerWhenMeasured, "3 us"}}}});
  second.Put("b", {"", 0, {}});
  ASSERT_TRUE(first.Save(cache_));
  ASSERT_TRUE(second.Save(cache_)) << "beside what another process wrote";
  const TuningCache both = TuningCache::Open(cache_).value();
  ASSERT_NE(both.Find("a"), nullptr);
  EXPECT_EQ(both.Find("a")->variant, "7x64");
  EXPECT_EQ(both.Find("a")->threads, 1);
  EXPECT_EQ(both.Find("a")->slower.at(0).reason.sentence, "3 us");
  EXPECT_NE(both.Find("b"), nullptr);
  EXPECT_EQ(both.Find("c"), nullptr);
}

TEST_F(TuneTest, DamagedCachesAreRefusedAndReplaced) {
  std::filesystem::create_directories(std::filesystem::path(cache_).parent_path());
  for (const char* text :
       {"", "{", "[]", "{\"version\": 1}", "{\"version\": 1, \"entries\": []}",
        "{\"version\": 1, \"entries\": {\"a\": 3}}",
        "{\"version\": 1, \"entries\": {\"a\": {\"variant\": 1, \"threads\": 0, \"slower\": []}}}",
        "{\"version\": 1, \"entries\": {\"a\": {\"variant\": \"\", \"threads\": 0, \"slower\": "
        "[[1]]}}}"}) {
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
  // Of each convolution: what lost and why, in the program of this machine and number of threads
  // only.
  const Program followed = Compile(model, kReference, {}, {machine, 2}).value(),
                other = Compile(model, kReference, {}, {machine, 1}).value();
  for (size_t s = 0; s < followed.steps.size(); ++s) {
    if (followed.steps[s].decision.kernel != "conv_f32") continue;
    const auto slower = [](const Step& step) {
      const auto& rejected = step.decision.rejected;
      return std::count_if(rejected.begin(), rejected.end(),
                           [](const auto& r) { return r.reason.code == kSlowerWhenMeasured; });
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
  for (const auto& [node, step] : tuning.steps)
    EXPECT_EQ(again.plans[0].tunings[0].steps.at(node).variant, step.variant);
  // Tuning again replaces.
  ASSERT_TRUE(TuneModel(again, Options()));
  EXPECT_EQ(again.plans[0].tunings.size(), 1u);
}

TEST_F(TuneTest, StopsBetweenRounds) {
  Model model = Convolutions();
  TuneOptions options = Options();
  options.seconds = 1e6;
  std::vector<double> heard;
  options.progress = [&](double fraction) -> Status {
    heard.push_back(fraction);
    if (heard.size() < 3) return {};
    return Fail(ErrorCode::kConditionFailed, "enough");
  };
  const auto stopped = TuneModel(model, options);
  ASSERT_FALSE(stopped);
  EXPECT_EQ(stopped.error().message(), "enough");
  EXPECT_EQ(heard.size(), 3);
  EXPECT_GE(heard[0], 0);
  EXPECT_LE(heard[2], 1);
  EXPECT_TRUE(std::is_sorted(heard.begin(), heard.end()));
  for (const Plan& plan : model.plans) EXPECT_TRUE(plan.tunings.empty());
  EXPECT_FALSE(std::filesystem::exists(cache_));
}

// The cache's entries: of one that is put again the last, of what two processes put that of each.
TEST_F(TuneTest, TheLastPutCounts) {
  TuningCache first;
  first.Put("a", {"old", 0, {}});
  first.Put("b", {"kept", 0, {}});
  ASSERT_TRUE(first.Save(cache_));
  TuningCache second = TuningCache::Open(cache_).value();
  EXPECT_EQ(second.Find("a")->variant, "old");
  second.Put("a", {"new", 0, {}});
  EXPECT_EQ(second.Find("a")->variant, "new");
  ASSERT_TRUE(second.Save(cache_));
  const TuningCache both = TuningCache::Open(cache_).value();
  EXPECT_EQ(both.Find("a")->variant, "new");
  EXPECT_EQ(both.Find("b")->variant, "kept");
}

TEST_F(TuneTest, WhatTheCacheTakes) {
  std::filesystem::create_directories(std::filesystem::path(cache_).parent_path());
  const auto open = [&](const std::string& text) {
    EXPECT_TRUE(WriteFileAtomic(cache_, text));
    return TuningCache::Open(cache_);
  };
  const auto entry = [&](const std::string& text) {
    return open(fmt::format(R"({{"version": 1, "entries": {{"k": {}}}}})", text));
  };
  const auto good = entry(R"({"variant": "v", "threads": 3, "slower": [["a", "b"]]})");
  ASSERT_TRUE(good) << good.error().message();
  EXPECT_EQ(good->Find("k")->threads, 0) << "one thread, or all of them";
  EXPECT_EQ(good->Find("k")->slower.at(0).kernel, "a");
  EXPECT_EQ(good->Find("k")->slower.at(0).reason.code, kSlowerWhenMeasured);
  EXPECT_EQ(good->Find("k")->slower.at(0).reason.sentence, "b");
  // Each of these lacks one thing, or has it of another kind.
  for (const char* bad :
       {"[]", "null", R"({"threads": 0, "slower": []})", R"({"variant": "", "slower": []})",
        R"({"variant": "", "threads": 0})", R"({"variant": 0, "threads": 0, "slower": []})",
        R"({"variant": "", "threads": 0.5, "slower": []})",
        R"({"variant": "", "threads": 0, "slower": {}})",
        R"({"variant": "", "threads": 0, "slower": [{}]})",
        R"({"variant": "", "threads": 0, "slower": [["a"]]})",
        R"({"variant": "", "threads": 0, "slower": [["a", "b", "c"]]})",
        R"({"variant": "", "threads": 0, "slower": [[1, "b"]]})",
        R"({"variant": "", "threads": 0, "slower": [["a", 1]]})"}) {
    const auto refused = entry(bad);
    ASSERT_FALSE(refused) << bad;
    EXPECT_EQ(refused.error().message(), cache_ + ": entry 'k' is not {variant, threads, slower}");
  }
  for (const char* bad :
       {"[]", R"({"version": 1})", R"({"entries": {}})", R"({"version": 1, "entries": []})"}) {
    const auto refused = open(bad);
    ASSERT_FALSE(refused) << bad;
    EXPECT_EQ(refused.error().message(),
              cache_ + ": no tuning cache: expected an object with version and entries");
  }
  const auto later = open(R"({"version": 2, "entries": {"k": 3}})");
  ASSERT_TRUE(later) << "of another version: empty";
  EXPECT_EQ(later->Find("k"), nullptr);
}

// At most 65536 entries are kept: what would be more begins afresh.
TEST_F(TuneTest, TheCacheIsBounded) {
  TuningCache many;
  for (int i = 0; i < 65535; ++i) many.Put(fmt::format("{}", i), {"v", 0, {}});
  ASSERT_TRUE(many.Save(cache_));
  for (const bool full : {false, true}) {
    TuningCache one;
    one.Put(full ? "more" : "last", {"v", 0, {}});
    ASSERT_TRUE(one.Save(cache_));
    const TuningCache all = TuningCache::Open(cache_).value();
    EXPECT_NE(all.Find(full ? "more" : "last"), nullptr);
    EXPECT_EQ(all.Find("65534") == nullptr, full);
    EXPECT_EQ(all.Find("last") == nullptr, full);
  }
}

TEST_F(TuneTest, NothingIsKeptWithoutAPlace) {
  EXPECT_TRUE(TuningCache().Save(cache_)) << "nothing was put";
  EXPECT_FALSE(std::filesystem::exists(cache_));
  Model model = Convolutions();
  TuneOptions options = Options();
  options.cache_path = "";
  for (int again = 0; again < 2; ++again) {
    const auto report = TuneModel(model, options);
    ASSERT_TRUE(report);
    EXPECT_EQ(report->measured, 4) << "two convolutions, and a Transpose on each side";
    EXPECT_TRUE(report->warnings.empty());
  }
  std::filesystem::create_directories(dir_);
  ASSERT_TRUE(WriteFileAtomic((dir_ / "deep").string(), "no folder"));
  options.cache_path = cache_;
  const auto report = TuneModel(model, options);
  ASSERT_TRUE(report);
  ASSERT_EQ(report->warnings.size(), 1u);
  EXPECT_TRUE(report->warnings[0].starts_with("the tuning cache is not saved: "))
      << report->warnings[0];
}

// What an entry's key says, which is all that its speed may depend on. On one thread only the 3 x 3
// convolution has a choice.
TEST_F(TuneTest, KeysAndCounts) {
  Model model = Convolutions();
  TuneOptions options = Options();
  options.threads = 1;
  const auto one = TuneModel(model, options);
  ASSERT_TRUE(one);
  EXPECT_EQ(one->steps, 1);
  EXPECT_EQ(one->measured, 1);
  options.threads = 2;
  const auto two = TuneModel(model, options);
  ASSERT_TRUE(two);
  EXPECT_EQ(two->steps, 4);
  EXPECT_EQ(two->measured, 4);
  const Tuning& tuning = model.plans[0].tunings.at(1);
  EXPECT_EQ(tuning.steps.size(), 4u);
  const auto changes = [](const auto& step) {
    return !step.second.variant.empty() || step.second.threads != 0;
  };
  EXPECT_EQ(std::count_if(tuning.steps.begin(), tuning.steps.end(), changes), two->changed);
  const auto known = TuneModel(model, options);
  ASSERT_TRUE(known);
  EXPECT_EQ(known->measured, 0);
  EXPECT_EQ(known->default_ms, 0);
  EXPECT_EQ(known->tuned_ms, 0);
  EXPECT_EQ(known->steps, 4);
  EXPECT_EQ(known->changed, two->changed);
  const TuningCache cache = TuningCache::Open(cache_).value();
  const std::string machine = MachineName(options.isa);
  const std::string wide =
      "conv_f32 float32[1, 20, 20, 16] float32[64, 16, 3, 3]c -> float32[1, 18, 18, 64] "
      "{channels_last=1, kernel_shape=[3, 3]}";
  for (const std::string& key :
       {"1 threads; " + wide, "2 threads; " + wide,
        "2 threads; transpose float32[1, 16, 20, 20] -> float32[1, 20, 20, 16] "
        "{perm=[0, 2, 3, 1]}"s})
    EXPECT_NE(cache.Find(machine + "; " + key), nullptr) << ReadTextFile(cache_).value();
}

// What the cache knows is taken as it is: a variant, or one thread, is a change.
TEST_F(TuneTest, KnownChoicesAreTaken) {
  TuneOptions options = Options();
  const std::string key =
      MachineName(options.isa) +
      "; 2 threads; conv_f32 float32[1, 20, 20, 16] float32[64, 16, 3, 3]c -> float32[1, 18, 18, "
      "64] {channels_last=1, kernel_shape=[3, 3]}";
  Model first = Convolutions();
  ASSERT_TRUE(TuneModel(first, options));
  const int others = [&] {
    int count = 0;
    for (const auto& [node, step] : first.plans[0].tunings[0].steps)
      count += node != "a" && (!step.variant.empty() || step.threads != 0);
    return count;
  }();
  for (const StepTuning& known :
       {StepTuning{"winograd 2x2", 0, {}}, StepTuning{"", 1, {}}, StepTuning{"", 0, {}}}) {
    TuningCache cache;
    cache.Put(key, known);
    ASSERT_TRUE(cache.Save(cache_));
    Model model = Convolutions();
    const auto report = TuneModel(model, options);
    ASSERT_TRUE(report);
    EXPECT_EQ(report->measured, 0);
    EXPECT_EQ(report->changed - others, known.variant.empty() && known.threads == 0 ? 0 : 1);
    const StepTuning& taken = model.plans[0].tunings.at(0).steps.at("a");
    EXPECT_EQ(taken.variant, known.variant);
    EXPECT_EQ(taken.threads, known.threads);
  }
}

// A plan for the sizes that were tuned, where the model has none for them.
TEST_F(TuneTest, OtherSizesGetAPlan) {
  Model model = LowerAndPack(ParseGraph("input %x: float32[N, 16, 20, 20]\n"
                                        "const %w: float32[32, 16, 3, 3]\n"
                                        "a: %a = Conv(%x, %w)\noutput %a\n")
                                 .value())
                    .value();
  ASSERT_EQ(model.plans.size(), 1u);
  TuneOptions options = Options();
  options.shapes = {{"x", {2, 16, 20, 20}}};
  for (int again = 0; again < 2; ++again) {
    ASSERT_TRUE(TuneModel(model, options));
    ASSERT_EQ(model.plans.size(), 2u);
    EXPECT_TRUE(model.plans[0].tunings.empty());
    EXPECT_EQ(model.plans[1].shapes, options.shapes);
    EXPECT_EQ(model.plans[1].tunings.size(), 1u);
    ASSERT_EQ(model.plans[1].decisions.size(), model.plans[0].decisions.size());
    for (const auto& [node, decision] : model.plans[0].decisions)
      EXPECT_EQ(model.plans[1].decisions.at(node).kernel, decision.kernel);
  }
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
