// Figures that users read, from made-up measurements: what each is computed of, and in which unit.
#include <gtest/gtest.h>

#include "base/stopwatch.h"
#include "workflow/adaptive_cost.h"
#include "workflow/compare.h"
#include "workflow/evaluate.h"
#include "workflow/generate.h"
#include "workflow/language_parts.h"
#include "workflow/language_speed.h"
#include "workflow/perplexity.h"
#include "workflow/size_runs.h"
#include "workflow/skipped_zeros.h"
#include "workflow/stream_priorities.h"
#include "workflow/suggest_gears.h"
#include "workflow/tiny_testing.h"

namespace evoq {
namespace {

void ExpectHas(const std::string& text, std::initializer_list<const char*> parts) {
  for (const char* part : parts)
    EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
}

TEST(ToldFigures, PartsOfALanguageModel) {
  LanguageParts p{.def = &kDecodePhase, .phase = {.sequences = 2, .context = 100, .tokens = 1}};
  p.total_ms = 4;
  p.outside_ms = 0.5;
  p.steps = 20;
  p.baseline_ms = 6;
  p.host = {.choose_ms = 0.2, .text_ms = 0.3, .tokenizer = true};
  PartTime part{.part = "attention", .steps = 5, .ms = 2, .baseline_ms = 3};
  part.work.macs[0] = 3000000;
  part.work.weight_bytes = 5000000;
  part.work.cache_bytes = 1000000;
  part.limits = {.arithmetic_ms = 0.25, .memory_ms = 0.5};
  p.times = {part};
  const Told told = Tell(p);
  EXPECT_EQ(told.json["tokens_per_s"], 500);
  EXPECT_EQ(told.json["dispatch"]["us_per_step"], 25);
  EXPECT_EQ(told.json["parts"][0]["share"], 0.5);
  EXPECT_EQ(told.json["parts"][0]["limit_share"], 0.25);
  ExpectHas(told.text,
            {"500.0 tokens/s\n", "this model is 1.50x as fast\n", "25.00 us a step",
             " 50.0%       3.0000  6000000   3.0     3           25%  memory\n", " 12.5% "});
  // 0.5 ms beside the 2 ms that a token takes.
  ExpectHas(told.text, {", 20.0% of its time\n"});
}

TEST(ToldFigures, PhasesOfALanguageModel) {
  LanguageBench b{.model = "m"};
  MeasuredPhase m{.def = &kDecodePhase, .phase = {.sequences = 3, .context = 10, .tokens = 1}};
  m.times.sorted_ms = {2, 4, 9};
  m.limits = {.arithmetic_ms = 0.4, .memory_ms = 1};
  b.phases = {m};
  const Told told = Tell(b);
  const nlohmann::json& phase = told.json["phases"][0];
  EXPECT_EQ(phase["tokens_per_s"], 750);
  EXPECT_EQ(phase["limit_tokens_per_s"], 3000);
  EXPECT_EQ(phase["share"], 0.25);
  EXPECT_NEAR(phase["arithmetic_share"].get<double>(), 0.1, 1e-12);
  EXPECT_EQ(phase["memory_share"], 0.25);
  ExpectHas(told.text, {" 750.0 ", " 4.000 ", " 3000.0 ", " memory ", " 10% ", " 25%\n"});
}

TEST(ToldFigures, TextsOfALanguageModel) {
  GenerateResult r{.model = "m", .total_ms = 500};
  Generated text{.tokens = {1, 2, 3, 4, 5}, .prompt_tokens = 10, .prompt_ms = 40};
  text.decode_ms = 80;
  text.host_ms = 4;
  r.texts = {text, text};
  EXPECT_EQ(r.tokens_per_s(), 20);
  const Told told = Tell(r);
  ASSERT_EQ(told.log.size(), 3);
  EXPECT_EQ(told.log[0],
            "prompt: 10 tokens, 250.0 per second; text: 5 tokens, 50.0 per second (5.0% outside of "
            "the model); ended by length");
  EXPECT_EQ(told.log[2], "all: 20.0 tokens per second");
  r.texts = {text};
  r.texts[0].drafted = 9;
  r.texts[0].accepted = 3;
  ASSERT_EQ(Tell(r).log.size(), 1);
  ExpectHas(Tell(r).log[0], {"of the model), 3 of 9 drafted tokens kept; ended by length"});
}

TEST(ToldFigures, Perplexity) {
  PerplexityResult r{.model = "m", .windows = 4, .tokens = 80, .right = 20, .ms_per_token = 0.5};
  const Told told = Tell(r);
  EXPECT_EQ(told.json["ms_per_sample"], 10);
  EXPECT_EQ(told.json["top1"], 0.25);
  ExpectHas(told.text,
            {" on 80 tokens in 4 windows of 20; 0.2500 of them the first choice; 0.500 ms"});
}

using MeasuredFigures = TinyFolder;

TEST_F(MeasuredFigures, ASampleTakesItsShareOfTheTime) {
  EvalJob job;
  job.model = job.reference =
      Model("relu.onnx", "input %x: float32[N, 2]\nr: %y: float32[N, 2] = Relu(%x)\noutput %y\n");
  job.data = {Values("x.npy", Shape{4000, 2}, std::vector<float>(8000, 1.0f))};
  const Stopwatch watch;
  const auto result = Evaluate(job);
  ASSERT_TRUE(result) << result.error().message();
  EXPECT_EQ(result->samples, 4000);
  EXPECT_GT(result->ms_per_sample, 0);
  EXPECT_LE(result->ms_per_sample * 4000, watch.ms());
}

TEST(ToldFigures, WhatAdaptingCosts) {
  const AdaptiveCost cost{.plain_ms = 2, .adaptive_ms = 2.05, .look_every = 16, .runs = 320};
  const Told told = Tell(cost);
  EXPECT_NEAR(told.json["overhead"].get<double>(), 0.025, 1e-12);
  ExpectHas(told.text,
            {"adaptive: 2.0500 ms, without 2.0000, in turn: +2.50%; a look every 16 runs, "
             "320 runs each\n"});
}

TEST(ToldFigures, SkippedZeros) {
  SkippedZeros zeros;
  zeros.layers = {
      {.node = "a",
       .share = 0.5,
       .skips = true,
       .ms = 2,
       .full_ms = 3,
       .bytes = 1000,
       .full_bytes = 2000},
      {.node = "b", .share = 0.9, .ms = 1, .full_ms = 1.5, .bytes = 500, .full_bytes = 600}};
  const Told told = Tell(zeros);
  EXPECT_EQ(told.json["ms_with_zeros"], 4.5);
  EXPECT_EQ(told.json["weight_bytes"], 1500);
  ExpectHas(told.text, {"zeros: 1 of 2 layers ",
                        "3.0000 ms, 4.5000 with the zeros, 1.50x; weights in memory 1.5 kB, 2.6 kB "
                        "with the zeros\n"});
  EXPECT_EQ(told.text.find("do not pay"), std::string::npos);
}

TEST(ToldFigures, SuggestedGears) {
  SuggestedGears s{.runs = 200, .sizes = 5, .measured = 3, .waiting = 10, .prepare_ms = 30};
  s.gears = {{.shapes = {{"x", {4, 8}}}, .ms = 1.5, .runs = 150, .own = 50}};
  s.expected_ms = {40, 6};
  s.least_ms = 2;
  ExpectHas(
      Tell(s).text,
      {"gears for 200 runs of 5 different sizes, 3 of which were measured:\n", "x=4x8 ",
       "1.500 ms   75.0% of the runs, 25.0% of these sizes\n",
       "expected 6.000 ms a run; 6.000 with one gear, 2.000 with a plan for each size, 40.000 "
       "where each run waits 30.0 ms for its plan\n",
       "10 runs are of sizes that no gear serves\n"});
}

TEST(ToldFigures, RunsOfManySizes) {
  SizeRuns r{.model = "m"};
  r.report = {.gears = 2, .ready = 2, .runs = 10, .padded = 3, .misses = 1};
  r.report.beside = 4;
  r.report.beside_ms = 10;
  r.times.sorted_ms = {1, 2, 3};
  const Told told = Tell(r);
  EXPECT_EQ(told.json["hits"], 6);
  ExpectHas(told.text, {"6 hits, 3 runs served by a gear of another batch, 1 misses",
                        "4 sets of sizes were prepared beside runs, 2.50 ms each\n"});
}

TEST(ToldFigures, StreamsBesideEachOther) {
  StreamPriorities m{.model = "m", .threads = 1, .at_once = 2, .arena_bytes = 2500000};
  m.streams = {{.priority = 1, .beside = {{3, 3, 3}, {}}}, {.priority = 2, .beside = {{8}, {}}}};
  m.alone = {{2, 2, 2}, {}};
  const Told told = Tell(m);
  EXPECT_EQ(told.json["p99_ratio"], 1.5);
  ExpectHas(told.text, {"m: 2 streams, 2 at once, each with 1 thread; 2.50 MB of arenas\n",
                        "beside the others its p99 is 1.50 times that\n"});
}

TEST(ToldFigures, StepsThatChanged) {
  Compared c{.a = "a", .b = "b"};
  c.result.a_ms = 10;
  c.result.b_ms = 8;
  c.steps_known = true;
  c.changed = {{.name = "conv", .a_ms = 5, .b_ms = 3}};
  ExpectHas(Tell(c).text, {"step conv: 5.000 ms in A, 3.000 ms in B (-20.0% of A's run)\n"});
  Comparison slower{.speedup = 0.8, .verdict = Verdict::kSlower};  // B takes 1 / 0.8 of the time
  EXPECT_TRUE(CheckNotSlower(slower, 25.1));
  const Status refused = CheckNotSlower(slower, 20);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().message(), "B is 25.0% slower than A, at most 20% are allowed");
}

}  // namespace
}  // namespace evoq
