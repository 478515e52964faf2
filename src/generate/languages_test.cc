// How models that translate name languages, and what becomes of a text.
#include "generate/languages.h"

#include <gtest/gtest.h>

namespace evoq {
namespace {

using nlohmann::json;
using Ids = std::vector<int64_t>;

// Words "a" 0 and "b" 1, "</s>" 2 behind each text, and special pieces from 3 on; the one at
// `before`, where that is one of them, stands before each text.
Tokenizer Made(const std::vector<std::string>& special, int before = -1) {
  json vocabulary = {{"a", 0}, {"b", 1}}, added = json::array(), pieces = json::object(),
       single = json::array();
  const auto add = [&](const std::string& piece) {
    const auto id = static_cast<int64_t>(vocabulary.size());
    vocabulary[piece] = id;
    added.push_back({{"id", id},
                     {"content", piece},
                     {"special", true},
                     {"normalized", false},
                     {"single_word", false},
                     {"lstrip", false},
                     {"rstrip", false}});
    pieces[piece] = {{"id", piece}, {"ids", {id}}, {"tokens", {piece}}};
  };
  const auto put = [&](const std::string& piece) {
    single.push_back({{"SpecialToken", {{"id", piece}, {"type_id", 0}}}});
  };
  add("</s>");
  for (const std::string& piece : special) add(piece);
  if (before >= 0) put(special[static_cast<size_t>(before)]);
  single.push_back({{"Sequence", {{"id", "A"}, {"type_id", 0}}}});
  put("</s>");
  const json around = {{"type", "TemplateProcessing"},
                       {"single", single},
                       {"pair", single},
                       {"special_tokens", pieces}};
  const json file = {{"version", "1.0"},
                     {"added_tokens", added},
                     {"pre_tokenizer", {{"type", "WhitespaceSplit"}}},
                     {"post_processor", around},
                     {"model", {{"type", "WordLevel"}, {"vocab", vocabulary}, {"unk_token", "a"}}}};
  return *Tokenizer::FromFiles({{"tokenizer.json", file.dump()}});
}

void Expect(const Tokenizer& tokenizer, const Languages& languages, const Ids& tokens,
            const Ids& begin) {
  const auto text = EncodeSource(tokenizer, "b a", languages, true);
  ASSERT_TRUE(text) << text.error().message();
  EXPECT_EQ(text->tokens, tokens);
  EXPECT_EQ(text->begin, begin);
}

// Of mBART, NLLB and M2M-100: the language that stands at a text is replaced, and the one to write
// begins the other text.
TEST(Languages, OfTheTextAndOfTheOther) {
  struct Case {
    std::vector<std::string> pieces, names;
  };
  for (const auto& [pieces, names] :
       {Case{{"en_XX", "de_DE", "fr_XX"}, {"en_XX", "de_DE", "fr_XX"}},
        Case{{"eng_Latn", "deu_Latn", "zho_Hans"}, {"eng_Latn", "deu_Latn", "zho_Hans"}},
        Case{{"__en__", "__de__", "__fr__"}, {"en", "de", "fr"}}}) {
    SCOPED_TRACE(pieces[0]);
    const Tokenizer tokenizer = Made(pieces, 0);
    Expect(tokenizer, {}, {3, 1, 0, 2}, {});
    Expect(tokenizer, {.source = names[1]}, {4, 1, 0, 2}, {});
    Expect(tokenizer, {.target = names[2]}, {3, 1, 0, 2}, {5});
    Expect(tokenizer, {.source = names[2], .target = names[0]}, {5, 1, 0, 2}, {3});
    const auto plain = EncodeSource(tokenizer, "b", {.source = names[1]}, false);
    ASSERT_FALSE(plain);
    EXPECT_EQ(plain.error().message(),
              "a source language '" + names[1] + "': the tokenizer puts none at a text");
    EXPECT_EQ(EncodeSource(tokenizer, "b", {.target = names[1]}, false)->tokens, Ids{1});
    const auto unknown = EncodeSource(tokenizer, "b", {.target = "a"}, true);
    ASSERT_FALSE(unknown) << "a word is no language";
    EXPECT_EQ(unknown.error().message(), "the model's tokenizer knows no language 'a'");
  }
}

// Of Marian's models of many languages: the one to write stands before the text.
TEST(Languages, BeforeTheText) {
  const Tokenizer tokenizer = Made({">>fra<<", ">>deu<<"});
  Expect(tokenizer, {.target = "deu"}, {4, 1, 0, 2}, {});
  const auto source = EncodeSource(tokenizer, "b", {.source = "fra"}, true);
  ASSERT_FALSE(source);
  EXPECT_EQ(source.error().message(), "the model's tokenizer knows no language 'fra'");
}

}  // namespace
}  // namespace evoq
