#include "generate/generate.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>

#include "base/memory.h"
#include "generate/generate_testing.h"
#include "generate/model_tokenizer.h"
#include "generate/sequences.h"
#include "generate/text_under_way.h"
#include "llm/import.h"
#include "llm/random_folder.h"
#include "llm/test_files.h"
#include "program/etm.h"
#include "tokenizer/gguf.h"

namespace evoq {
namespace {

using namespace generate_test;

// What a token's logits are depends on no neighbour, whatever the caches hold; narrow caches err
// little and take the room that they say.
TEST_F(GenerateTest, CachesOfOtherTypes) {
  const std::string path = Folder(1);
  const auto plain = Load(path, {.slots = 2});
  ASSERT_NE(plain, nullptr);
  const std::vector<int64_t> tokens = Tokens(40);
  const std::vector<float> wanted = Copy(plain->Append(0, tokens, 40));
  const struct {
    const char* type;
    double most, share;  // of an error, to all logits; of float32's bytes
  } kTypes[] = {{"float32", 0, 1}, {"float16", 1e-3, 0.5}, {"int8", 2e-2, (8 + 2) / 32.0}};
  for (const auto& [type, most, share] : kTypes) {
    SCOPED_TRACE(type);
    const auto model = Load(path, {.slots = 2, .type = type});
    ASSERT_NE(model, nullptr);
    EXPECT_EQ(static_cast<double>(model->cache_bytes()),
              share * static_cast<double>(plain->cache_bytes()));
    const std::vector<float> got = Copy(model->Append(0, tokens, 40));
    ASSERT_EQ(got.size(), wanted.size());
    double error = 0, all = 0;
    for (size_t i = 0; i < got.size(); ++i) {
      error += std::pow(got[i] - wanted[i], 2);
      all += std::pow(wanted[i], 2);
    }
    EXPECT_LE(std::sqrt(error / all), most);
    EXPECT_EQ(error == 0, most == 0);
    // Token by token beside another sequence, and from what was taken out of the slot.
    ASSERT_TRUE(model->Append(1, std::span(tokens).first(39)));
    const std::vector<Tensor> taken = model->Take(1);
    ExpectNear(Copy(model->Append(1, std::span(tokens).last(1))), std::span(got).last(kVocabulary));
    model->Truncate(1, 0);
    ASSERT_TRUE(model->Give(1, taken));
    ExpectNear(Copy(model->Append(1, std::span(tokens).last(1))), std::span(got).last(kVocabulary));
  }
  const auto refused = CachedModel::Load(path, {.type = "int3"});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().message(), "a cache of 'int3', expected float32, float16 or int8");
}

TEST_F(GenerateTest, LogitsDependOnTokensAndNotOnHowTheyCome) {
  const auto model = Load(Folder(1), {.slots = 2});
  ASSERT_NE(model, nullptr);
  EXPECT_EQ(model->vocabulary(), kVocabulary);
  EXPECT_EQ(model->context(), kContext);
  EXPECT_EQ(model->cache_bytes(), 2 * 2 * 2 * 2 * kContext * 8 * 4);
  const std::vector<int64_t> tokens = Tokens(23);
  const std::vector<float> all = Copy(model->Append(0, tokens, 5));
  ASSERT_EQ(all.size(), 5u * kVocabulary);
  EXPECT_EQ(model->length(0), 23);
  EXPECT_EQ(model->length(1), 0);
  for (size_t i = 0; i < tokens.size(); ++i) {
    const std::vector<float> one = Copy(model->Append(1, std::span(tokens).subspan(i, 1)));
    if (i + 5 < tokens.size()) continue;
    const size_t at = (i + 5 - tokens.size()) * kVocabulary;
    ExpectNear(one, std::span(all).subspan(at, kVocabulary));
  }
  // What was forgotten leaves no trace.
  model->Truncate(0, 7);
  Copy(model->Append(0, Tokens(9, 50)));
  model->Truncate(0, 7);
  ExpectNear(Copy(model->Append(0, std::span(tokens).subspan(7), 5)), all);
}

TEST_F(GenerateTest, TheContextIsFilledToItsLastToken) {
  const auto model = Load(Folder(1), {.context = 45});
  ASSERT_NE(model, nullptr);
  const std::vector<int64_t> tokens = Tokens(45);
  const std::vector<float> all = Copy(model->Append(0, tokens));
  model->Truncate(0, 0);
  Copy(model->Append(0, std::span(tokens).first(31)));
  ExpectNear(Copy(model->Append(0, std::span(tokens).subspan(31))), all);
  EXPECT_EQ(model->length(0), 45);
  const auto full = model->Append(0, Tokens(1));
  ASSERT_FALSE(full);
  EXPECT_EQ(full.error().message(),
            "the context is full: 45 tokens and 1 more, expected at most 45");
  EXPECT_EQ(model->length(0), 45);
}

// A window or drafts may end where the context does: what is wanted then comes of several runs.
TEST_F(GenerateTest, LogitsOfSeveralRuns) {
  const auto model = Load(Folder(1), {.context = 45}), single = Load(Folder(1));
  ASSERT_NE(model, nullptr);
  ASSERT_NE(single, nullptr);
  const std::vector<int64_t> tokens = Tokens(45);
  std::vector<float> rows;
  for (size_t i = 0; i < tokens.size(); ++i) {
    const std::vector<float> row = Copy(single->Append(0, std::span(tokens).subspan(i, 1)));
    rows.insert(rows.end(), row.begin(), row.end());
  }
  for (const int64_t wanted : {1, 2, 13, 20, 44, 45}) {
    model->Truncate(0, 0);
    const std::vector<float> all = Copy(model->Append(0, tokens, wanted));
    ExpectNear(all, std::span(rows).last(static_cast<size_t>(wanted * kVocabulary)));
  }
}

TEST_F(GenerateTest, RunsTakeNoMoreRowsThanTheyNeed) {
  const auto model = Load(Folder(1, 1, 2048), {.slots = 3, .context = 1024});
  ASSERT_NE(model, nullptr);
  const auto compiled = [&](const std::vector<int64_t>& tokens) {
    const auto before = model->engine().prepared().count;
    model->Truncate(0, 0);
    Copy(model->Append(0, tokens));
    return model->engine().prepared().count - before;
  };
  ASSERT_TRUE(model->Prepare(300, 3));  // 256 and 64; one, two and three sequences
  EXPECT_EQ(model->engine().prepared().count, 5);
  EXPECT_EQ(compiled(Tokens(300)), 0);
  EXPECT_EQ(compiled(Tokens(320)), 0);
  EXPECT_EQ(compiled(Tokens(256)), 0);
  EXPECT_EQ(compiled(Tokens(500)), 1);  // 512
  const std::vector<int64_t> three = {1, 2, 3};
  for (size_t count = 3; count > 0; --count) Copy(model->Step(0, std::span(three).first(count)));
  EXPECT_EQ(model->engine().prepared().count, 6);
  const double before = model->run_ms();
  Copy(model->Step(0, three));
  EXPECT_GT(model->run_ms(), before);
}

TEST_F(GenerateTest, CachesThatMemoryDoesNotHold) {
  if (MemoryLimitBytes() >= int64_t{1} << 36) GTEST_SKIP() << "64 GB of memory";
  const std::string folder = Folder(1, 64, 32768);
  const auto model = CachedModel::Load(folder, {.threads = 1, .slots = 256, .context = 32768});
  ASSERT_FALSE(model);
  EXPECT_EQ(model.error().code(), ErrorCode::kTooLarge);
  EXPECT_NE(model.error().message().find("caches of 32768 tokens for 256 sequences take"),
            std::string::npos)
      << model.error().message();
}

TEST_F(GenerateTest, WhatAModelRefuses) {
  const std::string folder = Folder(1);
  const auto model = Load(folder);
  ASSERT_NE(model, nullptr);
  const std::vector<int64_t> wrong = {5, kVocabulary};
  EXPECT_EQ(model->Append(0, wrong).error().message(), "token 96, expected 0 to 95");
  EXPECT_EQ(model->Append(0, {}).error().message(), "no tokens");
  EXPECT_EQ(model->length(0), 0);
  const auto refused = [&](CacheOptions options) {
    const auto loaded = CachedModel::Load(folder, options);
    return loaded ? std::string() : loaded.error().message();
  };
  EXPECT_EQ(refused({.context = 65}), folder + ": a context of 65 tokens, expected at most 64");
  EXPECT_EQ(refused({.slots = 0}), "0 sequences, expected 1 to 256");
}

TEST_F(GenerateTest, SlotsHaveSequencesOfTheirOwn) {
  const auto model = Load(Folder(1), {.slots = 4}), alone = Load(Folder(1));
  ASSERT_NE(model, nullptr);
  ASSERT_NE(alone, nullptr);
  const std::vector<int64_t> next = {11, 22, 33};
  for (int64_t slot = 0; slot < 3; ++slot) Copy(model->Append(slot, Tokens(4 + 3 * slot, slot)));
  const std::vector<float> together = Copy(model->Step(0, next));
  for (int64_t slot = 0; slot < 3; ++slot) {
    alone->Truncate(0, 0);
    Copy(alone->Append(0, Tokens(4 + 3 * slot, slot)));
    ExpectNear(Copy(alone->Append(0, std::span(next).subspan(slot, 1))),
               std::span(together).subspan(slot * kVocabulary, kVocabulary));
    EXPECT_EQ(model->length(slot), 5 + 3 * slot);
  }
  EXPECT_EQ(model->length(3), 0);
  // Slot 2's sequence goes on in slot 0.
  ASSERT_TRUE(model->Give(0, model->Take(2)));
  ExpectNear(Copy(model->Append(0, Tokens(2))), Copy(model->Append(2, Tokens(2))));
}

TEST(StopTexts, HoldBackWhatMayBegin) {
  StopTexts stop({"END", "\n\n"});
  EXPECT_EQ(stop.Next("one E"), "one ");
  EXPECT_EQ(stop.Next("N"), "");
  EXPECT_EQ(stop.Next("T"), "ENT");
  EXPECT_EQ(stop.Next("\n"), "");
  EXPECT_EQ(stop.Next("\nmore"), "");
  EXPECT_TRUE(stop.stopped());
  EXPECT_EQ(stop.Next("END"), "");
  EXPECT_EQ(stop.Finish(), "");
  StopTexts other({"abcab", "bcax"});
  EXPECT_EQ(other.Next("zabca"), "z");
  EXPECT_EQ(other.Next("x"), "a");
  EXPECT_TRUE(other.stopped());
  StopTexts none({});
  EXPECT_EQ(none.Next("abc"), "abc");
  StopTexts rest({"abc"});
  EXPECT_EQ(rest.Next("xab"), "x");
  EXPECT_FALSE(rest.stopped());
  EXPECT_EQ(rest.Finish(), "ab");
}

// What is held back is given at the end, but to a caller who wants no more.
TEST(TextUnderWay, WhoEndsATextHearsNoMoreOfIt) {
  const GgufTokenizer gguf{.model = "llama",
                           .tokens = {"<unk>", "<s>", "</s>",
                                      "\xE2\x96\x81"
                                      "a1"},
                           .scores = {0, 0, 0, 0},
                           .token_type = {2, 3, 3, 1}};
  const std::optional<Tokenizer> tokenizer = *TokenizerFromGguf(gguf);
  const GenerateOptions options{.stop = {"1!"}};
  for (const bool more : {true, false}) {
    std::vector<std::string> heard;
    TextUnderWay text(tokenizer, std::vector<int64_t>{3}, {}, options, [&](std::string_view piece) {
      heard.emplace_back(piece);
      return more;
    });
    EXPECT_EQ(*text.Take(3), more);
    const auto out = text.Finish();
    ASSERT_TRUE(out);
    EXPECT_EQ(heard, more ? (std::vector<std::string>{" a", "1"}) : std::vector<std::string>{" a"});
    EXPECT_EQ(out->text, more ? " a1" : " a");
    EXPECT_EQ(out->ended, more ? Ended::kMaxTokens : Ended::kCaller);
  }
}

TEST_F(GenerateTest, APromptRunsOnlyWhatIsNew) {
  const auto model = Load(Folder(1)), other = Load(Folder(1));
  ASSERT_NE(model, nullptr);
  Writer writer(*model, std::nullopt, {});
  const auto first = writer.Write(Tokens(10), {.max_tokens = 6});
  ASSERT_TRUE(first) << first.error().message();
  EXPECT_EQ(first->tokens.size(), 6u);
  EXPECT_EQ(first->prompt_tokens, 10);
  EXPECT_EQ(first->ended, Ended::kMaxTokens);
  EXPECT_EQ(first->text, "");
  // The prompt, what was written, and more: the last token written was never run.
  std::vector<int64_t> longer = Tokens(10);
  longer.insert(longer.end(), first->tokens.begin(), first->tokens.end());
  longer.push_back(42);
  const auto second = writer.Write(longer, {.max_tokens = 4});
  ASSERT_TRUE(second);
  EXPECT_EQ(second->prompt_tokens, 2);
  Writer fresh(*other, std::nullopt, {});
  const auto whole = fresh.Write(longer, {.max_tokens = 4});
  ASSERT_TRUE(whole);
  EXPECT_EQ(whole->prompt_tokens, 17);
  EXPECT_EQ(whole->tokens, second->tokens);
  // A prompt that the cache has already runs its last token again.
  const auto again = writer.Write(longer, {.max_tokens = 4});
  ASSERT_TRUE(again);
  EXPECT_EQ(again->prompt_tokens, 1);
  EXPECT_EQ(again->tokens, second->tokens);
}

TEST_F(GenerateTest, RunByRun) {
  const auto model = Load(Folder(1, 1, 2048), {.context = 1300});
  ASSERT_NE(model, nullptr);
  Writer writer(*model, std::nullopt, {});
  const GenerateOptions options{.max_tokens = 6};
  const auto all = writer.Write(Tokens(1200), options);
  ASSERT_TRUE(all) << all.error().message();
  writer.Forget();
  EXPECT_TRUE(writer.tokens().empty());
  auto text = writer.Begin(Tokens(1200), options);
  ASSERT_TRUE(text) << text.error().message();
  EXPECT_TRUE(writer.tokens().empty()) << "nothing has run yet";
  std::vector<size_t> held;  // behind each run
  for (bool more = true; more;) {
    const auto advanced = text->Advance();
    ASSERT_TRUE(advanced) << advanced.error().message();
    more = *advanced;
    held.push_back(writer.tokens().size());
  }
  EXPECT_EQ(held, (std::vector<size_t>{512, 1024, 1200, 1201, 1202, 1203, 1204, 1205}));
  EXPECT_FALSE(text->Advance().value()) << "it has ended";
  const auto written = text->Finish();
  ASSERT_TRUE(written);
  EXPECT_EQ(written->tokens, all->tokens);
  EXPECT_EQ(written->ended, Ended::kMaxTokens);
  EXPECT_EQ(written->prompt_tokens, 1200);
  EXPECT_GT(written->prompt_ms, 0);
  EXPECT_GT(written->decode_ms, written->host_ms);
  // Left before its end, and left for another.
  auto left = writer.Begin(Tokens(3), options);
  ASSERT_TRUE(left->Advance().value());
  auto given_up = writer.Begin(Tokens(4), options);
  ASSERT_TRUE(given_up->Advance().value());
  EXPECT_EQ(left->Advance().error().message(),
            "the text was given up: its model has begun something else");
  const auto short_one = given_up->Finish();
  EXPECT_EQ(short_one->ended, Ended::kCaller);
  EXPECT_EQ(short_one->tokens.size(), 1u);
}

TEST_F(GenerateTest, CancelledBetweenRuns) {
  const auto model = Load(Folder(1), {.slots = 2});
  ASSERT_NE(model, nullptr);
  Writer writer(*model, std::nullopt, {});
  int asked = 0;
  const auto at_the_fourth = [&] { return ++asked == 4; };
  const auto text = writer.Write(Tokens(5), {.max_tokens = 9}, nullptr, at_the_fourth);
  ASSERT_TRUE(text);
  EXPECT_EQ(text->ended, Ended::kCaller);
  EXPECT_EQ(text->tokens.size(), 3u);
  std::vector<Request> requests(3, {Tokens(5), {.max_tokens = 9}});
  requests[0].options.max_tokens = 2;
  asked = 0;
  const auto texts = GenerateMany(*model, std::nullopt, {}, requests, nullptr, at_the_fourth);
  writer.Forget();
  ASSERT_TRUE(texts);
  const auto count = [&](size_t i) { return (*texts)[i].tokens.size(); };
  // Two are begun; the first makes room for the third.
  EXPECT_EQ((std::vector<size_t>{count(0), count(1), count(2)}), (std::vector<size_t>{2, 4, 3}));
  EXPECT_EQ((*texts)[0].ended, Ended::kMaxTokens);
  EXPECT_EQ((*texts)[1].ended, Ended::kCaller);
  EXPECT_EQ((*texts)[2].ended, Ended::kCaller);
  asked = 3;
  const auto none = GenerateMany(*model, std::nullopt, {}, requests, nullptr, at_the_fourth);
  ASSERT_TRUE(none);
  for (const Generated& one : *none) {
    EXPECT_EQ(one.ended, Ended::kCaller);
    EXPECT_TRUE(one.tokens.empty());
  }
}

TEST_F(GenerateTest, LogitsOfASequence) {
  const auto model = Load(Folder(1)), plain = Load(Folder(1));
  ASSERT_NE(model, nullptr);
  ASSERT_NE(plain, nullptr);
  Writer writer(*model, std::nullopt, {});
  std::vector<int64_t> tokens = Tokens(20);
  const std::vector<float> rows = Copy(plain->Append(0, tokens, 20));
  ExpectNear(Copy(writer.Logits(tokens, 20)), rows);
  EXPECT_EQ(writer.tokens(), tokens);
  ExpectNear(Copy(writer.Logits(tokens, 3)), std::span(rows).last(3 * kVocabulary));
  tokens.resize(12);
  ExpectNear(Copy(writer.Logits(tokens, 1)),
             std::span(rows).subspan(11 * kVocabulary, kVocabulary));
  EXPECT_EQ(model->length(0), 12);
  // A text goes on from there.
  const auto text = writer.Write(tokens, {.max_tokens = 2});
  ASSERT_TRUE(text);
  EXPECT_EQ(text->prompt_tokens, 1);
  for (const int64_t wanted : {0, 13})
    EXPECT_EQ(writer.Logits(tokens, wanted).error().message(),
              fmt::format("the logits of {} tokens, expected of 1 to 12", wanted));
  EXPECT_EQ(writer.Logits(Tokens(65), 1).error().message(),
            "the context is full: a prompt of 65 tokens, expected at most 64");
  EXPECT_EQ(writer.Logits({}, 1).error().message(), "a prompt of no tokens");
}

TEST_F(GenerateTest, WhatEndsAText) {
  const auto model = Load(Folder(1));
  ASSERT_NE(model, nullptr);
  Writer plain(*model, std::nullopt, {});
  const auto all = plain.Write(Tokens(5), {.max_tokens = 8});
  ASSERT_TRUE(all);
  const std::vector<int64_t>& tokens = all->tokens;
  size_t at = 1;  // of a token that did not come before
  while (std::find(tokens.begin(), tokens.begin() + at, tokens[at]) != tokens.begin() + at) ++at;
  Writer ends(*model, std::nullopt, {tokens[at]});
  const auto ended = ends.Write(Tokens(5), {.max_tokens = 8});
  ASSERT_TRUE(ended);
  EXPECT_EQ(ended->ended, Ended::kEndToken);
  EXPECT_EQ(ended->tokens, std::vector<int64_t>(tokens.begin(), tokens.begin() + at));
  const auto ignored = ends.Write(Tokens(5), {.max_tokens = 8, .ignore_end = true});
  ASSERT_TRUE(ignored);
  EXPECT_EQ(ignored->tokens, tokens);
  const auto full = plain.Write(Tokens(60), {.max_tokens = 100});
  ASSERT_TRUE(full);
  EXPECT_EQ(full->ended, Ended::kContext);
  EXPECT_EQ(full->tokens.size(), 5u);  // four in the cache, the last one beyond it
  EXPECT_EQ(plain.Write({}, {}).error().message(), "a prompt of no tokens");
  EXPECT_EQ(plain.Write(Tokens(2), {.max_tokens = 0}).error().message(),
            "0 tokens at most, expected 1 or more");
  EXPECT_FALSE(plain.Write(Tokens(65), {}));
}

// What is made ready for runs of new sizes, of the model and of the draft, is none of host_ms.
TEST_F(GenerateTest, PreparingRunsIsNoTimeOutsideOfThem) {
  bool small = false;
  for (int i = 0; i < 8 && !small; ++i) {  // on a busy machine host_ms may be anything
    const auto model = Load(Folder(1)), draft = Load(Folder(1));
    Writer writer(*model, std::nullopt, {}, draft.get());
    const auto text = writer.Write(Tokens(9), {.max_tokens = 20});
    ASSERT_TRUE(text);
    small = text->host_ms < 0.5 * text->decode_ms;
  }
  EXPECT_TRUE(small);
  const auto model = Load(Folder(1)), draft = Load(Folder(1));
  EXPECT_TRUE(PrepareDraft(*model, *draft, 9));
  const auto narrow = Load(Folder(1), {.context = 6});
  EXPECT_TRUE(PrepareDraft(*narrow, *narrow, 9));
}

// A text is the end of what its prompt and it are together: the space that SentencePiece strips
// stands at the beginning of both, not between them.
TEST_F(GenerateTest, ATextContinuesItsPrompt) {
  const auto model = Load(Folder(1), {.slots = 2});
  ASSERT_NE(model, nullptr);
  GgufTokenizer gguf{.model = "llama", .tokens = {"<unk>", "<s>", "</s>"}, .token_type = {2, 3, 3}};
  while (std::ssize(gguf.tokens) < kVocabulary) {
    gguf.tokens.push_back("\xE2\x96\x81w" + std::to_string(gguf.tokens.size()));
    gguf.token_type.push_back(1);
  }
  gguf.scores.assign(gguf.tokens.size(), 0);
  const auto tokenizer = TokenizerFromGguf(gguf);
  ASSERT_TRUE(tokenizer) << tokenizer.error().message();
  Writer writer(*model, *tokenizer, {});
  const std::vector<int64_t> prompt = Tokens(5), begin = {1};
  std::string streamed;
  const auto text = writer.Write(prompt, {.max_tokens = 4}, [&](std::string_view piece) {
    streamed += piece;
    return true;
  });
  ASSERT_TRUE(text);
  std::vector<int64_t> all = prompt;
  all.insert(all.end(), text->tokens.begin(), text->tokens.end());
  EXPECT_EQ(*tokenizer->Decode(prompt) + text->text, *tokenizer->Decode(all));
  EXPECT_TRUE(text->text.starts_with(" w")) << text->text;
  EXPECT_EQ(streamed, text->text);
  const std::vector<Request> requests = {{prompt, {.max_tokens = 4}}, {begin, {.max_tokens = 1}}};
  const auto many = GenerateMany(*model, *tokenizer, {}, requests);
  ASSERT_TRUE(many);
  EXPECT_EQ((*many)[0].text, text->text);
  EXPECT_EQ((*many)[1].text, *tokenizer->Decode((*many)[1].tokens)) << "nothing stands before it";
}

TEST_F(GenerateTest, DraftsChangeNothing) {
  const auto model = Load(Folder(1)), same = Load(Folder(1)), other = Load(Folder(2, 1));
  ASSERT_NE(other, nullptr);
  Writer alone(*model, std::nullopt, {});
  const auto expected = alone.Write(Tokens(9), {.max_tokens = 40});
  ASSERT_TRUE(expected);
  EXPECT_EQ(expected->drafted, 0);
  for (CachedModel* draft : {same.get(), other.get()}) {
    model->Truncate(0, 0);
    Writer writer(*model, std::nullopt, {}, draft);
    const auto text = writer.Write(Tokens(9), {.max_tokens = 40});
    ASSERT_TRUE(text) << text.error().message();
    EXPECT_EQ(text->tokens, expected->tokens);
    EXPECT_GT(text->drafted, 0);
    if (draft == same.get()) EXPECT_GE(text->accepted, text->drafted - 7);
    if (draft == other.get()) EXPECT_LT(text->accepted, text->drafted);
    // Goes on where it ended.
    std::vector<int64_t> longer = Tokens(9);
    longer.insert(longer.end(), text->tokens.begin(), text->tokens.end());
    const auto more = writer.Write(longer, {.max_tokens = 5});
    ASSERT_TRUE(more);
    EXPECT_LE(more->prompt_tokens, 2);
  }
  // To the context's end, which no chunk ends at.
  const auto narrow = Load(Folder(1), {.context = 45}), draft = Load(Folder(1));
  Writer plain(*narrow, std::nullopt, {});
  const auto full = plain.Write(Tokens(9), {.max_tokens = 500});
  ASSERT_TRUE(full);
  narrow->Truncate(0, 0);
  Writer drafting(*narrow, std::nullopt, {}, draft.get());
  const auto drafted = drafting.Write(Tokens(9), {.max_tokens = 500});
  ASSERT_TRUE(drafted) << drafted.error().message();
  EXPECT_EQ(drafted->tokens, full->tokens);
  EXPECT_EQ(drafted->ended, Ended::kContext);
  EXPECT_GE(drafted->host_ms, 0);
  EXPECT_LE(drafted->host_ms, drafted->decode_ms);
  Writer writer(*model, std::nullopt, {}, other.get());
  EXPECT_EQ(writer.Write(Tokens(3), {.sampling = {.temperature = 1}}).error().message(),
            "a draft model needs greedy choices: temperature 0");
}

TEST_F(GenerateTest, WhatTokensAreGiven) {
  const auto model = Load(Folder(1)), plain = Load(Folder(1));
  ASSERT_NE(model, nullptr);
  const std::vector<int64_t> prompt = Tokens(20);
  const std::vector<float> rows = Copy(plain->Append(0, prompt, 20));
  Writer writer(*model, std::nullopt, {});
  std::vector<ScoredToken> told;
  const auto tell = [&](ScoredToken token) { told.push_back(std::move(token)); };
  auto text = writer.Begin(
      prompt, {.max_tokens = 2, .likeliest = kVocabulary, .score_prompt = true}, nullptr, tell);
  ASSERT_TRUE(text) << text.error().message();
  while (text->Advance().value()) {
  }
  const auto written = text->Finish();
  ASSERT_EQ(told.size(), 22u);
  for (size_t i = 0; i < 21; ++i) {
    EXPECT_EQ(told[i].token, i < 20 ? prompt[i] : written->tokens[0]);
    if (i == 0) {
      EXPECT_FALSE(told[i].logprob);
      continue;
    }
    ASSERT_EQ(told[i].likeliest.size(), static_cast<size_t>(kVocabulary));
    const std::span<const float> row = std::span(rows).subspan((i - 1) * kVocabulary, kVocabulary);
    double sum = 0, all = 0;
    for (const float logit : row) all += std::exp(static_cast<double>(logit));
    double before = INFINITY;
    for (const auto& [token, logprob] : told[i].likeliest) {
      sum += std::exp(logprob);
      EXPECT_LE(logprob, before);
      before = logprob;
      EXPECT_NEAR(logprob, row[static_cast<size_t>(token)] - std::log(all), 1e-4);
    }
    EXPECT_NEAR(sum, 1, 1e-9);
    EXPECT_NEAR(*told[i].logprob, row[static_cast<size_t>(told[i].token)] - std::log(all), 1e-4);
  }
  EXPECT_EQ(told[20].likeliest[0].token, written->tokens[0]) << "a greedy choice";
  const std::vector<float> bad = {0, NAN};
  EXPECT_FALSE(ScoreToken(bad, 0, 1));
  EXPECT_EQ(writer.Begin(prompt, {.likeliest = 1025}).error().message(),
            "the 1025 likeliest tokens, expected 0 to 1024");
}

TEST_F(GenerateTest, TokensThatEndAText) {
  const auto model = Load(Folder(1));
  ASSERT_NE(model, nullptr);
  Writer plain(*model, std::nullopt, {});
  const auto all = plain.Write(Tokens(5), {.max_tokens = 8});
  ASSERT_TRUE(all);
  const std::vector<int64_t>& tokens = all->tokens;
  // A stop token ends the text also where the model's end tokens do not.
  const auto stopped =
      plain.Write(Tokens(5), {.max_tokens = 8, .stop_tokens = {tokens[0]}, .ignore_end = true});
  ASSERT_TRUE(stopped);
  EXPECT_TRUE(stopped->tokens.empty());
  EXPECT_EQ(stopped->ended, Ended::kEndToken);
  // It is not told either.
  size_t told = 0;
  auto text = plain.Begin(Tokens(5), {.max_tokens = 8, .stop_tokens = {tokens[0]}}, nullptr,
                          [&](const ScoredToken&) { ++told; });
  ASSERT_TRUE(text);
  while (text->Advance().value()) {
  }
  EXPECT_EQ(told, 0u);
  // Neither comes before the least number of tokens.
  Writer ending(*model, std::nullopt, {tokens[0]});
  const auto later = ending.Write(Tokens(5), {.max_tokens = 8, .min_tokens = 3});
  ASSERT_TRUE(later);
  EXPECT_GE(later->tokens.size(), 3u);
  EXPECT_EQ(std::ranges::count(later->tokens, tokens[0]), 0);
  // A text that repeats itself does not where that costs much.
  const auto penalized =
      plain.Write(Tokens(5), {.max_tokens = 30, .sampling = {.presence_penalty = 100}});
  ASSERT_TRUE(penalized);
  EXPECT_EQ(std::set(penalized->tokens.begin(), penalized->tokens.end()).size(), 30u);
}

TEST_F(GenerateTest, ACacheInAFile) {
  const auto model = Load(Folder(1)), same = Load(Folder(1)), other = Load(Folder(2));
  ASSERT_NE(model, nullptr);
  Writer writer(*model, std::nullopt, {});
  const auto first = writer.Write(Tokens(20), {.max_tokens = 3});
  ASSERT_TRUE(first);
  ASSERT_TRUE(writer.Save(At("cache")));
  Writer restored(*same, std::nullopt, {});
  const Status read = restored.Restore(At("cache"));
  ASSERT_TRUE(read) << read.error().message();
  EXPECT_EQ(restored.tokens(), writer.tokens());
  const auto second = restored.Write(Tokens(20), {.max_tokens = 3});
  ASSERT_TRUE(second);
  EXPECT_EQ(second->prompt_tokens, 1);
  EXPECT_EQ(second->tokens, first->tokens);
  Writer wrong(*other, std::nullopt, {});
  EXPECT_EQ(wrong.Restore(At("cache")).error().message(),
            At("cache") + ": the cache of another model");
  EXPECT_TRUE(wrong.tokens().empty());
  const auto small = Load(Folder(1), {.context = 16});
  Writer narrow(*small, std::nullopt, {});
  EXPECT_EQ(
      narrow.Restore(At("cache")).error().message(),
      At("cache") + ": the cache of 22 tokens, expected at most the 16 that the context holds");
  std::ofstream(At("damaged")) << "EvoTiny";
  EXPECT_FALSE(restored.Restore(At("damaged")));
  EXPECT_FALSE(restored.Restore(At("absent")));
  EXPECT_EQ(restored.tokens().size(), 22u);  // as it was
}

TEST_F(GenerateTest, AModelWithoutATokenizerHasNone) {
  const auto model = Load(Folder(1));
  ASSERT_NE(model, nullptr);
  const auto none = TokenizerOf(model->graph());
  ASSERT_TRUE(none) << none.error().message();
  EXPECT_FALSE(none->tokenizer);
  std::ofstream(At("t.vocab")) << "<unk>\t0\n<s>\t0\n</s>\t0\na\t-1\nb\t-2\n";
  const auto named = TokenizerOf(model->graph(), At("t.vocab"));
  ASSERT_TRUE(named) << named.error().message();
  ASSERT_TRUE(named->tokenizer);
  // Rows without a piece are no text; most that a random model writes are.
  EXPECT_EQ(named->tokenizer->size(), kVocabulary);
  Writer writer(*model, named->tokenizer, {});
  const auto text = writer.Write(Tokens(20), {.max_tokens = 8});
  ASSERT_TRUE(text) << text.error().message();
  EXPECT_EQ(text->tokens.size(), 8u);
  EXPECT_EQ(text->text, *named->tokenizer->Decode(text->tokens));
  // So it is for the tokenizer of a model's folder alone.
  std::filesystem::copy(At("t.vocab"), At("model1/tokenizer.vocab"));
  const auto alone = LoadTokenizer(At("model1"));
  ASSERT_TRUE(alone) << alone.error().message();
  EXPECT_EQ(alone->size(), kVocabulary);
  EXPECT_EQ(LoadTokenizer(At("model1/tokenizer.vocab"))->size(), 5);
}

// Models that carry a tokenizer are as good as its files.
TEST_F(GenerateTest, TokenizersOfModelFiles) {
  const auto text = [](const char* letters) {
    return Little(8, 4) + Little(1, 8) + GgufBytes::Text(letters);
  };
  GgufBytes file;
  file.Fact("tokenizer.ggml.model", std::string("gpt2"))
      .Fact("tokenizer.ggml.pre", std::string("gpt-2"))
      .Fact("tokenizer.ggml.tokens", 9, text("a"))
      .Fact("tokenizer.ggml.merges", 9, Little(8, 4) + Little(0, 8));
  std::ofstream(At("m.gguf"), std::ios::binary) << file.Bytes();
  std::ofstream(At("none.gguf"), std::ios::binary) << GgufBytes().Bytes();
  const std::string folder = Folder(1);
  std::ofstream(folder + "/tokenizer.json")
      << R"({"model": {"type": "WordLevel", "vocab": {"a": 0, "b": 1}, "unk_token": "a"}})";
  auto graph = ImportLanguageModel(folder);
  ASSERT_TRUE(graph) << graph.error().message();
  Model model;
  model.graph = std::move(*graph);
  ASSERT_TRUE(WriteEtm(model, At("m.etm")));
  for (const char* name : {"m.gguf", "m.etm"}) {
    const auto tokenizer = LoadTokenizer(At(name));
    ASSERT_TRUE(tokenizer) << tokenizer.error().message();
    EXPECT_EQ(*tokenizer->Decode(std::vector<int64_t>{0}), "a");
  }
  EXPECT_EQ(LoadTokenizer(At("none.gguf")).error().message(),
            At("none.gguf") + ": the model carries no tokenizer");
  EXPECT_EQ(LoadTokenizer(At("nothing.gguf")).error().message().find("the model carries"),
            std::string::npos);
}

}  // namespace
}  // namespace evoq
