// Gears by name, in a file, and those that observed sizes ask for.
#include "workflow/gears.h"

#include "graph/run_choices.h"
#include "program/etm.h"
#include "workflow/compile.h"
#include "workflow/deployment.h"
#include "workflow/size_runs.h"
#include "workflow/tiny_testing.h"

namespace evoq {
namespace {

class Gears : public TinyFolder {
 protected:
  std::string Net() {
    return Model("net.onnx",
                 "input %x: float32[N, 4]\na: %y: float32[N, 4] = Add(%x, %x)\noutput %y\n");
  }
  std::string Lines(const std::string& text) {
    EXPECT_TRUE(WriteFileAtomic(At("sizes.txt"), text));
    return At("sizes.txt");
  }
  static std::string Why(const auto& result) { return result ? "" : result.error().message(); }
};

TEST_F(Gears, AreParsed) {
  const auto gears = ParseGears({"x=1,8,16", "y=1x2,8x2,16x2"});
  ASSERT_TRUE(gears) << gears.error().message();
  EXPECT_EQ(gears->at("x"), (std::vector<std::vector<int64_t>>{{1}, {8}, {16}}));
  EXPECT_EQ(gears->at("y"), (std::vector<std::vector<int64_t>>{{1, 2}, {8, 2}, {16, 2}}));
  for (const char* bad : {"x", "=1", "x=", "x=1,,2", "x=0", "x=-1", "x=1x", "x=99999999999999"})
    EXPECT_EQ(
        Why(ParseGears({bad})),
        fmt::format("--gears {}: expected NAME=1,8,16 or NAME=1x128,8x128, sizes from 1", bad));
  EXPECT_EQ(Why(ParseGears({"x=1", "x=2"})), "--gears x=2: named twice");
}

TEST_F(Gears, FitTheirGraph) {
  const Graph graph = Parsed(
      "input %x: float32[N, 4]\ninput %t: float32[N, T, 2]\na: %y = Identity(%x)\noutput %y\n");
  const auto sets = GearsFor({{"x", {{8}, {1}, {8}}}}, graph);
  ASSERT_TRUE(sets) << sets.error().message();
  EXPECT_EQ(*sets, (std::vector<InputShapes>{{{"x", {1, 4}}}, {{"x", {8, 4}}}}));
  EXPECT_EQ(Why(GearsFor({{"z", {{1}}}}, graph)), "gears: the model has no input 'z'");
  EXPECT_NE(Why(GearsFor({{"t", {{1}}}}, graph)).find("leaves 2 sizes free: name all of them"),
            std::string::npos);
  EXPECT_NE(Why(GearsFor({{"x", {{1, 5}}}}, graph)).find("found 5 for dimension 1"),
            std::string::npos);
  EXPECT_NE(Why(GearsFor({{"x", {{1, 4, 4}}}}, graph)).find("found 3 sizes"), std::string::npos);
  EXPECT_EQ(Why(GearsFor({{"x", {{1}}}, {"t", {{1, 2, 2}, {2, 2, 2}}}}, graph)),
            "gears: input x has 1, another input 2");
}

TEST_F(Gears, ObservedSizesAreRead) {
  const Graph one = Parsed("input %x: float32[N, 4]\na: %y = Identity(%x)\noutput %y\n");
  const auto read = ReadObservedSizes(Lines("# a line\n3 x=2x4\n\nx=5x4\n2 2\n7\n"), one);
  ASSERT_TRUE(read) << read.error().message();
  ASSERT_EQ(read->size(), 3u);
  EXPECT_EQ((*read)[0].shapes, (InputShapes{{"x", {2, 4}}}));
  EXPECT_EQ((*read)[0].runs, 5);
  EXPECT_EQ((*read)[1].runs, 1);
  EXPECT_EQ((*read)[2].shapes, (InputShapes{{"x", {7, 4}}}));
  const std::pair<const char*, const char*> bad[] = {
      {"1 x=0x4\n", "line 1: expected NAME=1x128 with sizes from 1, found 'x=0x4'"},
      {"1 x=1x4\n2 z=1x4\n", "line 2: the model has no input 'z'"},
      {"# nothing\n", "no sizes, expected lines such as '12 NAME=1x128'"},
      {"1125899906842624 x=1x4\n1 x=1x4\n", "line 2: more than"}};
  for (const auto& [text, message] : bad)
    EXPECT_NE(Why(ReadObservedSizes(Lines(text), one)).find(message), std::string::npos)
        << Why(ReadObservedSizes(Lines(text), one));
}

TEST_F(Gears, AreAFactAndPlansOfTheFile) {
  CompileJob job{.model = Net(), .output = At("net.etm")};
  job.gears = {{"x", {{1}, {3}}}};
  const auto done = Compile(job);
  ASSERT_TRUE(done) << done.error().message();
  EXPECT_EQ(done->plans, 2u);
  const auto model = ReadEtm(At("net.etm"));
  ASSERT_TRUE(model);
  EXPECT_EQ(ChoiceOf(model->graph, kShapesChoice), R"({"x":[[1,4],[3,4]]})");
  ASSERT_EQ(model->plans.size(), 2u);
  EXPECT_EQ(model->plans[1].shapes, (InputShapes{{"x", {3, 4}}}));
  // A file takes others, beside the plans that it has.
  CompileJob again{.model = At("net.etm"), .output = At("more.etm")};
  again.gears = {{"x", {{5}}}};
  const auto more = Compile(again);
  ASSERT_TRUE(more) << more.error().message();
  EXPECT_EQ(more->plans, 3u);
  EXPECT_EQ(ChoiceOf(ReadEtm(At("more.etm"))->graph, kShapesChoice), R"({"x":[[5,4]]})");
  // One that has no plan, since its sizes were not known, gets its first ones.
  const std::string free = Model(
      "free.onnx", "input %x: float32[N, T]\na: %y: float32[N, T] = Add(%x, %x)\noutput %y\n");
  ASSERT_TRUE(Compile({.model = free, .output = At("free.etm")}));
  ASSERT_TRUE(ReadEtm(At("free.etm"))->plans.empty());
  CompileJob first{.model = At("free.etm"), .output = At("first.etm")};
  first.gears = {{"x", {{1, 2}, {3, 4}}}};
  const auto planned = Compile(first);
  ASSERT_TRUE(planned) << planned.error().message();
  EXPECT_EQ(planned->plans, 2u);
  EXPECT_EQ(ReadEtm(At("first.etm"))->plans[1].shapes, (InputShapes{{"x", {3, 4}}}));
  first.gears.clear();
  first.suggest = SuggestJob{.file = Lines("3 x=1x2\n2 x=3x4\n"), .most = 2, .seconds = 0.1};
  const auto suggested = Compile(first);
  ASSERT_TRUE(suggested) << suggested.error().message();
  EXPECT_EQ(suggested->plans, 2u);
  job.shapes = {{"x", {2, 4}}};
  EXPECT_EQ(Why(Compile(job)), "--shape, --gears: gears are the sizes to plan for");
  EXPECT_NE(Why(Compile({.model = At("net.etm"), .output = At("x.etm")}))
                .find("is compiled already; --tune"),
            std::string::npos);
}

TEST_F(Gears, AreSuggestedAndMeasured) {
  CompileJob job{.model = Net(), .output = At("net.etm")};
  job.suggest =
      SuggestJob{.most = 2, .file = Lines("100 x=8x4\n100 x=7x4\n1 x=2x4\n"), .seconds = 0.05};
  const auto done = Compile(job);
  ASSERT_TRUE(done) << done.error().message();
  ASSERT_TRUE(done->suggested);
  const SuggestedGears& s = *done->suggested;
  EXPECT_EQ(s.runs, 201);
  EXPECT_EQ(s.sizes, 3u);
  EXPECT_EQ(s.measured, 3u);
  EXPECT_GE(s.gears.size(), 1u);  // fewer where a larger batch is no slower
  EXPECT_LE(s.gears.size(), 2u);
  EXPECT_EQ(s.waiting, 0);
  EXPECT_EQ(s.why_exact, "");
  ASSERT_EQ(s.expected_ms.size(), 3u);
  EXPECT_GE(s.expected_ms[0], s.expected_ms[1]);
  EXPECT_GE(s.expected_ms[1], s.expected_ms[2]);
  // Of a run too; a larger batch may have been measured faster than a smaller one.
  EXPECT_GT(s.expected_ms[2], s.least_ms / 10);
  EXPECT_GT(s.least_ms, 0);
  const Told told = Tell(*done);
  EXPECT_EQ(told.json["suggested"]["gears"].size(), s.gears.size());
  EXPECT_NE(told.text.find("gears for 201 runs of 3 different sizes"), std::string::npos);
  const auto runs =
      RunSizes({.model = At("net.etm"), .file = At("sizes.txt"), .runs = 50, .threads = 1}, {});
  ASSERT_TRUE(runs) << runs.error().message();
  EXPECT_EQ(runs->report.runs, 50);
  EXPECT_EQ(runs->report.gears, static_cast<int64_t>(s.gears.size()));
  EXPECT_EQ(runs->report.misses, 0);
  EXPECT_EQ(runs->equal, runs->compared);
  EXPECT_EQ(Tell(*runs).json["misses"], 0);
  job.suggest->most = 0;
  EXPECT_EQ(Why(Compile(job)), fmt::format("{}: --suggest-gears 0: expected 1 to 512", job.model));
}

// Lengths, which do not serve each other.
TEST_F(Gears, OfSizesThatAreNoBatchThoseThatComeMostOftenAreSuggested) {
  CompileJob job{
      .model =
          Model("sum.onnx", "input %x: float32[1, T]\na: %y = Softmax{axis=1}(%x)\noutput %y\n"),
      .output = At("sum.etm")};
  job.suggest =
      SuggestJob{.most = 2, .file = Lines("5 x=1x8\n7 x=1x9\n1 x=1x20\n"), .seconds = 0.05};
  const auto done = Compile(job);
  ASSERT_TRUE(done) << done.error().message();
  const SuggestedGears& s = *done->suggested;
  ASSERT_EQ(s.gears.size(), 2u);
  EXPECT_EQ(s.gears[0].shapes, (InputShapes{{"x", {1, 8}}}));
  EXPECT_EQ(s.gears[1].shapes, (InputShapes{{"x", {1, 9}}}));
  EXPECT_EQ(s.waiting, 1);
  EXPECT_NE(s.why_exact, "");
}

// Of 17 sizes 16 are measured, the first and the last among them; the other's time is between its
// neighbours', by elements.
TEST_F(Gears, TimesBetweenMeasuredSizesFollowTheElements) {
  CompileJob job{
      .model = Model(
          "sum.onnx",
          "input %x: float32[1, T]\na: %y: float32[1, 1] = ReduceSum{keepdims=1}(%x)\noutput %y\n"),
      .output = At("sum.etm")};
  std::string sizes;
  for (int i = 1; i <= 17; ++i) sizes += fmt::format("1 x=1x{}\n", 1000 * i);
  job.suggest = SuggestJob{.most = 17, .file = Lines(sizes), .seconds = 0.05};
  const auto done = Compile(job);
  ASSERT_TRUE(done) << done.error().message();
  const SuggestedGears& s = *done->suggested;
  EXPECT_EQ(s.measured, 16u);
  ASSERT_EQ(s.gears.size(), 17u);  // by shapes
  EXPECT_NEAR(s.gears[15].ms, (s.gears[14].ms + s.gears[16].ms) / 2, 1e-9);
}

}  // namespace
}  // namespace evoq
