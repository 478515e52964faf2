#include "generate/sequences.h"

#include <map>

#include "generate/generate_testing.h"

namespace evoq {
namespace {

using namespace generate_test;

class SequencesTest : public GenerateTest {};

TEST_F(SequencesTest, ManyAtATimeAreThoseOfEach) {
  const auto model = Load(Folder(1), {.slots = 3}), single = Load(Folder(1));
  ASSERT_NE(model, nullptr);
  std::vector<Request> requests;
  for (int64_t i = 0; i < 7; ++i)
    requests.push_back({Tokens(3 + 5 * i % 11, i), {.max_tokens = 1 + 4 * i % 9}});
  requests[4].options.sampling = {.temperature = 0.8, .top_k = 20, .seed = 7};
  requests[5].options.max_tokens = 500;  // to the end of the context
  const auto texts = GenerateMany(*model, std::nullopt, {}, requests);
  ASSERT_TRUE(texts) << texts.error().message();
  ASSERT_EQ(texts->size(), requests.size());
  for (size_t i = 0; i < requests.size(); ++i) {
    single->Truncate(0, 0);
    Writer alone(*single, std::nullopt, {});
    const auto text = alone.Write(requests[i].prompt, requests[i].options);
    ASSERT_TRUE(text);
    EXPECT_EQ((*texts)[i].tokens, text->tokens) << i;
    EXPECT_EQ((*texts)[i].ended, text->ended) << i;
    EXPECT_GE((*texts)[i].host_ms, 0);
    EXPECT_LE((*texts)[i].host_ms, (*texts)[i].decode_ms);
    EXPECT_EQ((*texts)[i].prompt_tokens, static_cast<int64_t>(requests[i].prompt.size()));
  }
  EXPECT_EQ((*texts)[5].ended, Ended::kContext);
}

// Texts that begin and end at any time, beside others, are those that each is alone; what a prompt
// has in common with any sequence is not run.
TEST_F(SequencesTest, SequencesKeepWhatTheyHold) {
  const auto model = Load(Folder(1), {.slots = 4}), single = Load(Folder(1));
  ASSERT_NE(model, nullptr);
  Sequences sequences(*model, std::nullopt, {});
  std::map<size_t, Generated> texts;
  const auto ended = [&](size_t number, Result<Generated> text) {
    ASSERT_TRUE(text) << text.error().message();
    EXPECT_TRUE(texts.emplace(number, std::move(*text)).second);
  };
  std::map<size_t, std::vector<int64_t>> prompts;
  const auto begin = [&](size_t number, std::vector<int64_t> prompt, int64_t count) {
    const Status begun = sequences.Begin(number, prompt, {.max_tokens = count});
    ASSERT_TRUE(begun) << begun.error().message();
    prompts[number] = std::move(prompt);
  };
  const auto all = [&] {
    while (sequences.active() > 0) sequences.Advance(ended);
  };
  begin(0, Tokens(8, 1), 3);
  begin(1, Tokens(11, 2), 9);
  sequences.Advance(ended);
  begin(2, Tokens(5, 3), 2);
  begin(3, Tokens(8, 1), 12);  // what the first one's cache has
  EXPECT_EQ(sequences.idle(), 0);
  sequences.Advance(ended);
  sequences.Advance(ended);
  EXPECT_EQ(sequences.idle(), 2) << "the first and the third have ended";
  const auto left = sequences.Leave(1);
  ASSERT_TRUE(left);
  EXPECT_EQ(left->ended, Ended::kCaller);
  texts[1] = *left;
  EXPECT_EQ(texts[1].tokens.size(), 4u);
  all();
  EXPECT_EQ(texts[0].prompt_tokens, 8);
  EXPECT_EQ(texts[3].prompt_tokens, 1) << "7 of 8 were copied";
  // Conversations go on; one that is new takes nobody's sequence while one is older.
  for (const size_t number : {size_t{0}, size_t{1}, size_t{3}}) {
    std::vector<int64_t> longer = prompts[number];
    longer.insert(longer.end(), texts[number].tokens.begin(), texts[number].tokens.end());
    longer.push_back(7);
    begin(10 + number, longer, 2 + static_cast<int64_t>(number));
  }
  begin(14, Tokens(9, 60), 7);
  all();
  for (const size_t number : {10, 11, 13})
    EXPECT_EQ(texts[number].prompt_tokens, 2) << number << ": the last token, and one more";
  EXPECT_EQ(texts[14].prompt_tokens, 9);
  // Conversation 10 ended first: a new prompt takes its sequence and no other.
  begin(15, Tokens(9, 80), 3);
  all();
  for (const size_t number : {size_t{11}, size_t{13}, size_t{14}}) {
    std::vector<int64_t> longer = prompts[number];
    longer.insert(longer.end(), texts[number].tokens.begin(), texts[number].tokens.end());
    begin(20 + number, longer, 2);
    all();
    EXPECT_EQ(texts[20 + number].prompt_tokens, 1) << number << ": its last token";
  }
  // A prompt of its own runs whole where it is scored, and what fails fails for it alone.
  std::vector<int64_t> told;
  const GenerateOptions scored{.max_tokens = 0, .likeliest = 2, .score_prompt = true};
  ASSERT_TRUE(sequences.Begin(40, prompts[0], scored, nullptr, [&](ScoredToken token) {
    told.push_back(token.token);
    EXPECT_EQ(token.likeliest.size(), token.logprob ? 2u : 0u);
  }));
  EXPECT_EQ(sequences.Begin(41, Tokens(65), {}).error().message(),
            "the context is full: a prompt of 65 tokens, expected at most 64");
  all();
  EXPECT_EQ(told, prompts[0]);
  EXPECT_EQ(texts[40].prompt_tokens, 8);
  EXPECT_TRUE(texts[40].tokens.empty());
  for (const auto& [number, prompt] : prompts) {
    single->Truncate(0, 0);
    Writer alone(*single, std::nullopt, {});
    const auto count = static_cast<int64_t>(texts[number].tokens.size());
    const auto text = alone.Write(prompt, {.max_tokens = count});
    ASSERT_TRUE(text);
    EXPECT_EQ(texts[number].tokens, text->tokens) << number;
  }
}

// Prompts are run in the order that they came in, and hold up others by one piece at a time.
TEST_F(SequencesTest, LongPromptsBesideTexts) {
  const auto model = Load(Folder(1, 1, 2048), {.slots = 3});
  ASSERT_NE(model, nullptr);
  Sequences sequences(*model, std::nullopt, {});
  std::vector<size_t> ends;
  const auto ended = [&](size_t number, const Result<Generated>& text) {
    ASSERT_TRUE(text);
    ends.push_back(number);
  };
  int short_tokens = 0;
  ASSERT_TRUE(sequences.Begin(0, Tokens(3), {.max_tokens = 100}, nullptr,
                              [&](const ScoredToken&) { ++short_tokens; }));
  sequences.Advance(ended);
  EXPECT_EQ(short_tokens, 2);
  ASSERT_TRUE(sequences.Begin(1, Tokens(1200, 2), {.max_tokens = 1}));
  ASSERT_TRUE(sequences.Begin(2, Tokens(40, 1), {.max_tokens = 1}));
  for (int run = 0; run < 2; ++run) sequences.Advance(ended);
  EXPECT_TRUE(ends.empty());
  EXPECT_EQ(short_tokens, 4);
  sequences.Advance(ended);  // the rest of it, and the other
  EXPECT_EQ(ends, (std::vector<size_t>{1, 2}));
  EXPECT_EQ(short_tokens, 5);
}

}  // namespace
}  // namespace evoq
