// Promises about language models: perplexity of a text, speed in decode and of a prompt.
#include <gtest/gtest.h>

#include <algorithm>

#include "base/stopwatch.h"
#include "certify/certify.h"
#include "generate/generate.h"
#include "generate/translator_testing.h"
#include "llm/random_folder.h"
#include "llm/tiny_llama.h"
#include "models/models.h"
#include "program/etm.h"
#include "workflow/perplexity.h"
#include "workflow/predict.h"
#include "workflow/quantize.h"
#include "workflow/tiny_testing.h"

namespace evoq {
namespace {

class LanguageCertificate : public TinyFolder {
 protected:
  void SetUp() override {
    TinyFolder::SetUp();
    ASSERT_TRUE(WriteRandomFolder(TinyLlamaConfig(), {}, 1, At("llama")));
    std::string vocabulary = "<unk>\t0\n<s>\t0\n</s>\t0\n\xe2\x96\x81\t0\n", letters;
    for (char c = 'a'; c <= 'z'; ++c) vocabulary += std::string(1, c) + "\t0\n";
    for (int i = 0; i < 400; ++i) letters += static_cast<char>('a' + i * i * 7 % 26);
    Text("t.vocab", vocabulary);
    Text("text.txt", letters);
    Text("other.txt", "b" + letters);
  }
  QuantizeJob Job(const std::string& scheme) const {
    QuantizeJob job{.model = At("llama"), .output = At(scheme + ".etm"), .scheme = scheme};
    job.text = At("text.txt");
    job.tokenizer = At("t.vocab");
    job.window = 32;
    job.threads = 1;
    job.measure_s = 0.02;
    job.search_s = 1;
    return job;
  }
  static std::string Refused(const QuantizeJob& job) {
    const auto done = Quantize(job);
    return done ? std::string() : done.error().message();
  }
  Samples TextSamples(const std::string& model, const std::string& text) const {
    const auto read = ReadEtm(model);
    EXPECT_TRUE(read);
    const auto tokens = TokensOfText(read->graph, model, At(text), At("t.vocab"));
    EXPECT_TRUE(tokens) << tokens.error().message();
    auto samples = TextWindows(read->graph, tokens->tokens, 32, 0);
    EXPECT_TRUE(samples) << samples.error().message();
    return std::move(*samples);
  }
};

TEST_F(LanguageCertificate, SaysWhatEvalMeasures) {
  QuantizeJob job = Job("int8-weights");
  job.promise.max_growth = 50;
  const auto done = Quantize(job);
  ASSERT_TRUE(done) << done.error().message();
  ASSERT_TRUE(done->certified.has_value());
  const Certificate& c = done->certified->certificate;
  EXPECT_EQ(c.accuracy.metric, Metric::kPerplexity);
  EXPECT_EQ(c.window, 32);
  EXPECT_EQ(c.accuracy.samples, static_cast<int64_t>(c.float_nll.size()));
  EXPECT_GE(c.accuracy.samples, 12);
  ASSERT_TRUE(c.prompt_speed.has_value());
  EXPECT_GT(c.prompt_speed->ratio.b_ms, c.speed.ratio.b_ms) << "a prompt takes longer than a token";
  for (const bool quantized : {false, true}) {
    PerplexityJob measure;
    measure.model = quantized ? job.output : job.model;
    measure.text = job.text;
    measure.tokenizer = job.tokenizer;
    measure.window = 32;
    measure.threads = 1;
    const Stopwatch watch;
    const auto perplexity = EvaluatePerplexity(measure);
    ASSERT_TRUE(perplexity) << perplexity.error().message();
    EXPECT_GT(perplexity->ms_per_token, 0);
    EXPECT_LE(perplexity->ms_per_token * static_cast<double>(perplexity->tokens), watch.ms());
    const double told = quantized ? c.accuracy.model.value : c.accuracy.reference.value;
    EXPECT_NEAR(perplexity->perplexity(), told, 1e-4 * told);
    EXPECT_EQ(perplexity->windows, c.accuracy.samples);
  }
  EXPECT_NEAR(c.accuracy.drop.value,
              100 * (c.accuracy.model.value / c.accuracy.reference.value - 1), 1e-6);
}

// How often the token that follows is the likeliest one.
TEST_F(LanguageCertificate, FirstChoices) {
  PerplexityJob job;
  job.model = At("llama");
  job.text = At("text.txt");
  job.tokenizer = At("t.vocab");
  job.window = 32;
  job.threads = 1;
  const auto told = EvaluatePerplexity(job);
  ASSERT_TRUE(told) << told.error().message();
  const auto model = CachedModel::Load(job.model, {.threads = 1, .context = 32});
  ASSERT_TRUE(model) << model.error().message();
  const auto text = TokensOfText((*model)->graph(), job.model, job.text, job.tokenizer);
  ASSERT_TRUE(text) << text.error().message();
  Writer writer(**model, std::nullopt, {});
  int64_t right = 0;
  for (int64_t at = 0; at < told->tokens; at += 32) {
    const std::vector<int64_t> window(text->tokens.begin() + at, text->tokens.begin() + at + 32);
    writer.Forget();
    const auto logits = writer.Logits(window, 32);
    ASSERT_TRUE(logits) << logits.error().message();
    const auto pieces = (*model)->vocabulary();
    for (int64_t i = 0; i < 32; ++i) {
      const auto row = logits->subspan(i * pieces, pieces);
      right += std::ranges::max_element(row) - row.begin() == text->tokens[at + i + 1];
    }
  }
  ASSERT_GT(right, 0);
  EXPECT_DOUBLE_EQ(told->top1(), static_cast<double>(right) / static_cast<double>(told->tokens));
}

TEST_F(LanguageCertificate, ATextIsNoneOfATranslator) {
  generate_test::WriteTinyT5(At("t5"));
  PerplexityJob job;
  job.model = At("t5");
  job.text = At("text.txt");
  job.tokenizer = At("t.vocab");
  const auto told = EvaluatePerplexity(job);
  ASSERT_FALSE(told);
  EXPECT_EQ(
      told.error().message(),
      At("t5") + ": a model that reads one text and writes another is not measured with one text");
}

TEST_F(LanguageCertificate, AMethodThatBreaksThePromiseIsRefused) {
  QuantizeJob job = Job("int4-weights");
  job.promise.max_growth = 0;
  // Weights that mean nothing may predict a text better when they are rounded, but not all texts.
  std::string why;
  for (int step = 1; step < 9 && why.empty(); ++step) {
    std::string letters;
    for (int i = 0; i < 200; ++i) letters += static_cast<char>('a' + i * step % 26);
    Text("text.txt", letters);
    std::filesystem::remove(job.output);
    why = Refused(job);
  }
  EXPECT_NE(why.find("too much accuracy is lost: perplexity "), std::string::npos) << why;
  EXPECT_FALSE(std::filesystem::exists(job.output));
  job.promise.max_growth = 1000;
  EXPECT_EQ(Refused(job), "");
}

TEST_F(LanguageCertificate, OptionsThatDoNotFitAreRefused) {
  QuantizeJob job = Job("int8-weights");
  job.promise.max_drop = 1;
  EXPECT_NE(Refused(job).find("--max-perplexity-growth"), std::string::npos);
  job.promise = {.max_growth = 1};
  job.text.clear();
  EXPECT_EQ(Refused(job), "--max-perplexity-growth is measured on a text: --text F");
  job = Job("int8-weights");
  job.promise.max_growth = 1;
  job.window = 65;
  EXPECT_EQ(Refused(job), "65 tokens behind 0: the model holds at most 64");
}

TEST_F(LanguageCertificate, VerifyMeasuresAgain) {
  QuantizeJob job = Job("int8-dynamic");
  job.promise.max_growth = 100;
  ASSERT_EQ(Refused(job), "");
  VerifyJob verify{.path = job.output, .measure_s = 0.02};
  const Samples same = TextSamples(job.output, "text.txt");
  const auto again = Verify(verify, &same);
  ASSERT_TRUE(again) << again.error().message();
  ASSERT_EQ(again->lines.size(), 4u);
  const char* const names[] = {"decode", "prompt", "accuracy", "machine"};
  for (size_t i = 0; i < 4; ++i) EXPECT_EQ(again->lines[i].name, names[i]);
  EXPECT_EQ(again->lines[2].state, VerifyLine::State::kHolds) << again->lines[2].text;
  EXPECT_EQ(again->accuracy->drop.value,
            CertificateOf(*ReadEtm(job.output), "")->accuracy.drop.value);
  // Another text needs the float model.
  const Samples other = TextSamples(job.output, "other.txt");
  EXPECT_FALSE(Verify(verify, &other));
  verify.baseline = job.model;
  const auto fresh = Verify(verify, &other);
  ASSERT_TRUE(fresh) << fresh.error().message();
  EXPECT_NE(fresh->lines[2].text.find("other samples"), std::string::npos);
}

TEST_F(LanguageCertificate, AutoFindsWhatKeepsTheLimit) {
  QuantizeJob job = Job("auto");
  job.promise.max_growth = 0.2;
  const auto done = Quantize(job);
  ASSERT_TRUE(done) << done.error().message();
  const Certificate& c = done->certified->certificate;
  EXPECT_LE(c.accuracy.drop.value, 0.2);
  EXPECT_FALSE(done->certified->chosen.tried.empty());
  for (const std::string& warning : done->warnings)
    EXPECT_EQ(warning.find("past_"), std::string::npos) << warning;
}

TEST_F(LanguageCertificate, TheModelFileIsToldByAllOfAFolder) {
  const auto before = MarkOf(At("llama"));
  ASSERT_TRUE(before);
  Text("llama/notes.txt", "nothing of the model");
  EXPECT_EQ(MarkOf(At("llama"))->crc, before->crc);
  Text("llama/tokenizer.json", "{}");
  EXPECT_NE(MarkOf(At("llama"))->crc, before->crc);
  EXPECT_EQ(MarkOf(At("llama"))->bytes, before->bytes + 2);
}

TEST_F(LanguageCertificate, PredictForecastsPhases) {
  PredictJob job;
  job.model = At("llama");
  job.threads = 1;
  job.schemes = {"int8-weights"};
  const auto predicted = Predict(job);
  ASSERT_TRUE(predicted) << predicted.error().message();
  ASSERT_EQ(predicted->phases.size(), 2u);
  EXPECT_EQ(predicted->phases[0].def, &kPromptPhase);
  EXPECT_EQ(predicted->phases[0].phase.tokens, 64);
  EXPECT_EQ(predicted->phases[1].phase.context, 63);
  for (const PhaseForecast& p : predicted->phases) {
    ASSERT_EQ(p.forecast.schemes.size(), 2u);
    EXPECT_GT(p.TokensPerS(p.forecast.schemes[0].ms), 0);
    EXPECT_EQ(p.forecast.schemes[1].scheme, "int8-weights");
  }
  EXPECT_EQ(Tell(*predicted).json["phases"].size(), 2u);
  // What a cache is extended by does not depend on how much it holds.
  const auto extend_ms = [&](int64_t context) {
    job.phase = {"decode", {.context = context}};
    const auto at = Predict(job);
    EXPECT_TRUE(at);
    for (const StepForecast& step : at->phases[0].forecast.schemes[0].step_list) {
      if (step.name == "blk.0.cache_key") return step.ms;
    }
    return 0.0;
  };
  EXPECT_GT(extend_ms(3), 0);
  EXPECT_EQ(extend_ms(3), extend_ms(60));
}

}  // namespace
}  // namespace evoq
