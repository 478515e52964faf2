// Beams beside a search of a few lines that runs each text anew.
#include "generate/beams.h"

#include <algorithm>
#include <cmath>

#include "generate/generate_testing.h"
#include "generate/translator_testing.h"

namespace evoq {
namespace {

using namespace generate_test;

std::vector<int64_t> Source(int64_t count, int64_t first) {
  std::vector<int64_t> tokens;
  for (int64_t i = 0; i < count; ++i) tokens.push_back(2 + (first + i * i * 7 + 5 * i) % 38);
  return tokens;
}

struct SearchJob {
  size_t beams;
  std::vector<int64_t> ends;
  double penalty;
  bool early;
  int64_t most;
  std::vector<int64_t> suppressed = {};
};

std::vector<int64_t> AllBut(const std::vector<int64_t>& tokens) {
  std::vector<int64_t> others;
  for (int64_t id = 0; id < 40; ++id) {
    if (std::ranges::find(tokens, id) == tokens.end()) others.push_back(id);
  }
  return others;
}

// The text that the rules in beams.h give, all continuations of all beams being looked at.
std::vector<int64_t> Searched(CachedModel& model, const SearchJob& job) {
  struct Text {
    std::vector<int64_t> tokens;
    double score = 0;
  };
  const auto best_first = [](std::vector<Text>& texts, size_t most) {
    std::ranges::sort(texts, std::greater(), &Text::score);
    texts.resize(std::min(texts.size(), most));
  };
  std::vector<Text> running = {{}}, whole;
  for (int64_t length = 1; length <= job.most; ++length) {
    std::vector<Text> next;
    for (const Text& text : running) {
      std::vector<int64_t> tokens = {0};
      tokens.insert(tokens.end(), text.tokens.begin(), text.tokens.end());
      model.Truncate(0, 0);
      const std::vector<float> logits = Copy(model.Append(0, tokens));
      const double largest = *std::ranges::max_element(logits);
      double all = 0;
      for (const float logit : logits) all += std::exp(logit - largest);
      for (int64_t id = 0; id < std::ssize(logits); ++id) {
        if (std::ranges::find(job.suppressed, id) != job.suppressed.end()) continue;
        next.push_back(text);
        next.back().tokens.push_back(id);
        next.back().score += logits[static_cast<size_t>(id)] - largest - std::log(all);
      }
    }
    best_first(next, next.size());
    const double divisor = std::pow(static_cast<double>(length), job.penalty);
    running.clear();
    for (size_t i = 0; i < next.size() && running.size() < job.beams; ++i) {
      Text text = next[i];
      const bool ends = std::ranges::find(job.ends, text.tokens.back()) != job.ends.end();
      if (!ends && length < job.most) {
        running.push_back(text);
      } else if (i < job.beams) {
        text.score /= divisor;
        if (ends) text.tokens.pop_back();
        whole.push_back(text);
      }
    }
    best_first(whole, job.beams);
    if (whole.size() == job.beams &&
        (job.early || running.empty() || running[0].score / divisor <= whole.back().score))
      break;
  }
  return whole[0].tokens;
}

class BeamsTest : public GenerateTest {
 protected:
  std::string T5(uint32_t seed, const nlohmann::json& more = {}, float loud = 1) const {
    nlohmann::json config = TinyT5Config();
    if (more.is_object()) config.update(more);
    WriteTinyT5(At("t5"), config, "", seed, loud);
    return At("t5");
  }
};

TEST_F(BeamsTest, FollowTheRules) {
  constexpr int64_t kMost = 9;
  int ended = 0, longest = 0, by_early = 0;
  for (uint32_t seed = 1; seed <= 3; ++seed) {
    for (const bool early : {false, true}) {
      const std::string folder = T5(seed, {{"early_stopping", early}}, seed == 3 ? 0.3f : 1.0f);
      const auto model = Load(folder, {.slots = 4, .context = 32}),
                 single = Load(folder, {.context = 32});
      ASSERT_NE(model, nullptr);
      for (const std::vector<int64_t>& ends :
           {std::vector<int64_t>{1},
            {2, 3, 5, 8, 13, 21, 34},
            AllBut({9, 12, 17, 20, 23, 25, 28, 31, 33, 36, 39})}) {
        for (const double penalty : {1.0, 0.0, -1.0, 20.0}) {
          for (const size_t beams : {2, 4}) {
            const std::vector<int64_t> source = Source(4 + seed, static_cast<int64_t>(beams));
            ASSERT_TRUE(single->Encode(0, {source, nullptr}));
            const SearchJob job{beams, ends, penalty, early, kMost};
            const std::vector<int64_t> expected = Searched(*single, job);
            Writer writer(*model, std::nullopt, ends);
            const auto text = writer.Write(source, {.max_tokens = kMost,
                                                    .beams = static_cast<int64_t>(beams),
                                                    .length_penalty = penalty});
            ASSERT_TRUE(text) << text.error().message();
            EXPECT_EQ(text->tokens, expected)
                << seed << " " << early << " " << ends.size() << " " << penalty << " " << beams;
            EXPECT_EQ(text->prompt_tokens, std::ssize(source));
            const bool full = std::ssize(expected) == kMost;
            EXPECT_EQ(text->ended, full ? Ended::kMaxTokens : Ended::kEndToken);
            ++(full ? longest : ended);
            SearchJob patient = job;
            patient.early = false;
            by_early += early && Searched(*single, patient) != expected;
          }
        }
      }
    }
  }
  // Each of them is put to the test.
  EXPECT_GT(ended, 10);
  EXPECT_GT(longest, 10);
  EXPECT_GT(by_early, 0);
}

// Where only the last tokens of a table may come, they do.
TEST_F(BeamsTest, OfFewTokens) {
  const std::vector<int64_t> suppressed = AllBut({33, 35, 36, 39});
  const std::string folder = T5(1, {{"suppress_tokens", suppressed}});
  const auto model = Load(folder, {.slots = 3, .context = 32}), single = Load(folder);
  ASSERT_NE(model, nullptr);
  for (int64_t i = 0; i < 4; ++i) {
    const std::vector<int64_t> source = Source(5, i);
    ASSERT_TRUE(single->Encode(0, {source, nullptr}));
    const std::vector<int64_t> expected = Searched(*single, {3, {}, 1, false, 6, suppressed});
    Writer writer(*model, std::nullopt, {});
    EXPECT_EQ(writer.Write(source, {.max_tokens = 6, .beams = 3})->tokens, expected) << i;
  }
}

// Probabilities that float32 has no number for count for nothing.
TEST_F(BeamsTest, LogitsThatAreFarApart) {
  const std::string folder = T5(1, {}, 100);
  const auto model = Load(folder, {.slots = 3, .context = 32}), single = Load(folder);
  ASSERT_NE(model, nullptr);
  float apart = 0;
  for (int64_t i = 0; i < 4; ++i) {
    const std::vector<int64_t> source = Source(5, i);
    ASSERT_TRUE(single->Encode(0, {source, nullptr}));
    const std::vector<float> logits = Copy(single->Append(0, std::vector<int64_t>{0}));
    apart = std::max(apart, std::ranges::max(logits) - std::ranges::min(logits));
    const SearchJob job{3, {}, 1, false, 6};
    const std::vector<int64_t> expected = Searched(*single, job);
    Writer writer(*model, std::nullopt, {});
    EXPECT_EQ(writer.Write(source, {.max_tokens = 6, .beams = 3})->tokens, expected) << i;
  }
  EXPECT_GT(apart, 200);
}

TEST_F(BeamsTest, LogitsThatAreNoNumbers) {
  const auto model = Load(T5(1, {}, NAN), {.slots = 2, .context = 32});
  ASSERT_NE(model, nullptr);
  Writer writer(*model, std::nullopt, {});
  const auto text = writer.Write(Source(5, 1), {.beams = 2});
  ASSERT_FALSE(text);
  EXPECT_EQ(text.error().message(), "a logit that is no number");
}

TEST_F(BeamsTest, EndWithTheContext) {
  const auto model = Load(T5(1), {.slots = 2, .context = 16});
  Writer writer(*model, std::nullopt, {});
  const auto text = writer.Write(Source(5, 1), {.max_tokens = 100, .beams = 2});
  ASSERT_TRUE(text) << text.error().message();
  EXPECT_EQ(text->ended, Ended::kContext);
  EXPECT_EQ(text->tokens.size(), 15u) << "behind what begins it";
  EXPECT_GT(text->host_ms, 0);
  EXPECT_GT(text->decode_ms, text->host_ms);
}

TEST_F(BeamsTest, WhatHasNoMeaningIsRefused) {
  const auto model = Load(Folder(1), {.slots = 2});
  Writer writer(*model, std::nullopt, {});
  const auto refused = [&](GenerateOptions options) {
    options.beams = 2;
    const auto text = writer.Write(Tokens(3), options);
    return text ? "" : text.error().message();
  };
  constexpr char kPenalty[] =
      "beams take the likeliest texts: they take no penalty of tokens that a text has";
  EXPECT_EQ(refused({.sampling = {.repeat_penalty = 1.5}}), kPenalty);
  EXPECT_EQ(refused({.sampling = {.presence_penalty = 0.5}}), kPenalty);
  EXPECT_EQ(refused({.sampling = {.frequency_penalty = 0.5}}), kPenalty);
  constexpr char kScores[] = "beams take the likeliest texts: they take no scores of single tokens";
  EXPECT_EQ(refused({.likeliest = 2}), kScores);
  EXPECT_EQ(refused({.score_prompt = true}), kScores);
  EXPECT_EQ(refused({.length_penalty = 101}), "a length penalty of 101, expected -100 to 100");
  EXPECT_EQ(refused({.length_penalty = -101}), "a length penalty of -101, expected -100 to 100");
  EXPECT_EQ(refused({.max_tokens = 1, .length_penalty = -100}), "");
}

}  // namespace
}  // namespace evoq
