// What a model's folder says of its texts: what begins and ends them, and what must not come.
#include "generate/text_rules.h"

#include <array>

#include "generate/generate.h"
#include "generate/generate_testing.h"
#include "generate/translator_testing.h"

namespace evoq {
namespace {

using namespace generate_test;

constexpr int64_t kEnd = 1, kLoud = 9;

class TextRulesTest : public GenerateTest {
 protected:
  // The text of a model whose folder says this, which writes the token `loud` wherever it may.
  Generated Written(const nlohmann::json& says, GenerateOptions options, int64_t loud) const {
    nlohmann::json config = TinyT5Config();
    config.update(says);
    WriteTinyT5(At("t5"), config);
    const auto model = Load(At("t5"), {.context = 32});
    Writer writer(*model, std::nullopt, {kEnd});
    options.sampling.logit_bias = {{loud, 1000}};
    const auto text = writer.Write(std::array<int64_t, 3>{5, 6, 7}, options);
    EXPECT_TRUE(text) << text.error().message();
    return text ? *text : Generated();
  }
};

TEST_F(TextRulesTest, TheLastTokenThatThereIsRoomForIsTheEnd) {
  const nlohmann::json forced = {{"forced_eos_token_id", kEnd}};
  const Generated text = Written(forced, {.max_tokens = 5}, kLoud),
                  on = Written(forced, {.max_tokens = 5, .ignore_end = true}, kLoud);
  EXPECT_EQ(text.tokens, std::vector<int64_t>(4, kLoud));
  EXPECT_EQ(text.ended, Ended::kEndToken);
  EXPECT_EQ(on.tokens, std::vector<int64_t>(5, kLoud));
  EXPECT_EQ(on.ended, Ended::kMaxTokens);
}

// min_length counts the token that a text begins with.
TEST_F(TextRulesTest, NoEndComesBeforeTheLeastTokens) {
  const nlohmann::json four = {{"min_length", 4}};
  EXPECT_EQ(Written({{"min_length", 0}}, {.max_tokens = 9}, kEnd).tokens.size(), 0u);
  EXPECT_EQ(Written(four, {.max_tokens = 9}, kEnd).tokens.size(), 3u);
  EXPECT_EQ(Written(four, {.max_tokens = 9, .min_tokens = 2}, kEnd).tokens.size(), 3u);
  EXPECT_EQ(Written(four, {.max_tokens = 9, .min_tokens = 5}, kEnd).tokens.size(), 5u);
}

TEST_F(TextRulesTest, WhatMustNotBeginComesLater) {
  const nlohmann::json not_first = {{"begin_suppress_tokens", {kLoud}}};
  const std::vector<int64_t> plain = Written(not_first, {.max_tokens = 4}, kLoud).tokens;
  ASSERT_EQ(plain.size(), 4u);
  EXPECT_NE(plain[0], kLoud);
  EXPECT_EQ(plain[1], kLoud);
  // The first behind what is forced.
  nlohmann::json behind = not_first;
  behind["forced_bos_token_id"] = 7;
  const std::vector<int64_t> forced = Written(behind, {.max_tokens = 4}, kLoud).tokens;
  ASSERT_EQ(forced.size(), 4u);
  EXPECT_EQ(forced[0], 7);
  EXPECT_NE(forced[1], kLoud);
  EXPECT_EQ(forced[2], kLoud);
  const std::vector<int64_t> never =
      Written({{"suppress_tokens", {kLoud}}}, {.max_tokens = 4}, kLoud).tokens;
  EXPECT_EQ(std::ranges::count(never, kLoud), 0);
}

// What begins the text counts too.
TEST_F(TextRulesTest, NoRowOfTokensComesTwice) {
  const auto written = [&](int64_t start) {
    return Written({{"no_repeat_ngram_size", 2}, {"decoder_start_token_id", start}},
                   {.max_tokens = 6}, kLoud)
        .tokens;
  };
  const std::vector<int64_t> text = written(0), begun = written(kLoud);
  EXPECT_EQ(text[0], kLoud);
  EXPECT_EQ(text[1], kLoud);
  EXPECT_NE(text[2], kLoud) << "9 9 is there";
  EXPECT_EQ(text[3], kLoud);
  EXPECT_EQ(begun[0], kLoud);
  EXPECT_NE(begun[1], kLoud) << "9 9 is there";
  EXPECT_EQ(begun[2], kLoud);
}

}  // namespace
}  // namespace evoq
