// Language models through the C interface: what each function returns and writes.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "evoq/language.h"
#include "evoq/language_c.h"
#include "language/tiny_testing.h"

namespace evoq {
namespace {

using CModel = std::unique_ptr<evoq_language, decltype(&evoq_language_free)>;

int Append(const char* text, size_t bytes, void* user) {
  static_cast<std::string*>(user)->append(text, bytes);
  return 0;
}

class LanguageInC : public TinyLanguageFolder {
 protected:
  CModel Load(evoq_language_options options = {}) {
    options.size = sizeof(options);
    options.threads = 1;
    CModel model(evoq_language_load(Folder().c_str(), &options, error_, sizeof(error_)),
                 &evoq_language_free);
    EXPECT_NE(model, nullptr) << error_;
    return model;
  }
  static evoq_generate_options Most(int64_t tokens) {
    evoq_generate_options options = {};
    options.size = sizeof(options);
    options.max_tokens = tokens;
    options.ignore_end = 1;
    return options;
  }
  char error_[300] = "";
};

TEST_F(LanguageInC, FormsOfTexts) {
  const CModel model = Load();
  evoq_generate_options options = {};
  options.size = sizeof(options);
  options.grammar = "root ::= \"yes\" | \"no\"";
  std::string text;
  const evoq_on_text add = [](const char* piece, size_t bytes, void* to) {
    static_cast<std::string*>(to)->append(piece, bytes);
    return 0;
  };
  ASSERT_EQ(evoq_language_generate(model.get(), "hi", &options, add, &text, nullptr, error_,
                                   sizeof(error_)),
            0)
      << error_;
  EXPECT_TRUE(text == "yes" || text == "no") << text;
  options.json_schema = "{}";
  EXPECT_NE(evoq_language_generate(model.get(), "hi", &options, add, &text, nullptr, error_,
                                   sizeof(error_)),
            0);
  EXPECT_STREQ(error_, "a grammar and a JSON schema, expected one of them");
}

// From where the text comes to, encode may be called; what would write the text may not.
TEST_F(LanguageInC, OneCallAtATime) {
  const CModel model = Load();
  struct Inside {
    evoq_language* model;
    int encoded = -1, generated = -1;
    char error[200] = "";
  } inside = {model.get()};
  const evoq_on_text call = [](const char*, size_t, void* of) {
    auto& in = *static_cast<Inside*>(of);
    size_t count = 0;
    in.encoded = evoq_language_encode(in.model, "hi", 0, nullptr, 0, &count, nullptr, 0);
    in.generated = evoq_language_generate(in.model, "hi", nullptr, nullptr, nullptr, nullptr,
                                          in.error, sizeof(in.error));
    return 0;
  };
  const evoq_generate_options options = Most(4);
  ASSERT_EQ(evoq_language_generate(model.get(), "hi", &options, call, &inside, nullptr, error_,
                                   sizeof(error_)),
            0)
      << error_;
  EXPECT_EQ(inside.encoded, 0);
  EXPECT_EQ(inside.generated, 1);
  EXPECT_STREQ(inside.error, "another call of this model has not ended, expected one at a time");
  EXPECT_EQ(evoq_language_vocabulary(nullptr), 0);
  evoq_language_forget(nullptr);
}

TEST_F(LanguageInC, Facts) {
  evoq_language_options options = {};
  options.context = 40;
  const CModel model = Load(options);
  EXPECT_EQ(evoq_language_vocabulary(model.get()), kTinyVocabulary);
  EXPECT_EQ(evoq_language_context(model.get()), 40);
  EXPECT_EQ(evoq_language_cache_bytes(model.get()), 2 * 2 * 2 * 40 * 8 * 4);
  const CModel plain(evoq_language_load(Folder().c_str(), nullptr, nullptr, 0),
                     &evoq_language_free);
  ASSERT_NE(plain, nullptr);
  EXPECT_EQ(evoq_language_context(plain.get()), kTinyContext);
  // A struct of a newer version, whose other members are not used, or are.
  struct {
    evoq_language_options known;
    int64_t more;
  } newer = {options, 0};
  newer.known.size = sizeof(newer);
  EXPECT_NE(
      CModel(evoq_language_load(Folder().c_str(), &newer.known, nullptr, 0), &evoq_language_free),
      nullptr);
  newer.more = 1;
  EXPECT_EQ(evoq_language_load(Folder().c_str(), &newer.known, error_, sizeof(error_)), nullptr);
  EXPECT_STREQ(error_, "the options: some that this version of evoq does not have");
  // One of a version without a context.
  options.size = offsetof(evoq_language_options, context);
  const CModel old(evoq_language_load(Folder().c_str(), &options, nullptr, 0), &evoq_language_free);
  EXPECT_EQ(evoq_language_context(old.get()), kTinyContext);
}

TEST_F(LanguageInC, TextAndTokens) {
  const CModel model = Load();
  int64_t tokens[5] = {7, 7, 7, 7, 7};
  size_t count = 0;
  ASSERT_EQ(evoq_language_encode(model.get(), "hi ", 1, tokens, 3, &count, nullptr, 0), 0);
  EXPECT_EQ(count, 4u);
  EXPECT_EQ((std::vector<int64_t>{tokens, tokens + 5}), (std::vector<int64_t>{1, 11, 12, 7, 7}));
  ASSERT_EQ(evoq_language_encode(model.get(), "hi ", 0, tokens, 5, &count, nullptr, 0), 0);
  EXPECT_EQ((std::vector<int64_t>{tokens, tokens + count}), (std::vector<int64_t>{11, 12, 3}));
  ASSERT_EQ(evoq_language_encode(model.get(), "hi", 0, nullptr, 0, &count, nullptr, 0), 0);
  EXPECT_EQ(count, 2u);
  char text[9] = "........";
  size_t bytes = 0;
  const int64_t given[] = {1, 11, 12};
  ASSERT_EQ(evoq_language_decode(model.get(), given, 3, 0, text, 8, &bytes, nullptr, 0), 0);
  EXPECT_EQ(bytes, 2u);
  EXPECT_STREQ(text, "hi......");
  ASSERT_EQ(evoq_language_decode(model.get(), given, 3, 1, text, 4, &bytes, nullptr, 0), 0);
  EXPECT_EQ(bytes, 5u);
  EXPECT_STREQ(text, "<s>h....");
  std::vector<char> chat(200);
  ASSERT_EQ(evoq_language_chat(model.get(),
                               R"({"messages": [{"role": "user", "content": "hi"}], "mood": "x"})",
                               chat.data(), chat.size(), &bytes, error_, sizeof(error_)),
            0)
      << error_;
  EXPECT_EQ(std::string(chat.data(), bytes), "[x]<s>user hi</s>");
}

TEST_F(LanguageInC, GeneratesAsTheOtherInterfaceDoes) {
  const CModel model = Load();
  auto other = language::Model::Load(Folder(), {});
  ASSERT_TRUE(other);
  language::GenerateOptions same;
  same.max_tokens = 9;
  same.ignore_end = true;
  evoq_generate_options options = Most(9);
  evoq_generated generated = {};
  generated.size = sizeof(generated);
  std::string text;
  ASSERT_EQ(evoq_language_generate(model.get(), "the cat", &options, &Append, &text, &generated,
                                   error_, sizeof(error_)),
            0)
      << error_;
  const auto expected = other->Generate("the cat", same);
  EXPECT_EQ(text, expected->text);
  EXPECT_EQ(std::vector<int64_t>(generated.tokens, generated.tokens + generated.token_count),
            expected->tokens);
  EXPECT_STREQ(generated.ended, "length");
  EXPECT_EQ(generated.prompt_tokens, 8);
  EXPECT_GT(generated.prompt_ms, 0);
  EXPECT_GT(generated.decode_ms, generated.host_ms);
  // Without the piece that the tokenizer puts around, as tokens, with drawn ones.
  options.plain = 1;
  options.temperature = same.temperature = 2;
  options.seed = same.seed = 5;
  options.top_k = same.top_k = 40;
  options.top_p = same.top_p = 0.9;
  options.min_p = same.min_p = 0.001;
  options.repeat_penalty = same.repeat_penalty = 1.5;
  language::Prompt plain("hen");
  plain.add_special = false;
  const auto drawn = other->Generate(plain, same);
  const auto hen = other->Encode("hen", false);
  for (const bool tokens : {false, true}) {
    text.clear();
    ASSERT_EQ(
        tokens ? evoq_language_generate_tokens(model.get(), hen->data(), hen->size(), &options,
                                               &Append, &text, &generated, error_, sizeof(error_))
               : evoq_language_generate(model.get(), "hen", &options, &Append, &text, &generated,
                                        error_, sizeof(error_)),
        0)
        << error_;
    EXPECT_EQ(text, drawn->text);
    EXPECT_EQ(generated.prompt_tokens, tokens ? 1 : 3);
  }
  // Each of these leaves the likeliest token alone.
  options = Most(9);
  options.temperature = 3;
  for (const int by : {0, 1, 2}) {
    options.top_k = by == 0;
    options.top_p = by == 1 ? 1e-9 : 0;
    options.min_p = by == 2;
    text.clear();
    ASSERT_EQ(evoq_language_generate(model.get(), "the cat", &options, &Append, &text, &generated,
                                     error_, sizeof(error_)),
              0)
        << error_;
    EXPECT_EQ(text, expected->text) << by;
  }
  // Who neither reads nor asks; and the defaults.
  ASSERT_EQ(
      evoq_language_generate(model.get(), "hen", nullptr, nullptr, nullptr, nullptr, nullptr, 0),
      0);
}

TEST_F(LanguageInC, BeamsAndTheirLengths) {
  evoq_language_options wide = {};
  wide.sequences = kTinyVocabulary;
  const CModel model = Load(wide);
  const auto written = [&](const evoq_generate_options& options) {
    evoq_generated generated = {};
    generated.size = sizeof(generated);
    EXPECT_EQ(evoq_language_generate(model.get(), "the", &options, nullptr, nullptr, &generated,
                                     error_, sizeof(error_)),
              0)
        << error_;
    return std::vector<int64_t>(generated.tokens, generated.tokens + generated.token_count);
  };
  language::ModelOptions same;
  same.sequences = kTinyVocabulary;
  auto other = language::Model::Load(Folder(), same);
  ASSERT_TRUE(other);
  language::GenerateOptions by_beams;
  by_beams.max_tokens = 6;
  by_beams.ignore_end = true;
  by_beams.beams = kTinyVocabulary;
  evoq_generate_options options = Most(6);
  const auto greedy = written(options);
  options.beams = kTinyVocabulary;
  const auto likeliest = written(options);
  EXPECT_EQ(likeliest, other->Generate("the", by_beams)->tokens);
  ASSERT_NE(likeliest, greedy);
  // A power far below 0 makes short texts best, one far above long ones.
  options.ignore_end = 0;
  options.length_penalty = -20;
  EXPECT_EQ(written(options).size(), 0u);
  options.length_penalty = 20;
  EXPECT_EQ(written(options).size(), 6u);
}

TEST_F(LanguageInC, TextsInALanguage) {
  const CModel model(evoq_language_load(Translator().c_str(), nullptr, error_, sizeof(error_)),
                     &evoq_language_free);
  ASSERT_NE(model, nullptr) << error_;
  evoq_generate_options options = Most(8);
  const auto written = [&](const std::vector<int64_t>& prompt) {
    evoq_generated generated = {};
    generated.size = sizeof(generated);
    EXPECT_EQ(prompt.empty() ? evoq_language_generate(model.get(), "w5 w6", &options, nullptr,
                                                      nullptr, &generated, error_, sizeof(error_))
                             : evoq_language_generate_tokens(
                                   model.get(), prompt.data(), prompt.size(), &options, nullptr,
                                   nullptr, &generated, error_, sizeof(error_)),
              0)
        << error_;
    return std::vector<int64_t>(generated.tokens, generated.tokens + generated.token_count);
  };
  const auto english = written({2, 5, 6, 1}), french = written({3, 5, 6, 1});
  ASSERT_NE(english, french);
  EXPECT_EQ(written({}), english);
  options.source_language = "fr";
  EXPECT_EQ(written({}), french);
  ASSERT_NE(french[0], 4);
  options.target_language = "de";
  EXPECT_EQ(written({})[0], 4) << "it begins with the language";
  options.target_language = "xx";
  EXPECT_EQ(evoq_language_generate(model.get(), "w5", &options, nullptr, nullptr, nullptr, error_,
                                   sizeof(error_)),
            1);
  EXPECT_STREQ(error_, "the model's tokenizer knows no language 'xx'");
}

TEST_F(LanguageInC, EndsWhereItIsTold) {
  const CModel model = Load();
  evoq_generate_options options = Most(12);
  std::string all;
  ASSERT_EQ(
      evoq_language_generate(model.get(), "the", &options, &Append, &all, nullptr, nullptr, 0), 0);
  const std::string middle = all.substr(all.size() / 2, 1);
  const char* const stop[] = {middle.c_str()};
  options.stop = stop;
  options.stop_count = 1;
  evoq_generated generated = {};
  generated.size = sizeof(generated);
  std::string text;
  ASSERT_EQ(
      evoq_language_generate(model.get(), "the", &options, &Append, &text, &generated, nullptr, 0),
      0);
  EXPECT_EQ(text, all.substr(0, all.find(middle)));
  EXPECT_STREQ(generated.ended, "stop");
  options.stop_count = 0;
  const auto enough = [](const char*, size_t, void*) { return 1; };
  // A caller of a version that has no more than the reason.
  generated.size = offsetof(evoq_generated, tokens);
  generated.token_count = 77;
  ASSERT_EQ(
      evoq_language_generate(model.get(), "the", &options, enough, nullptr, &generated, nullptr, 0),
      0);
  EXPECT_STREQ(generated.ended, "cancelled");
  EXPECT_EQ(generated.token_count, 77u) << "beyond the struct's size";
}

TEST_F(LanguageInC, LogitsAndTheCache) {
  const CModel model = Load(), same = Load();
  const std::vector<int64_t> tokens = {1, 5, 9, 14};
  std::vector<float> rows(2 * kTinyVocabulary + 1, -7);
  ASSERT_EQ(evoq_language_logits(model.get(), tokens.data(), tokens.size(), 2, rows.data(), error_,
                                 sizeof(error_)),
            0)
      << error_;
  EXPECT_EQ(rows.back(), -7) << "beyond the last row";
  auto other = language::Model::Load(Folder(), {});
  const auto expected = other->Logits(tokens, 2);
  for (size_t i = 0; i < expected->size(); ++i) EXPECT_NEAR(rows[i], (*expected)[i], 1e-4) << i;
  ASSERT_EQ(evoq_language_save(model.get(), At("cache").c_str(), error_, sizeof(error_)), 0);
  ASSERT_EQ(evoq_language_restore(same.get(), At("cache").c_str(), error_, sizeof(error_)), 0)
      << error_;
  const auto run = [&](evoq_language* m) {
    evoq_generated generated = {};
    generated.size = sizeof(generated);
    const evoq_generate_options options = Most(1);
    EXPECT_EQ(evoq_language_generate_tokens(m, tokens.data(), tokens.size(), &options, nullptr,
                                            nullptr, &generated, nullptr, 0),
              0);
    EXPECT_GT(generated.prompt_ms, 0);
    EXPECT_EQ(generated.decode_ms, 0) << "behind the only token";
    return generated.prompt_tokens;
  };
  EXPECT_EQ(run(same.get()), 1);
  evoq_language_forget(same.get());
  EXPECT_EQ(run(same.get()), 4);
}

TEST_F(LanguageInC, DraftsAndTokenizersAreTaken) {
  const std::string draft = Folder(2), bare = Folder(5, kTinyVocabulary, /*tokenizer=*/false),
                    folder = Folder();
  evoq_language_options options = {};
  options.size = sizeof(options);
  options.tokenizer = folder.c_str();
  options.draft = draft.c_str();
  const CModel model(evoq_language_load(bare.c_str(), &options, error_, sizeof(error_)),
                     &evoq_language_free);
  ASSERT_NE(model, nullptr) << error_;
  evoq_generated generated = {};
  generated.size = sizeof(generated);
  const evoq_generate_options most = Most(20);
  ASSERT_EQ(evoq_language_generate(model.get(), "the", &most, nullptr, nullptr, &generated, error_,
                                   sizeof(error_)),
            0)
      << error_;
  EXPECT_GT(generated.drafted, 0);
  EXPECT_LE(generated.accepted, generated.drafted);
}

TEST_F(LanguageInC, CachesOfOtherTypes) {
  const std::string folder = Folder();
  evoq_language_options options = {};
  options.size = sizeof(options);
  const auto load = [&](const char* type) {
    options.kv_cache = type;
    return CModel(evoq_language_load(folder.c_str(), &options, error_, sizeof(error_)),
                  &evoq_language_free);
  };
  const CModel plain = load(nullptr), narrow = load("int8");
  ASSERT_TRUE(plain != nullptr && narrow != nullptr) << error_;
  EXPECT_EQ(evoq_language_cache_bytes(plain.get()) / 32,
            evoq_language_cache_bytes(narrow.get()) / (8 + 2));
  EXPECT_EQ(load("int5"), nullptr);
  EXPECT_STREQ(error_, "a cache of 'int5', expected float32, float16 or int8");
  // As a caller that was compiled before there was such a member.
  options.size = offsetof(evoq_language_options, kv_cache);
  EXPECT_NE(load("int5"), nullptr) << error_;
}

TEST_F(LanguageInC, FailuresSayWhy) {
  const CModel model = Load();
  const auto said = [&](int status) {
    EXPECT_EQ(status, 1);
    return std::string(error_);
  };
  evoq_language* const m = model.get();
  const size_t size = sizeof(error_);
  EXPECT_EQ(evoq_language_load(nullptr, nullptr, error_, size), nullptr);
  EXPECT_STREQ(error_, "the path is NULL");
  EXPECT_EQ(evoq_language_load(At("none").c_str(), nullptr, error_, 5), nullptr);
  EXPECT_EQ(std::string(error_), At("none").substr(0, 4)) << "cut to fit";
  evoq_language_options options = {};
  EXPECT_EQ(evoq_language_load(Folder().c_str(), &options, error_, size), nullptr);
  EXPECT_EQ(std::string(error_),
            fmt::format("the options: a size of 0, expected {}", sizeof(evoq_language_options)));
  // Of a later version, whose members that this one has not are 0, or not.
  struct {
    evoq_language_options known = {};
    char more[16] = "";
  } later;
  later.known.size = sizeof(later);
  const CModel taken(evoq_language_load(Folder().c_str(), &later.known, error_, size),
                     &evoq_language_free);
  EXPECT_NE(taken, nullptr) << error_;
  later.more[15] = 1;
  EXPECT_EQ(evoq_language_load(Folder().c_str(), &later.known, error_, size), nullptr);
  EXPECT_STREQ(error_, "the options: some that this version of evoq does not have");
  options.size = 4097;
  EXPECT_EQ(evoq_language_load(Folder().c_str(), &options, error_, size), nullptr);
  EXPECT_EQ(std::string(error_),
            fmt::format("the options: a size of 4097, expected {}", sizeof(options)));
  size_t count;
  EXPECT_EQ(said(evoq_language_encode(nullptr, "a", 1, nullptr, 0, &count, error_, size)),
            "the model is NULL");
  EXPECT_EQ(said(evoq_language_encode(m, nullptr, 1, nullptr, 0, &count, error_, size)),
            "the text is NULL");
  EXPECT_EQ(said(evoq_language_decode(m, nullptr, 2, 0, nullptr, 0, &count, error_, size)),
            "2 tokens at NULL");
  EXPECT_EQ(said(evoq_language_chat(m, nullptr, nullptr, 0, &count, error_, size)),
            "the text of variables is NULL");
  EXPECT_EQ(said(evoq_language_chat(m, "[", nullptr, 0, &count, error_, size)).find("the variab"),
            0u);
  EXPECT_EQ(
      said(evoq_language_generate(m, nullptr, nullptr, nullptr, nullptr, nullptr, error_, size)),
      "the prompt is NULL");
  evoq_generate_options most = Most(-1);
  EXPECT_EQ(said(evoq_language_generate(m, "a", &most, nullptr, nullptr, nullptr, error_, size)),
            "-1 tokens at most, expected 1 or more");
  most = Most(1);
  most.stop_count = 1;
  EXPECT_EQ(said(evoq_language_generate(m, "a", &most, nullptr, nullptr, nullptr, error_, size)),
            "1 stop texts at NULL");
  const char* const stop[] = {nullptr};
  most.stop = stop;
  EXPECT_EQ(said(evoq_language_generate(m, "a", &most, nullptr, nullptr, nullptr, error_, size)),
            "a stop text is NULL");
  evoq_generated generated = {};
  EXPECT_EQ(
      said(evoq_language_generate(m, "a", nullptr, nullptr, nullptr, &generated, error_, size)),
      fmt::format("the result: a size of 0, expected {}", sizeof(generated)));
  EXPECT_EQ(said(evoq_language_generate_tokens(m, nullptr, 0, nullptr, nullptr, nullptr, nullptr,
                                               error_, size)),
            "a prompt of no tokens");
  const int64_t wrong = 96;
  float row[kTinyVocabulary];
  EXPECT_EQ(said(evoq_language_logits(m, &wrong, 1, 1, row, error_, size)),
            "token 96, expected 0 to 95");
  EXPECT_EQ(said(evoq_language_logits(m, &wrong, 1, 1, nullptr, error_, size)),
            "the memory for logits is NULL");
  EXPECT_EQ(said(evoq_language_save(m, nullptr, error_, size)), "the path is NULL");
  EXPECT_NE(said(evoq_language_restore(m, At("none").c_str(), error_, size)).find("none"),
            std::string::npos);
  evoq_language_free(nullptr);
}

}  // namespace
}  // namespace evoq
