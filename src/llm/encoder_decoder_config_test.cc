// Settings of models of two texts.
#include <gtest/gtest.h>

#include <cmath>

#include "llm/encoder_decoder.h"

namespace evoq {
namespace {

using nlohmann::json;

Result<EncoderDecoder> Read(const char* family, const json& config = json::object()) {
  return ReadEncoderDecoderConfig(*FindEncoderDecoder(family), config);
}

// What a folder leaves out is what transformers' class of the family has.
TEST(EncoderDecoderConfig, MissingSettings) {
  using Ids = std::vector<int64_t>;
  struct Sizes {
    int64_t vocabulary, width, layers, heads, head_size, inner, context, source_context;
  };
  struct Numbers {
    float epsilon, embedding_scale, logit_scale;
  };
  struct Case {
    const char* family;
    Sizes sizes;
    GateFunction function;
    bool gated;
    Numbers numbers;
    Ids start, end, forced_end;
  };
  constexpr int64_t kAny = 32768;  // far tokens are alike: as long as wanted
  const float root = std::sqrt(512.0f);
  constexpr auto kRelu = GateFunction::kRelu, kGelu = GateFunction::kGelu,
                 kTanh = GateFunction::kGeluTanh;
  const Sizes t5{32128, 512, 6, 8, 64, 2048, kAny, kAny},
      later{250112, 512, 8, 6, 64, 1024, kAny, kAny},
      bart{50265, 1024, 12, 16, 64, 4096, 1024, 1024},
      marian{58101, 1024, 12, 16, 64, 4096, 1024, 1024},
      m2m{128112, 1024, 12, 16, 64, 4096, 1024, 1024},
      whisper{51865, 384, 4, 6, 64, 1536, 448, 1500};
  const Numbers shrunk{1e-6f, 1, 1 / root}, unscaled{1e-6f, 1, 1}, plain{1e-5f, 1, 1},
      grown{1e-5f, 32, 1};
  const Case cases[] = {
      {"t5", t5, kRelu, false, shrunk, {0}, {1}, {}},
      {"mt5", later, kTanh, true, unscaled, {0}, {1}, {}},
      {"umt5", later, kTanh, true, shrunk, {0}, {1}, {}},
      {"bart", bart, kGelu, false, plain, {2}, {2}, {2}},
      {"mbart", bart, kGelu, false, plain, {}, {2}, {2}},
      {"marian", marian, kGelu, false, plain, {58100}, {0}, {0}},
      {"m2m_100", m2m, kRelu, false, grown, {2}, {2}, {}},
      {"whisper", whisper, kGelu, false, plain, {50257}, {50256}, {}},
  };
  EXPECT_EQ(std::size(cases), AllEncoderDecoders().size());
  for (const Case& c : cases) {
    SCOPED_TRACE(c.family);
    const auto m = Read(c.family);
    ASSERT_TRUE(m) << m.error().message();
    EXPECT_EQ(m->width, c.sizes.width);
    for (const Stack* stack : {&m->encoder, &m->decoder}) {
      EXPECT_EQ(stack->vocabulary, c.sizes.vocabulary);
      EXPECT_EQ(stack->layers, c.sizes.layers);
      EXPECT_EQ(stack->heads, c.sizes.heads);
      EXPECT_EQ(stack->inner, c.sizes.inner);
    }
    EXPECT_EQ(m->head_size, c.sizes.head_size);
    if (c.sizes.context == kAny) {
      EXPECT_GE(m->context, kAny);
      EXPECT_GE(m->source_context, kAny);
      EXPECT_EQ(m->buckets, 32);
      EXPECT_EQ(m->farthest, 128);
    } else {
      EXPECT_EQ(m->context, c.sizes.context);
      EXPECT_EQ(m->source_context, c.sizes.source_context);
    }
    EXPECT_EQ(m->target.source_context, m->source_context);
    EXPECT_EQ(m->target.audio.bins, c.family == std::string_view("whisper") ? 80 : 0);
    EXPECT_EQ(m->function, c.function);
    EXPECT_EQ(m->gated, c.gated);
    EXPECT_EQ(m->epsilon, c.numbers.epsilon);
    EXPECT_EQ(m->embedding_scale, c.numbers.embedding_scale);
    EXPECT_FLOAT_EQ(m->logit_scale, c.numbers.logit_scale);
    EXPECT_EQ(m->target.start, c.start);
    EXPECT_EQ(m->end, c.end);
    EXPECT_EQ(m->target.forced_end, c.forced_end);
  }
}

TEST(EncoderDecoderConfig, WhatFollowsFromOthers) {
  EXPECT_EQ(Read("t5", {{"num_layers", 3}})->decoder.layers, 3);
  EXPECT_EQ(Read("t5", {{"num_layers", 3}, {"num_decoder_layers", 4}})->decoder.layers, 4);
  EXPECT_EQ(Read("marian", {{"vocab_size", 9}})->decoder.vocabulary, 9);
  EXPECT_EQ(Read("marian", {{"vocab_size", 9}, {"decoder_vocab_size", 8}})->decoder.vocabulary, 8);
  // T5's first models scale logits, later ones have a head of their own.
  EXPECT_EQ(Read("t5", {{"tie_word_embeddings", false}})->logit_scale, 1);
  EXPECT_EQ(Read("t5", {{"scale_decoder_outputs", false}})->logit_scale, 1);
  EXPECT_EQ(
      Read("t5", {{"tie_word_embeddings", false}, {"scale_decoder_outputs", true}, {"d_model", 64}})
          ->logit_scale,
      0.125f);
  const auto silu = Read("t5", {{"feed_forward_proj", "gated-silu"}});
  EXPECT_TRUE(silu->gated && silu->function == GateFunction::kSilu);
  const auto plain = Read("mt5", {{"feed_forward_proj", "gelu"}});
  EXPECT_TRUE(!plain->gated && plain->function == GateFunction::kGelu);
  EXPECT_EQ(Read("t5", {{"layer_norm_epsilon", 1e-4}})->epsilon, 1e-4f);
  EXPECT_EQ(Read("bart", {{"layer_norm_epsilon", 1e-4}})->epsilon, 1e-5f) << "it has no such";
  EXPECT_EQ(Read("bart", {{"d_model", 64}, {"scale_embedding", true}})->embedding_scale, 8);
  EXPECT_TRUE(Read("marian", {{"forced_eos_token_id", nullptr}})->target.forced_end.empty());
  const auto small = Read("whisper", {{"vocab_size", 1000}});  // 50256 is its family's end
  EXPECT_TRUE(small->end.empty());
  EXPECT_TRUE(CheckEncoderDecoder(*Read("bart", {{"vocab_size", 3}})));
  EXPECT_EQ(Read("bart", {{"min_length", 5}})->target.min_tokens, 4) << "one token begins it";
  EXPECT_EQ(Read("bart", {{"min_length", 0}})->target.min_tokens, 0);
}

TEST(EncoderDecoderConfig, WhatIsRefused) {
  const auto refused = [](const Status& status) { return status ? "" : status.error().message(); };
  const auto heads = Read("bart", {{"decoder_attention_heads", 8}});
  ASSERT_FALSE(heads);
  EXPECT_EQ(heads.error().message(),
            "width 1024 of 16 heads and 8, expected a multiple of as many");
  EncoderDecoder whisper = *Read("whisper");
  EXPECT_EQ(refused(ReadFeatureSettings({{"feature_size", 128}}, whisper)),
            "feature_size is 128, expected the model's 80");
  EXPECT_EQ(refused(ReadFeatureSettings({{"dither", 0.5}}, whisper)), "dither is 0.5, expected 0");
  EXPECT_EQ(refused(ReadFeatureSettings({{"feature_size", 80},
                                         {"dither", 0.0},
                                         {"sampling_rate", 8000},
                                         {"n_fft", 200},
                                         {"hop_length", 80}},
                                        whisper)),
            "");
  EXPECT_EQ(whisper.target.audio.rate, 8000);
  EXPECT_EQ(whisper.target.audio.window, 200);
  EXPECT_EQ(whisper.target.audio.hop, 80);
}

}  // namespace
}  // namespace evoq
