// Language models need no shapes: their phases are measured, and explained by part.
#include "workflow/language_speed.h"

#include <gtest/gtest.h>

#include "base/math.h"
#include "llm/random_folder.h"
#include "llm/tiny_llama.h"
#include "workflow/compare.h"
#include "workflow/explain.h"
#include "workflow/quantize.h"
#include "workflow/tiny_testing.h"
#include "workflow/to_measure.h"

namespace evoq {
namespace {

class LanguageSpeed : public TinyFolder {
 protected:
  std::string Llama() const {
    EXPECT_TRUE(WriteRandomFolder(TinyLlamaConfig(), {}, 1, At("llama")));
    return At("llama");
  }
  std::string Quantized(const std::string& scheme) const {
    QuantizeJob job{.model = Llama(), .output = At(scheme + ".etm"), .scheme = scheme};
    const auto done = Quantize(job);
    EXPECT_TRUE(done) << done.error().message();
    EXPECT_NE(done->steps_why.find("those of a prompt or of a token"), std::string::npos)
        << "no shape is asked for: " << done->steps_why;
    return job.output;
  }
  static Result<LanguageBench> Bench(const std::string& model, LanguageBenchJob job) {
    job.model = model;
    job.warmup_ms = 0;
    job.duration_s = 0.001;
    auto engine = LoadEngine(model, {.threads = 1});
    EXPECT_TRUE(engine);
    return BenchLanguage(std::move(*engine), 5, job);
  }
  static std::string Refused(const std::string& model, const LanguageBenchJob& job) {
    const auto bench = Bench(model, job);
    return bench ? std::string() : bench.error().message();
  }
};

TEST_F(LanguageSpeed, PhasesAreMeasuredBesideTheirLimits) {
  const std::string model = Quantized("int4-dynamic");
  const auto bench = Bench(model, {.contexts = {0, 20}, .sequences = {1, 3}, .decode_tokens = 4});
  ASSERT_TRUE(bench) << bench.error().message();
  ASSERT_EQ(bench->phases.size(), 5u);
  EXPECT_EQ(bench->phases[0].def, &kPromptPhase);
  EXPECT_EQ(bench->phases[0].phase.tokens, 64) << "what the model holds";
  const std::pair<int64_t, int64_t> decoded[] = {{0, 1}, {0, 3}, {20, 1}, {20, 3}};
  for (size_t i = 0; i < std::size(decoded); ++i) {
    const MeasuredPhase& m = bench->phases[i + 1];
    EXPECT_EQ(std::pair(m.phase.context, m.phase.sequences), decoded[i]);
    EXPECT_GE(m.times.runs(), 3);
    EXPECT_NEAR(m.tokens_per_s(), 1e3 * static_cast<double>(m.phase.sequences) / m.times.median(),
                1e-6);
    EXPECT_GT(m.limits.arithmetic_ms, 0);
    EXPECT_GT(m.limits.memory_ms, 0);
  }
  // Weights are read once for all sequences, but for rows of the tables.
  const int64_t rows = bench->phases[2].work.weight_bytes - bench->phases[1].work.weight_bytes;
  EXPECT_EQ(rows, 2 * (32 + 2 * 2 * 2 * 4 * 4));
  EXPECT_EQ(3 * bench->phases[1].work.cache_bytes, bench->phases[2].work.cache_bytes);
  // Of the four tokens behind a context, the mean one is behind 1 and 21; it reads those and its
  // own, and writes that.
  const int64_t short_bytes = bench->phases[1].work.cache_bytes,
                long_bytes = bench->phases[3].work.cache_bytes;
  EXPECT_EQ(short_bytes % 3, 0);
  EXPECT_EQ(long_bytes - short_bytes, 20 * short_bytes / 3);
  EXPECT_GT(bench->first_token_ms, bench->load_ms);
  EXPECT_GT(bench->load_ms, 5);
  const Told told = Tell(*bench);
  EXPECT_EQ(told.json["phases"].size(), 5u);
  EXPECT_NE(told.text.find("prompt of 64"), std::string::npos) << told.text;
}

TEST_F(LanguageSpeed, ContextsAreThoseThatTheModelHolds) {
  const std::string model = Llama();
  const auto bench = Bench(model, {.prompt_length = 10});
  ASSERT_TRUE(bench) << bench.error().message();
  ASSERT_EQ(bench->phases.size(), 2u);
  EXPECT_EQ(bench->phases[1].phase.context, 0);
  // 1024 tokens leave no room for one behind them, 1025 do.
  for (const int64_t most : {1024, 1025}) {
    nlohmann::json config = TinyLlamaConfig();
    config["max_position_embeddings"] = most;
    ASSERT_TRUE(WriteRandomFolder(config, {}, 1, At("long")));
    const auto of_long = Bench(At("long"), {.prompt_length = 10});
    ASSERT_TRUE(of_long) << of_long.error().message();
    EXPECT_EQ(of_long->phases.size(), most == 1024 ? 2u : 3u);
    EXPECT_EQ(of_long->phases.back().phase.context, most == 1024 ? 0 : 1024);
  }
  EXPECT_EQ(Refused(model, {.contexts = {64}}),
            "--context 64: " + model + " holds at most 64 tokens, with those that follow");
  EXPECT_EQ(Refused(model, {.prompt_length = 65}),
            model + ": a context of 65 tokens, expected at most 64");
  EXPECT_EQ(Refused(model, {.contexts = {63}}), "");
  EXPECT_EQ(Refused(model, {.contexts = {-1}}), "--context -1: expected 0 to 4194304");
  EXPECT_EQ(Refused(model, {.sequences = {}}), "--sequences: none");
}

TEST_F(LanguageSpeed, APhaseSaysTheInputsOfOneRun) {
  const std::string model = Llama();
  auto m = LoadToMeasure(model, 1, {});
  ASSERT_TRUE(m) << m.error().message();
  ASSERT_TRUE(m->phase.has_value());
  EXPECT_EQ(m->phase->def, &kDecodePhase);
  EXPECT_EQ(m->phase->phase.context, 63);
  const auto first = RunFirst(*m);
  ASSERT_TRUE(first) << first.error().message();
  EXPECT_TRUE(first->runnable->repeats_in_place());
  EXPECT_EQ(first->runnable->sample().size(), 7u);
  WhatToMeasure what;
  what.phase = {"prompt", {.prompt_length = 9, .context = 3}};
  ASSERT_TRUE(Settle(*m, what));
  EXPECT_EQ(m->shapes.at("input_ids"), (std::vector<int64_t>{1, 9}));
  EXPECT_EQ(m->shapes.at("past_key.1")[2], 12);
  what.batch = 2;
  EXPECT_EQ(Settle(*m, what).error().code(), ErrorCode::kUsage);
  what = {};
  what.phase.name = "prefill";
  EXPECT_EQ(Settle(*m, what).error().message(), "--phase prefill: expected prompt or decode");
  const auto other = LoadToMeasure(Model("sum.onnx", kSumModel), 1, {.phase = {"decode", {}}});
  ASSERT_FALSE(other);
  EXPECT_EQ(other.error().code(), ErrorCode::kUsage);
}

TEST_F(LanguageSpeed, ExplainAddsUpByPart) {
  ExplainJob job;
  job.model = Quantized("int4-weights");
  job.threads = 1;
  job.duration_s = 0.01;
  job.phase.options.context = 30;
  const auto e = Explain(job);
  ASSERT_TRUE(e) << e.error().message();
  ASSERT_TRUE(e->language.has_value());
  const LanguageParts& parts = *e->language;
  EXPECT_EQ(parts.phase.context, 30);
  double ms = parts.outside_ms;
  int steps = 0;
  for (const PartTime& t : parts.times) {
    ms += t.ms;
    steps += t.steps;
  }
  EXPECT_NEAR(ms, parts.total_ms, 1e-6 * parts.total_ms);
  EXPECT_EQ(steps, parts.steps);
  EXPECT_GT(parts.host.choose_ms, 0);
  EXPECT_FALSE(parts.host.tokenizer);
  EXPECT_TRUE(parts.float_matrices.empty());
  // The ledger's bytes of weights and scales, by part.
  ASSERT_TRUE(e->bytes.has_value());
  int64_t by_part = 0, by_cause = 0;
  for (const PartBytes& b : parts.bytes) by_part += b.weights + b.scales + b.rest;
  for (const ByteCause& c : e->bytes->causes) {
    for (const char* code : {"quantized-weights", "scales", "left-float", "zero-points", "packing"})
      if (c.code == code) by_cause += c.bytes;
  }
  EXPECT_EQ(by_part, by_cause);
  EXPECT_GT(by_part, 10'000);
}

// A layer's experts are one step, whose weights are those of all.
TEST_F(LanguageSpeed, ExplainNamesExpertsThatStayedFloat) {
  nlohmann::json config = TinyLlamaConfig();
  config.update({{"model_type", "mixtral"}, {"num_local_experts", 4}, {"num_experts_per_tok", 2}});
  ASSERT_TRUE(WriteRandomFolder(config, {}, 1, At("mixture")));
  ExplainJob job;
  job.model = At("mixture");
  job.threads = 1;
  job.duration_s = 0.01;
  job.phase.name = "prompt";
  const auto e = Explain(job);
  ASSERT_TRUE(e) << e.error().message();
  const std::vector<FloatMatrix>& matrices = e->language->float_matrices;
  // Of each layer four of attention, the router, three of experts; and the head.
  ASSERT_EQ(matrices.size(), static_cast<size_t>(8 * config["num_hidden_layers"].get<int>() + 1));
  const auto experts = std::ranges::find(matrices, "blk.0.ffn_up.chosen", &FloatMatrix::step);
  ASSERT_NE(experts, matrices.end());
  const int64_t matrix = config["hidden_size"].get<int64_t>() *
                         RoundUp(config["intermediate_size"].get<int64_t>(), int64_t{16});
  EXPECT_EQ(experts->bytes, 4 * matrix * 4);
  EXPECT_EQ(experts->why.code, "not-quantized");
}

TEST_F(LanguageSpeed, ExplainNamesMatricesThatStayedFloat) {
  ExplainJob job;
  job.model = Llama();
  job.threads = 1;
  job.duration_s = 0.01;
  job.phase.name = "prompt";
  const auto e = Explain(job);
  ASSERT_TRUE(e) << e.error().message();
  const std::vector<FloatMatrix>& matrices = e->language->float_matrices;
  ASSERT_EQ(matrices.size(), 15u);  // seven of each layer, and the head
  EXPECT_EQ(matrices[0].step, "output");
  EXPECT_EQ(matrices[0].bytes, 32 * 96 * 4);
  EXPECT_NE(Tell(*e->language).text.find("15 matrices stayed in float"), std::string::npos);
  EXPECT_EQ(Tell(*e->language).text.find("baseline"), std::string::npos);
}

TEST_F(LanguageSpeed, ABaselineStandsBesideEachPart) {
  ExplainJob job;
  job.model = Quantized("int8-weights");
  job.baseline = Llama();
  job.threads = 1;
  job.duration_s = 0.01;
  const auto e = Explain(job);
  ASSERT_TRUE(e) << e.error().message();
  EXPECT_FALSE(e->time.has_value());
  EXPECT_NEAR(e->language->baseline_ms, e->baseline->profile.total_ms, 1e-9);
  double ms = 0;
  for (const PartTime& t : e->language->times) ms += t.baseline_ms;
  EXPECT_GT(ms, 0);
  EXPECT_LE(ms, e->language->baseline_ms * (1 + 1e-9));
  EXPECT_NE(Tell(*e->language).text.find("baseline ms"), std::string::npos);
  EXPECT_TRUE(Tell(*e).json.contains("compare"));
}

TEST_F(LanguageSpeed, ModelsAreComparedAtTheSamePhase) {
  CompareJob job;
  job.a = Llama();
  job.b = Quantized("int8-weights");
  job.threads = 1;
  job.duration_s = 0.05;
  job.warmup_ms = 1;
  job.rounds = 3;
  job.phase = {"prompt", {.prompt_length = 16}};
  const auto compared = Compare(job);
  ASSERT_TRUE(compared) << compared.error().message();
  EXPECT_GT(compared->result.a_ms, 0);
}

}  // namespace
}  // namespace evoq
