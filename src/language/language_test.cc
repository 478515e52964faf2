// Language models as users of the public interface call them.
#include "evoq/language.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <regex>
#include <set>
#include <thread>

#include "language/tiny_testing.h"

namespace evoq {
namespace {

namespace lm = language;

class LanguageTest : public TinyLanguageFolder {
 protected:
  lm::Model Load(lm::ModelOptions options = {}, const std::string& path = "") {
    options.threads = 1;
    auto model = lm::Model::Load(path.empty() ? Folder() : path, options, &error_);
    EXPECT_TRUE(model) << error_;
    return std::move(*model);
  }
  static lm::GenerateOptions Most(std::int64_t tokens) {
    lm::GenerateOptions options;
    options.max_tokens = tokens;
    options.ignore_end = true;
    return options;
  }
  std::string error_;
};

TEST_F(LanguageTest, Facts) {
  lm::ModelOptions options;
  options.sequences = 3;
  options.context = 40;
  const lm::Model model = Load(options);
  const lm::Facts& facts = model.facts();
  EXPECT_EQ(facts.threads, 1);
  EXPECT_EQ(facts.vocabulary, kTinyVocabulary);
  EXPECT_EQ(facts.context, 40);
  EXPECT_EQ(facts.sequences, 3);
  EXPECT_EQ(facts.cache_bytes, 3 * 2 * 2 * 2 * 40 * 8 * 4);  // keys, values, layers, heads
  EXPECT_EQ(facts.ends, std::vector<std::int64_t>{2});
  EXPECT_TRUE(facts.has_tokenizer);
  EXPECT_TRUE(facts.has_chat_template);
  options.kv_cache = "int8";  // of heads of 8: as many bytes, and a scale
  EXPECT_EQ(Load(options).facts().cache_bytes, 3 * 2 * 2 * 2 * 40 * (8 + 2));
  options.kv_cache = "";
  options.draft = Folder(2);
  EXPECT_EQ(Load(options).facts().cache_bytes, (3 * 40 + kTinyContext) * 2 * 2 * 2 * 8 * 4);
}

TEST_F(LanguageTest, FormsOfTexts) {
  lm::ModelOptions two;
  two.sequences = 2;
  two.draft = Folder(2);
  lm::Model drafted = Load(two);
  two.draft = "";
  lm::Model model = Load(two);
  lm::GenerateOptions options;
  options.max_tokens = 30;
  options.grammar = "root ::= (\"the \" | \"a \") [h-k]{3} \" \" (\"sat\" | \"ran\")";
  const auto text = model.Generate("hi", options, {}, &error_);
  ASSERT_TRUE(text) << error_;
  EXPECT_TRUE(std::regex_match(text->text, std::regex("(the|a) [h-k]{3} (sat|ran)"))) << text->text;
  EXPECT_EQ(text->ended, lm::Ended::kEndToken);
  EXPECT_EQ(drafted.Generate("hi", options, {}, &error_)->text, text->text) << error_;
  lm::GenerateOptions other = options;
  other.grammar = "root ::= [x-z]{5} | \"q\"";
  const auto both = model.GenerateMany({{"hi", options}, {"hi", other}}, {}, &error_);
  ASSERT_TRUE(both) << error_;
  EXPECT_EQ((*both)[0].text, text->text);
  EXPECT_TRUE(std::regex_match((*both)[1].text, std::regex("[x-z]{5}|q"))) << (*both)[1].text;
  options.temperature = 2;
  std::set<std::string> drawn;
  for (options.seed = 0; options.seed < 8; ++options.seed) {
    const auto one = model.Generate("hi", options, {}, &error_);
    ASSERT_TRUE(one) << error_;
    EXPECT_TRUE(std::regex_match(one->text, std::regex("(the|a) [h-k]{3} (sat|ran)"))) << one->text;
    drawn.insert(one->text);
  }
  EXPECT_GT(drawn.size(), 4);
  // No end token comes where the text is not whole, and where it may go on both may come.
  options.grammar = "root ::= \"a\"+";
  options.temperature = 0;
  options.max_tokens = 5;
  const auto open = model.Generate("hi", options, {}, &error_);
  ASSERT_TRUE(open) << error_;
  EXPECT_EQ(open->text, std::string(open->text.size(), 'a'));
  EXPECT_FALSE(open->text.empty());
}

TEST_F(LanguageTest, FormsThatAreRefused) {
  lm::Model model = Load();
  const auto refused = [&](const char* grammar, const char* schema) {
    lm::GenerateOptions options;
    options.grammar = grammar;
    options.json_schema = schema;
    error_.clear();
    EXPECT_FALSE(model.Generate("hi", options, {}, &error_));
    return error_;
  };
  EXPECT_EQ(refused("root = 1", ""),
            "grammar: grammar, line 1, column 6: found '= 1', expected ::=");
  EXPECT_EQ(refused("", "{\"type\": 3}"),
            "json_schema: schema #: type is 3, which is not supported");
  EXPECT_EQ(refused("root ::= \"a\"", "{}"), "a grammar and a JSON schema, expected one of them");
  EXPECT_EQ(refused("", "{}"),  // there is no "{" among its tokens
            "no token of the model goes on with a text of this grammar");
  // The model works on.
  EXPECT_TRUE(model.Generate("hi", Most(3), {}, &error_)) << error_;
}

TEST_F(LanguageTest, TextAndTokens) {
  const lm::Model model = Load();
  const auto tokens = model.Encode("hi <s>", true, &error_);
  ASSERT_TRUE(tokens) << error_;
  EXPECT_EQ(*tokens, (std::vector<std::int64_t>{1, 11, 12, 3, 1}));
  EXPECT_EQ(model.Encode("hi <s>", false), (std::vector<std::int64_t>{11, 12, 3, 1}));
  EXPECT_EQ(model.Decode(*tokens), "hi ");
  EXPECT_EQ(model.Decode(*tokens, true), "<s>hi <s>");
  EXPECT_FALSE(model.Decode({4, 96}, false, &error_));
  EXPECT_NE(error_.find("96"), std::string::npos) << error_;
}

// Rows of the model without a piece are no text, whether they are given or written.
TEST_F(LanguageTest, ModelsWithMoreRowsThanPieces) {
  lm::ModelOptions options;
  options.tokenizer = Folder() + "/tokenizer.json";
  const int64_t rows = 8 * kTinyVocabulary;
  lm::Model model = Load(options, Folder(2, rows));
  EXPECT_EQ(model.Decode({11, kTinyVocabulary, rows - 1, 12}), "hi");
  EXPECT_FALSE(model.Decode({rows}, false, &error_));
  EXPECT_EQ(error_, "piece number 768, expected 0 to 767");
  const auto text = model.Generate("hi", Most(20), {}, &error_);
  ASSERT_TRUE(text) << error_;
  EXPECT_EQ(text->tokens.size(), 20u);
  EXPECT_TRUE(std::any_of(text->tokens.begin(), text->tokens.end(),
                          [](std::int64_t token) { return token >= kTinyVocabulary; }));
}

TEST_F(LanguageTest, ChatsAreTheTemplates) {
  const lm::Model model = Load();
  const auto prompt = model.Chat({{"user", "hi"}, {"assistant", "ho"}});
  ASSERT_TRUE(prompt);
  EXPECT_EQ(prompt->text, "<s>user hi</s><s>assistant ho</s><s>assistant");
  EXPECT_FALSE(prompt->add_special);
  lm::ChatOptions options;
  options.add_generation_prompt = false;
  options.tools = R"(["add"])";
  options.variables = R"({"mood": "calm", "messages": [{"role": "tool", "content": "7"}]})";
  const auto more = model.Chat({{"user", "hi"}}, options, &error_);
  ASSERT_TRUE(more) << error_;
  EXPECT_EQ(more->text, "[add][calm]<s>tool 7</s><s>user hi</s>");
  // What the variables say themselves counts.
  options.variables = R"({"add_generation_prompt": true})";
  options.tools = "";
  EXPECT_EQ(model.Chat({{"user", "hi"}}, options)->text, "<s>user hi</s><s>assistant");
  const auto refused = [&](const char* variables, const char* tools) {
    options.variables = variables;
    options.tools = tools;
    return model.Chat({}, options, &error_) ? "" : error_;
  };
  EXPECT_EQ(refused("[]", ""), "the template's variables: expected a JSON object");
  EXPECT_EQ(refused(R"({"messages": 1})", ""),
            "the template's variables: messages are no JSON array");
  EXPECT_EQ(refused("", "{}"), "tools: expected a JSON array");
  EXPECT_EQ(refused("{", "").find("the template's variables: "), 0u) << error_;
  EXPECT_EQ(refused("", "[").find("tools: "), 0u) << error_;
}

TEST_F(LanguageTest, APromptRunsOnlyWhatIsNew) {
  lm::Model model = Load();
  EXPECT_TRUE(model.tokens().empty());
  std::string shown;
  const auto first = model.Generate(
      "hi the cat", Most(8),
      [&](std::string_view text) {
        shown += text;
        return true;
      },
      &error_);
  ASSERT_TRUE(first) << error_;
  EXPECT_EQ(first->tokens.size(), 8u);
  EXPECT_EQ(shown, first->text);
  EXPECT_EQ(first->text, model.Decode(first->tokens));
  EXPECT_EQ(first->ended, lm::Ended::kMaxTokens);
  EXPECT_STREQ(lm::EndedName(first->ended), "length");
  EXPECT_GT(first->prompt_ms, 0);
  EXPECT_GT(first->decode_ms, first->host_ms);
  const auto tokens = model.Encode("hi the cat");
  EXPECT_EQ(first->prompt_tokens, static_cast<std::int64_t>(tokens->size()));
  std::vector<std::int64_t> longer = *tokens;
  longer.insert(longer.end(), first->tokens.begin(), first->tokens.end());
  EXPECT_EQ(model.tokens(), std::vector<std::int64_t>(longer.begin(), longer.end() - 1));
  const auto second = model.Generate(longer, Most(4));
  ASSERT_TRUE(second);
  EXPECT_EQ(second->prompt_tokens, 1);
  lm::Model fresh = Load();
  const auto whole = fresh.Generate("hi the cat", Most(12));
  ASSERT_TRUE(whole);
  EXPECT_EQ(std::vector<std::int64_t>(whole->tokens.begin() + 8, whole->tokens.end()),
            second->tokens);
  model.Forget();
  EXPECT_TRUE(model.tokens().empty());
  EXPECT_EQ(model.Generate(longer, Most(4))->prompt_tokens,
            static_cast<std::int64_t>(longer.size()));
}

TEST_F(LanguageTest, WhoGetsATextMayEndIt) {
  lm::Model model = Load();
  int pieces = 0;
  const auto text = model.Generate("hi", Most(30), [&](std::string_view piece) {
    EXPECT_FALSE(piece.empty());
    EXPECT_TRUE(model.Encode("a")) << "this is allowed";
    return ++pieces < 3;
  });
  ASSERT_TRUE(text);
  EXPECT_EQ(pieces, 3);
  EXPECT_EQ(text->ended, lm::Ended::kCaller);
  EXPECT_LT(text->tokens.size(), 30u);
}

TEST_F(LanguageTest, OptionsAreThoseOfTheGenerator) {
  lm::Model model = Load();
  lm::GenerateOptions options = Most(10);
  const auto greedy = model.Generate("the", options);
  ASSERT_TRUE(greedy);
  const std::string middle = greedy->text.substr(greedy->text.size() / 2, 1);
  options.stop = {middle};
  const auto stopped = model.Generate("the", options);
  EXPECT_EQ(stopped->ended, lm::Ended::kStopText);
  EXPECT_EQ(stopped->text, greedy->text.substr(0, greedy->text.find(middle)));
  options.stop.clear();
  options.temperature = 3;
  options.seed = 1;
  const auto one = model.Generate("the", options), again = model.Generate("the", options);
  EXPECT_EQ(one->tokens, again->tokens);
  EXPECT_NE(one->tokens, greedy->tokens);
  options.seed = 2;
  EXPECT_NE(model.Generate("the", options)->tokens, one->tokens);
  // Each of these leaves the likeliest token alone.
  const auto likeliest = [&](auto set) {
    lm::GenerateOptions narrow = options;
    set(narrow);
    return model.Generate("the", narrow)->tokens;
  };
  EXPECT_EQ(likeliest([](auto& o) { o.top_k = 1; }), greedy->tokens);
  EXPECT_EQ(likeliest([](auto& o) { o.top_p = 1e-9; }), greedy->tokens);
  EXPECT_EQ(likeliest([](auto& o) { o.min_p = 1; }), greedy->tokens);
  options = Most(30);
  const auto repeated = model.Generate("the", options);
  options.repeat_penalty = 5;
  EXPECT_NE(model.Generate("the", options)->tokens, repeated->tokens);
  options = Most(200);
  EXPECT_EQ(model.Generate("the", options)->ended, lm::Ended::kContext);
}

// With a beam for each token, the likeliest text of all is found: not the one that begins with the
// likeliest token.
TEST_F(LanguageTest, BeamsFindTheLikeliestText) {
  lm::ModelOptions wide;
  wide.sequences = kTinyVocabulary;
  lm::Model model = Load(wide), single = Load();
  using Tokens = std::vector<std::int64_t>;
  lm::GenerateOptions options = Most(2);
  int others = 0;
  for (std::int64_t first = 4; first < 12; ++first) {
    const auto logprobs = [&](const Tokens& tokens) {
      const auto logits = single.Logits(tokens);
      std::vector<double> row(logits->begin(), logits->end());
      double sum = 0;
      for (const double logit : row) sum += std::exp(logit);
      for (double& logit : row) logit -= std::log(sum);
      return row;
    };
    const Tokens prompt = {1, first};
    Tokens likeliest;
    double best = -INFINITY;
    const auto of_one = logprobs(prompt);
    for (std::int64_t a = 0; a < kTinyVocabulary; ++a) {
      const auto of_two = logprobs({1, first, a});
      const auto b = std::max_element(of_two.begin(), of_two.end()) - of_two.begin();
      if (const double sum = of_one[a] + of_two[b]; sum > best) best = sum, likeliest = {a, b};
    }
    options.beams = kTinyVocabulary;
    const auto text = model.Generate(prompt, options, {}, &error_);
    ASSERT_TRUE(text) << error_;
    EXPECT_EQ(text->tokens, likeliest) << first;
    options.beams = 1;
    others += model.Generate(prompt, options)->tokens != likeliest;
  }
  EXPECT_GT(others, 0) << "where the likeliest tokens make the likeliest text, beams show nothing";
  options.beams = kTinyVocabulary + 1;
  EXPECT_FALSE(model.Generate("the", options, {}, &error_));
  EXPECT_EQ(error_, "97 beams, expected 1 to the 96 sequences that the model holds");
}

// A power far below 0 makes short texts best, one far above long ones.
TEST_F(LanguageTest, ThePowerOfTheLength) {
  lm::ModelOptions wide;
  wide.sequences = kTinyVocabulary;
  lm::Model model = Load(wide);
  lm::GenerateOptions options;
  options.max_tokens = 3;
  options.beams = kTinyVocabulary;
  options.length_penalty = -20;
  EXPECT_EQ(model.Generate("the", options)->tokens.size(), 0u);
  options.length_penalty = 20;
  EXPECT_EQ(model.Generate("the", options)->tokens.size(), 3u);
}

TEST_F(LanguageTest, TextsInALanguage) {
  lm::Model model = Load({}, Translator());
  using Tokens = std::vector<std::int64_t>;
  lm::GenerateOptions options = Most(8);
  const auto written = [&](const lm::Prompt& prompt) {
    const auto text = model.Generate(prompt, options, {}, &error_);
    EXPECT_TRUE(text) << error_;
    const auto many = model.GenerateMany({{prompt, options}}, {}, &error_);
    EXPECT_TRUE(many) << error_;
    EXPECT_EQ((*many)[0].tokens, text->tokens);
    return text->tokens;
  };
  const Tokens english = written(Tokens{2, 5, 6, 1}), french = written(Tokens{3, 5, 6, 1});
  ASSERT_NE(english, french);
  EXPECT_EQ(written("w5 w6"), english);
  options.source_language = "fr";
  EXPECT_EQ(written("w5 w6"), french);
  ASSERT_NE(french[0], 4);
  options.target_language = "de";
  EXPECT_EQ(written("w5 w6")[0], 4) << "it begins with the language";
  const auto refused = [&](lm::Model& by, const lm::Prompt& prompt) {
    EXPECT_FALSE(by.Generate(prompt, options, {}, &error_));
    return error_;
  };
  lm::Prompt plain("w5");
  plain.add_special = false;
  EXPECT_EQ(refused(model, plain), "a source language 'fr': the tokenizer puts none at a text");
  options.target_language = "xx";
  EXPECT_EQ(refused(model, "w5"), "the model's tokenizer knows no language 'xx'");
  lm::Model other = Load();
  EXPECT_EQ(refused(other, "the"), "languages are of models that read one text and write another");
}

TEST_F(LanguageTest, ManyAreThoseOfEach) {
  lm::ModelOptions two;
  two.sequences = 2;
  lm::Model model = Load(two), single = Load();
  ASSERT_TRUE(model.Generate("before", Most(2)));
  std::vector<lm::Request> requests = {
      {"hi", Most(5)}, {"the hen", Most(9)}, {std::vector<std::int64_t>{5, 6}, Most(3)}};
  requests[1].options.temperature = 1;
  std::vector<std::string> shown(requests.size());
  const auto texts = model.GenerateMany(
      requests,
      [&](std::size_t request, std::string_view text) {
        shown[request] += text;
        return true;
      },
      &error_);
  ASSERT_TRUE(texts) << error_;
  ASSERT_EQ(texts->size(), requests.size());
  for (std::size_t i = 0; i < requests.size(); ++i) {
    const auto alone = single.Generate(requests[i].prompt, requests[i].options);
    EXPECT_EQ((*texts)[i].tokens, alone->tokens) << i;
    EXPECT_EQ(shown[i], alone->text) << i;
  }
  EXPECT_TRUE(model.tokens().empty());
  EXPECT_EQ(model.Generate("before", Most(2))->prompt_tokens, 7);
  requests[1].prompt = "";
  requests[1].prompt.add_special = false;
  EXPECT_FALSE(model.GenerateMany(requests, nullptr, &error_));
  EXPECT_EQ(error_, "a prompt of no tokens");
}

TEST_F(LanguageTest, ADraftChangesNothing) {
  lm::ModelOptions options;
  options.draft = Folder(1);
  lm::Model model = Load(options), plain = Load();
  const auto text = model.Generate("the cat", Most(20), nullptr, &error_);
  ASSERT_TRUE(text) << error_;
  EXPECT_EQ(text->tokens, plain.Generate("the cat", Most(20))->tokens);
  EXPECT_GT(text->drafted, 0);
  EXPECT_GE(text->accepted, text->drafted - 7);
  EXPECT_LE(text->accepted, text->drafted);
  options.draft = Folder(2);  // others' drafts
  const auto other = Load(options).Generate("the cat", Most(20), nullptr, &error_);
  ASSERT_TRUE(other) << error_;
  EXPECT_EQ(other->tokens, text->tokens);
  EXPECT_LT(other->accepted, other->drafted);
  lm::GenerateOptions drawn = Most(4);
  drawn.temperature = 1;
  EXPECT_FALSE(model.Generate("the", drawn, nullptr, &error_));
  EXPECT_EQ(error_, "a draft model needs greedy choices: temperature 0");
  options.draft = Folder(3, 48);
  EXPECT_FALSE(lm::Model::Load(Folder(), options, &error_));
  EXPECT_EQ(error_, options.draft + ": the draft model knows 48 tokens, the model 96");
}

TEST_F(LanguageTest, Logits) {
  lm::Model model = Load();
  const std::vector<std::int64_t> tokens = *model.Encode("the cat on the hill");
  const auto count = static_cast<std::int64_t>(tokens.size());
  const auto rows = model.Logits(tokens, count, &error_);
  ASSERT_TRUE(rows) << error_;
  ASSERT_EQ(rows->size(), tokens.size() * kTinyVocabulary);
  EXPECT_EQ(model.tokens(), tokens);
  // The likeliest is what greedy text begins with.
  const auto last = rows->end() - kTinyVocabulary;
  const auto best = std::max_element(last, rows->end()) - last;
  EXPECT_EQ(model.Generate(tokens, Most(1))->tokens, std::vector<std::int64_t>{best});
  const auto two = model.Logits(tokens, 2);
  ASSERT_EQ(two->size(), 2u * kTinyVocabulary);
  for (std::size_t i = 0; i < two->size(); ++i)
    EXPECT_NEAR((*two)[i], (*rows)[rows->size() - two->size() + i], 1e-4);
  EXPECT_FALSE(model.Logits(tokens, count + 1, &error_));
  EXPECT_EQ(error_, fmt::format("the logits of {} tokens, expected of 1 to {}", count + 1, count));
  EXPECT_FALSE(model.Logits({kTinyVocabulary}, 1, &error_));
  EXPECT_EQ(error_, "token 96, expected 0 to 95");
}

TEST_F(LanguageTest, SavesAndRestores) {
  lm::Model model = Load(), same = Load(), other = Load({}, Folder(2));
  const auto text = model.Generate("the cat", Most(5));
  ASSERT_TRUE(model.Save(At("cache"), &error_)) << error_;
  ASSERT_TRUE(same.Restore(At("cache"), &error_)) << error_;
  EXPECT_EQ(same.tokens(), model.tokens());
  const auto again = same.Generate("the cat", Most(5));
  EXPECT_EQ(again->prompt_tokens, 1);
  EXPECT_EQ(again->tokens, text->tokens);
  EXPECT_FALSE(other.Restore(At("cache"), &error_));
  EXPECT_EQ(error_, At("cache") + ": the cache of another model");
  EXPECT_FALSE(model.Save(At("none/cache"), &error_));
  EXPECT_NE(error_.find("none"), std::string::npos) << error_;
}

TEST_F(LanguageTest, EncodeAndChatAreSafeFromManyThreads) {
  lm::Model model = Load();
  const auto tokens = model.Encode("a hen on a hill");
  std::atomic<int> good = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i) {
    threads.emplace_back([&] {
      for (int j = 0; j < 50; ++j)
        good +=
            model.Encode("a hen on a hill") == tokens && model.Chat({{"user", "a"}}).has_value();
    });
  }
  EXPECT_TRUE(model.Generate("the", Most(20)));
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(good, 150);
}

TEST_F(LanguageTest, FailuresSayWhy) {
  EXPECT_FALSE(lm::Model::Load(At("none"), {}, &error_));
  EXPECT_NE(error_.find(At("none")), std::string::npos) << error_;
  EXPECT_FALSE(lm::Model::Load(At("none"))) << "nobody asks why";
  const auto refused = [&](auto set) {
    lm::ModelOptions options;
    set(options);
    return lm::Model::Load(Folder(), options, &error_) ? "" : error_;
  };
  EXPECT_EQ(refused([](auto& o) { o.threads = 1025; }), "1025 threads, expected 0 to 1024");
  EXPECT_EQ(refused([](auto& o) { o.threads = -1; }), "-1 threads, expected 0 to 1024");
  EXPECT_EQ(refused([](auto& o) { o.sequences = 257; }), "257 sequences, expected 1 to 256");
  EXPECT_EQ(refused([](auto& o) { o.context = -1; }), "a context of -1 tokens, expected 0 or more");
  EXPECT_NE(refused([&](auto& o) { o.tokenizer = At("absent"); }).find("absent"),
            std::string::npos);
  lm::Model bare = Load({}, Folder(4, kTinyVocabulary, /*tokenizer=*/false));
  EXPECT_FALSE(bare.facts().has_tokenizer);
  EXPECT_FALSE(bare.facts().has_chat_template);
  for (const bool encodes : {true, false}) {
    EXPECT_FALSE(encodes ? bare.Encode("a", true, &error_).has_value()
                         : bare.Generate("a", {}, nullptr, &error_).has_value());
    EXPECT_EQ(error_, "the model carries no tokenizer: name its file or folder");
  }
  EXPECT_TRUE(bare.Generate(std::vector<std::int64_t>{1, 2}, Most(2)));
  lm::GenerateOptions options;
  options.max_tokens = 0;
  EXPECT_FALSE(bare.Generate(std::vector<std::int64_t>{1}, options, nullptr, &error_));
  EXPECT_EQ(error_, "0 tokens at most, expected 1 or more");
  const std::vector<std::int64_t> kept = bare.tokens();
  EXPECT_FALSE(bare.Generate(std::vector<std::int64_t>(65, 3), Most(1), nullptr, &error_));
  EXPECT_NE(error_.find("the context is full"), std::string::npos) << error_;
  EXPECT_EQ(bare.tokens(), kept) << "what was refused before it ran changes nothing";
}

}  // namespace
}  // namespace evoq
