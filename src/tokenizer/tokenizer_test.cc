#include "tokenizer/tokenizer.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>

#include "tokenizer/chat_template.h"
#include "tokenizer/gguf.h"
#include "tokenizer/gguf_words.h"
#include "tokenizer/grammar/matcher.h"
#include "tokenizer/pattern.h"
#include "tokenizer/precompiled.h"
#include "tokenizer/steps.h"
#include "tokenizer/unicode.h"

namespace evoq {
namespace {

using nlohmann::json;
using Ids = std::vector<int64_t>;

class TokenizerTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::temp_directory_path() / fmt::format("evoq_json_{}", ::getpid());
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  void Write(const std::string& name, const std::string& bytes) {
    std::ofstream(folder_ / name, std::ios::binary) << bytes;
  }
  Result<Tokenizer> Read(const json& file) {
    Write("tokenizer.json", file.dump());
    return Tokenizer::Load(folder_.string());
  }
  // What the file is refused with, without its name.
  std::string Refused(const json& file) {
    const auto t = Read(file);
    if (t) return "";
    const std::string path = (folder_ / "tokenizer.json").string() + ": ";
    EXPECT_EQ(t.error().message().substr(0, path.size()), path);
    return t.error().message().substr(std::min(path.size(), t.error().message().size()));
  }
  std::filesystem::path folder_;
};

// A byte-level tokenizer of a few merges.
json ByteLevelFile() {
  json vocab;
  for (const char* piece : {"h", "e", "l", "o", "\xC4\xA0", "he", "ll", "hell", "\xC3\xB0",
                            "\xC5\x81", "\xC4\xBA", "\xC4\xA2"})
    vocab[piece] = vocab.size();
  return {{"model",
           {{"type", "BPE"},
            {"vocab", vocab},
            {"merges", {"h e", "l l", "he ll"}},
            {"unk_token", nullptr}}},
          {"pre_tokenizer", {{"type", "ByteLevel"}, {"add_prefix_space", false}}},
          {"decoder", {{"type", "ByteLevel"}}},
          {"added_tokens",
           {{{"id", 12}, {"content", "<|end|>"}, {"special", true}},
            {{"id", 13}, {"content", "<s>"}, {"special", true}}}},
          {"post_processor",
           {{"type", "TemplateProcessing"},
            {"single", {{{"SpecialToken", {{"id", "<s>"}}}}, {{"Sequence", {{"id", "A"}}}}}},
            {"special_tokens", {{"<s>", {{"ids", {13}}}}}}}}};
}

TEST_F(TokenizerTest, EncodesAndDecodes) {
  const auto t = Read(ByteLevelFile());
  ASSERT_TRUE(t) << t.error().message();
  EXPECT_EQ(*t->Encode("hello hell<|end|>"), (Ids{13, 7, 3, 4, 7, 12}));
  EXPECT_EQ(*t->Encode("hello", {.add_special = false}), (Ids{7, 3}));
  // As text; what is no piece is left out, as there is no unknown piece.
  EXPECT_EQ(*t->Encode("<|end|>", {.add_special = false, .parse_special = false}), (Ids{1}));
  EXPECT_EQ(*t->Decode(Ids{13, 7, 3, 12}), "hello");
  EXPECT_EQ(*t->Decode(Ids{13, 7, 3, 12}, true), "<s>hello<|end|>");
  EXPECT_EQ(t->Decode(Ids{14}).error().message(), "piece number 14, expected 0 to 13");
  EXPECT_EQ(t->Decode(Ids{-1}).error().message(), "piece number -1, expected 0 to 13");
  EXPECT_EQ(t->begin(), 13);
  EXPECT_EQ(t->ends(), (Ids{12}));  // by its name
  EXPECT_TRUE(t->IsSpecial(12));
  EXPECT_FALSE(t->IsSpecial(7));
}

// A model has more rows than there are pieces: the rest is no text, and no word is begun by it.
TEST_F(TokenizerTest, NumbersWithoutAPieceAreNoText) {
  auto t = Read(ByteLevelFile());
  ASSERT_TRUE(t) << t.error().message();
  ASSERT_TRUE(t->Tree());
  t->Widen(20);
  t->Widen(16);
  EXPECT_EQ(t->size(), 20);
  EXPECT_EQ(*t->Decode(Ids{7, 14, 3, 19}), "hello");
  EXPECT_EQ(*t->Continuation(19), "");
  EXPECT_EQ(*t->Piece(19), "");
  EXPECT_EQ((*t->Tree())->size(), 20);
  EXPECT_EQ(*t->Encode("hello"), (Ids{13, 7, 3}));
  EXPECT_EQ(t->Decode(Ids{20}).error().message(), "piece number 20, expected 0 to 19");
  json words = {
      {"model", {{"type", "WordLevel"}, {"vocab", {{"a", 0}, {"b", 2}}}, {"unk_token", "a"}}}};
  EXPECT_EQ(*Read(words)->Decode(Ids{1, 0, 1, 2}), "a b");
}

TEST_F(TokenizerTest, StepsThatFewFilesHave) {
  json file = {
      {"model",
       {{"type", "WordLevel"},
        {"vocab", {{"?", 0}, {"a b", 1}, {"ab", 2}, {"c", 3}, {"\xC3\x83\xC2\xA9\xC4\xA0", 4}}},
        {"unk_token", "?"}}}};
  const auto ids = [&](const char* step, const json& value, const std::string& text) {
    json with = file;
    with[step] = value;
    const auto t = Read(with);
    EXPECT_TRUE(t) << t.error().message();
    return t ? *t->Encode(text) : Ids();
  };
  EXPECT_EQ(ids("normalizer", {{"type", "Nmt"}},
                "a\xE2\x80\x8B\x01"
                "b"),
            (Ids{1}));
  EXPECT_EQ(ids("normalizer", {{"type", "ByteLevel"}}, "\xC3\xA9 "), (Ids{4}));
  EXPECT_EQ(ids("pre_tokenizer", {{"type", "CharDelimiterSplit"}, {"delimiter", "_"}}, "_ab__c"),
            (Ids{2, 3}));
  EXPECT_EQ(ids("pre_tokenizer", {{"type", "FixedLength"}, {"length", 2}}, "ababc"),
            (Ids{2, 2, 3}));
}

// As tokenizers 0.23 has it; 0.22 gave the piece as it is written.
TEST_F(TokenizerTest, AddedPiecesDecodeAsNormalized) {
  json file = ByteLevelFile();
  file["normalizer"] = {{"type", "Lowercase"}};
  file["added_tokens"].push_back({{"id", 14}, {"content", "<X>"}, {"normalized", true}});
  const auto t = Read(file);
  ASSERT_TRUE(t) << t.error().message();
  EXPECT_EQ(*t->Encode("hE<x>", {.add_special = false}), (Ids{5, 14}));
  EXPECT_EQ(*t->Decode(Ids{5, 14}), "he<x>");
}

TEST_F(TokenizerTest, StreamsWholeCharacters) {
  const auto t = Read(ByteLevelFile());
  ASSERT_TRUE(t) << t.error().message();
  StreamDecoder stream(*t);
  EXPECT_EQ(*stream.Next(0), "h");
  // F0 9F 98 80, a byte each
  EXPECT_EQ(*stream.Next(8), "");
  EXPECT_EQ(*stream.Next(9), "");
  EXPECT_EQ(*stream.Next(10), "");
  EXPECT_EQ(*stream.Next(11), "\xF0\x9F\x98\x80");
  // A character that is never finished does not hold back what follows it.
  EXPECT_EQ(*stream.Next(8), "");
  EXPECT_EQ(*stream.Next(0), "\xF0h");
  EXPECT_EQ(*stream.Next(8), "");
  EXPECT_EQ(stream.Finish(), "\xF0");
  EXPECT_EQ(stream.Finish(), "");
}

TEST_F(TokenizerTest, ReadsTheConfigurationBesideIt) {
  Write("tokenizer_config.json",
        R"({"eos_token": {"content": "<|end|>"}, "bos_token": "<s>", "pad_token": "o",
            "chat_template": [{"name": "rag", "template": "x"},
                              {"name": "tool_use", "template": "{{ tools }}"},
                              {"name": "default", "template": "{{ messages }}"}]})");
  const auto t = Read(ByteLevelFile());
  ASSERT_TRUE(t) << t.error().message();
  EXPECT_EQ(t->begin(), 13);
  EXPECT_EQ(t->padding(), 3);
  EXPECT_EQ(t->ends(), (Ids{12}));
  EXPECT_EQ(t->chat_template(), "{{ messages }}");
  EXPECT_EQ(t->tool_template(), "{{ tools }}");
  nlohmann::ordered_json chat = {{"messages", "m"}};
  EXPECT_EQ(*RenderChat(*t, chat), "m");
  chat["tools"] = nullptr;
  EXPECT_EQ(*RenderChat(*t, chat), "m");
  chat["tools"] = "t";
  EXPECT_EQ(*RenderChat(*t, chat), "t");
  // Templates in files of their own are all that there are.
  Write("chat_template.jinja", "file {{ messages }}");
  const auto plain = Read(ByteLevelFile());
  EXPECT_EQ(*RenderChat(*plain, chat), "file m") << "no template of its own for tools";
  std::filesystem::create_directories(folder_ / "additional_chat_templates");
  Write("additional_chat_templates/tool_use.jinja", "file {{ tools }}");
  EXPECT_EQ(*RenderChat(*Read(ByteLevelFile()), chat), "file t");
}

TEST_F(TokenizerTest, RefusesWhatIsBrokenOrUnsupported) {
  const json good = ByteLevelFile();
  const auto with = [&](const char* pointer, json value) {
    json changed = good;
    changed[json::json_pointer(pointer)] = std::move(value);
    return Refused(changed);
  };
  EXPECT_EQ(with("/model/type", "Magic"), "model: model of the type Magic");
  EXPECT_EQ(with("/model/merges", {"h x"}), "model: BPE: merge 0: \"x\" is not in the vocabulary");
  EXPECT_EQ(with("/model/merges", {"h o"}), "model: BPE: merge 0: \"ho\" is not in the vocabulary");
  EXPECT_EQ(with("/model/merges", {"h "}), "model: BPE: merge 0: \"\" is not in the vocabulary");
  EXPECT_EQ(with("/model/merges", {"h e l"}), "model: BPE: merge 0: expected two pieces");
  EXPECT_EQ(with("/model/merges/0", json::array({"h", 3})),
            "model: BPE: merge 0: expected two pieces");
  EXPECT_EQ(with("/model/vocab/o", 2), "model: BPE: vocab: piece number 2 is given twice");
  EXPECT_EQ(with("/model/vocab/o", int64_t{1} << 40),
            "model: BPE: vocab: piece number 1099511627776, expected 0 to 2097151");
  EXPECT_EQ(with("/model/vocab/o", -1),
            "model: BPE: vocab: piece number -1, expected 0 to 2097151");
  EXPECT_EQ(with("/model/vocab/o", "3"), "model: BPE: vocab: piece \"o\" has no number");
  EXPECT_EQ(with("/model/vocab", json::object()),
            "model: BPE: vocab: expected an object of pieces and their numbers");
  EXPECT_EQ(with("/model/unk_token", "?"), "model: BPE: unk_token \"?\" is not in the vocabulary");
  EXPECT_EQ(with("/model/dropout", 0.1), "model: BPE: a dropout that is not 0");
  EXPECT_EQ(with("/model",
                 {{"type", "Unigram"}, {"unk_id", 5}, {"vocab", json::parse(R"([["a", -1]])")}}),
            "model: Unigram: unk_id 5, expected at most 0");
  EXPECT_EQ(
      with("/model", {{"type", "Unigram"}, {"vocab", json::parse(R"([["a", -1], ["a", -2]])")}}),
      "model: Unigram: vocab: pieces 0 and 1 are the same text");
  EXPECT_EQ(with("/pre_tokenizer/type", "Sentences"), "pre_tokenizer of the type Sentences");
  EXPECT_EQ(with("/pre_tokenizer",
                 {{"type", "Split"}, {"pattern", {{"Regex", "a(b"}}}, {"behavior", "Isolated"}}),
            "Split: pattern a(b: missing closing parenthesis at byte 3");
  EXPECT_EQ(with("/normalizer", {{"type", "Magic"}}), "normalizer of the type Magic");
  EXPECT_EQ(with("/normalizer", {{"type", "Precompiled"}, {"precompiled_charsmap", "/////w=="}}),
            "Precompiled: a character map whose trie has 4294967295 bytes, expected at most 0");
  EXPECT_EQ(with("/decoder", {{"type", "CTC"}}), "decoder of the type CTC");
  EXPECT_EQ(with("/decoder", {{"type", "BPEDecoder"}}), "BPEDecoder: expected a suffix");
  const json word_end = {{"type", "BPEDecoder"}, {"suffix", "</w>"}};
  EXPECT_EQ(
      with("/decoder", {{"type", "Sequence"}, {"decoders", {{{"type", "ByteLevel"}}, word_end}}}),
      "Sequence: the decoder BPEDecoder after others");
  EXPECT_EQ(with("/added_tokens/0/id", 3), "added_tokens: piece number 3 is given twice");
  EXPECT_EQ(with("/added_tokens/0/id", 1e12),
            "added_tokens: \"<|end|>\" has the number 1000000000000, expected 0 to 2097151");
  EXPECT_EQ(with("/added_tokens/0/content", "h"),
            "added_tokens: \"h\" has the number 12, but the vocabulary says 0");
  EXPECT_EQ(with("/post_processor/special_tokens/<s>/ids/0", 99),
            "post_processor: piece number 99, expected 0 to 13");
  EXPECT_EQ(Refused(json::array()), "expected an object");
}

// Another type in the place of each value: read or refused, never a crash.
TEST_F(TokenizerTest, AnyTypeAnywhere) {
  json good = ByteLevelFile();
  good["normalizer"] = {{"type", "Sequence"},
                        {"normalizers",
                         {{{"type", "Replace"}, {"pattern", {{"String", "a"}}}, {"content", "b"}},
                          {{"type", "Strip"}, {"strip_left", true}}}}};
  good["decoder"] = {{"type", "Sequence"},
                     {"decoders",
                      {{{"type", "Replace"}, {"pattern", {{"String", "a"}}}, {"content", "b"}},
                       {{"type", "Fuse"}},
                       {{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}}}}};
  ASSERT_EQ(Refused(good), "");
  std::vector<json::json_pointer> places;
  const std::function<void(const json&, json::json_pointer)> walk = [&](const json& value,
                                                                        json::json_pointer at) {
    places.push_back(at);
    if (value.is_object()) {
      for (const auto& [key, item] : value.items()) walk(item, at / key);
    } else if (value.is_array()) {
      for (size_t i = 0; i < value.size(); ++i) walk(value[i], at / i);
    }
  };
  walk(good, json::json_pointer());
  for (const json::json_pointer& place : places) {
    for (const json& other : {json(), json(5), json(-1.5), json("x"), json(true), json::array(),
                              json::array({"x"}), json::object(), json{{"a", 1}}}) {
      json changed = good;
      changed[place] = other;
      const auto t = Read(changed);
      if (t) EXPECT_TRUE(t->Encode("hello <s>")) << place.to_string() << other;
    }
  }
}

// The work of a pattern is bounded, whatever the file asks for.
TEST_F(TokenizerTest, PatternsAreBounded) {
  const auto pattern = Pattern::Make("(a+)+$");
  ASSERT_TRUE(pattern) << pattern.error().message();
  const std::string text = std::string(40, 'a') + "b";
  const Status done = pattern->ForEachMatch(text, [](size_t, size_t) {});
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().message(),
            "pattern (a+)+$: a match at byte 0 of the text takes too much work");
  EXPECT_FALSE(Pattern::Make(std::string(20000, 'a')));
  EXPECT_EQ(Pattern::Make("a\\u41").error().message(),
            "pattern a\\u41: byte 2: \\u needs four hexadecimal digits");
  EXPECT_EQ(Pattern::Make("[a&&b]").error().message(),
            "pattern [a&&b]: an intersection of classes (&&) at byte 2");
}

TEST_F(TokenizerTest, PatternsAreOnigurumas) {
  const auto matches = [](const char* regex, const std::string& text) {
    std::vector<std::pair<size_t, size_t>> found;
    const auto pattern = Pattern::Make(regex);
    EXPECT_TRUE(pattern) << pattern.error().message();
    EXPECT_TRUE(pattern->ForEachMatch(text, [&](size_t b, size_t e) { found.emplace_back(b, e); }));
    return found;
  };
  using Found = std::vector<std::pair<size_t, size_t>>;
  EXPECT_EQ(matches(R"(\s)", "\xE1\xA0\x8E\xC2\x85"), (Found{{3, 5}}));  // U+180E is none
  EXPECT_EQ(matches(R"([\s\w])", "\xCC\x81-"), (Found{{0, 2}}));         // a mark is a word's
  EXPECT_EQ(matches(R"(\W+)", "a--b"), (Found{{1, 3}}));
  EXPECT_EQ(matches(R"(\u0041|x*)", "AAxx"), (Found{{0, 1}, {1, 2}, {2, 4}}));
  EXPECT_EQ(matches(R"([]a]+)", "a]"), (Found{{0, 2}}));
  EXPECT_EQ(
      matches(R"(\w+)", "x\xC2\xB2\xC2\xBD\xE2\x85\xA7\xE2\x93\x90-\xE2\x81\xB4\xE2\x91\xA0"),
      (Found{{0, 11}}))  // superscript two, a half, Roman eight and b in a circle are a word's
      << "and superscript four and one in a circle are not";
  // A script has not what several scripts share: the ideographic full stop, the prolonged sound.
  EXPECT_EQ(matches(R"(\p{Han}+)", "\xE4\xBB\x8A\xE3\x80\x82"), (Found{{0, 3}}));
  EXPECT_EQ(matches(R"([\P{Hiragana}]+)", "\xE3\x83\xBC"), (Found{{0, 3}}));
  EXPECT_EQ(matches(R"(\p{^Han})", "\xE4\xBB\x8A\xE3\x80\x82"), (Found{{3, 6}}));
  EXPECT_EQ(matches(R"(\p{L}\pL\p{Lu})", "abC"), (Found{{0, 3}}));
}

TEST_F(TokenizerTest, Unicode) {
  EXPECT_EQ(ValidUtf8("a\xC3\xA4\xFF\xC0\x80\xED\xA0\x80"),
            "a\xC3\xA4\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD");
  EXPECT_EQ(UnfinishedBytes("a\xF0\x9F\x98"), 3);
  EXPECT_EQ(UnfinishedBytes("a\xE2\x96"), 2);
  EXPECT_EQ(UnfinishedBytes("a\xC3"), 1);
  EXPECT_EQ(UnfinishedBytes("a\xC3\xA4"), 0);
  EXPECT_EQ(UnfinishedBytes("\x80\x80\x80\x80"), 0);
  EXPECT_EQ(UnfinishedBytes("a\xFF"), 0);
  EXPECT_EQ(Normalized("e\xCC\x81", NormalForm::kNfc), "\xC3\xA9");
  EXPECT_EQ(Normalized("\xEF\xAC\x81", NormalForm::kNfkd), "fi");
  // Marks are ordered by class (220 before 230), in linear time: half a million of them.
  std::string marks = "a", ordered = "a";
  for (int i = 0; i < 250000; ++i) marks += "\xCC\x81\xCC\xA3";
  for (int i = 0; i < 250000; ++i) ordered += "\xCC\xA3";
  for (int i = 0; i < 250000; ++i) ordered += "\xCC\x81";
  EXPECT_EQ(Normalized(marks, NormalForm::kNfd), ordered);
}

// A character map whose offsets leave the table finds nothing.
TEST_F(TokenizerTest, HostileCharacterMaps) {
  std::string table("\x08\0\0\0", 4);
  table += std::string("\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF", 8);
  const auto map = CharacterMap::Make(table);
  ASSERT_TRUE(map);
  for (int c = 1; c < 256; ++c)
    EXPECT_EQ(map->Longest(std::string(3, static_cast<char>(c))).bytes, 0);
  EXPECT_FALSE(CharacterMap::Make("abc"));
}

// A SentencePiece file of byte pairs: <unk>, <s>, </s>, a space, a, b and " a".
std::string SentencePieceFile() {
  const auto field = [](char number, const std::string& bytes) {
    return std::string{static_cast<char>(number << 3 | 2), static_cast<char>(bytes.size())} + bytes;
  };
  std::string file;
  const auto piece = [&](const std::string& text, float score, char type) {
    std::string message = field(1, text) + std::string{2 << 3 | 5};
    message.append(reinterpret_cast<const char*>(&score), sizeof(score));
    file += field(1, message + std::string{3 << 3, type});
  };
  const std::string s = "\xE2\x96\x81";
  piece("<unk>", 0, 2), piece("<s>", 0, 3), piece("</s>", 0, 3);
  piece(s, -3, 1), piece("a", -4, 1), piece("b", -5, 1), piece(s + "a", -1, 1);
  return file + field(2, std::string{3 << 3, 2});  // byte pairs
}

// What transformers reads beside a vocabulary without a tokenizer.json.
TEST_F(TokenizerTest, ConfigurationsBesideSentencePiece) {
  std::map<std::string, std::string> files = {{"tokenizer.model", SentencePieceFile()}};
  const auto read = [&] {
    const auto t = Tokenizer::FromFiles(files);
    EXPECT_TRUE(t) << t.error().message();
    return *t;
  };
  EXPECT_EQ(*read().Encode("a</s>"), (Ids{1, 6, 0})) << "as SentencePiece alone has it";
  json config = json::parse(R"({
      "tokenizer_class": "LlamaTokenizer", "add_bos_token": true, "bos_token": "<s>",
      "eos_token": {"content": "<|end|>"}, "pad_token": "[PAD]", "chat_template": "c",
      "added_tokens_decoder": {
        "7": {"content": "<|user|>", "special": true, "rstrip": true},
        "9": {"content": "<|end|>", "special": true}, "8": {"content": "tool"}}})");
  files["tokenizer_config.json"] = config.dump();
  Tokenizer t = read();
  EXPECT_EQ(*t.Encode("a<|user|> atool a<|end|></s>"), (Ids{1, 6, 7, 6, 8, 6, 9, 3, 0}))
      << "</s> is no piece of the configuration";
  EXPECT_EQ(*t.Decode(Ids{6, 7, 8, 9}), "atool");
  EXPECT_EQ(*t.Find("[PAD]"), 10) << "behind the others";
  EXPECT_EQ(t.padding(), 10);
  EXPECT_EQ(t.ends(), (Ids{9, 2}));
  EXPECT_EQ(t.chat_template(), "c");
  // Only what begins the text has a space in front.
  config["legacy"] = false;
  config["add_bos_token"] = false;
  config["add_eos_token"] = true;
  files["tokenizer_config.json"] = config.dump();
  EXPECT_EQ(*read().Encode("a<|user|>atool a"), (Ids{6, 7, 4, 8, 6, 9}));
  // Files of older versions.
  files["tokenizer_config.json"] = "{}";
  files["added_tokens.json"] = R"({"<|user|>": 8, "tool": 7})";
  files["special_tokens_map.json"] =
      R"({"eos_token": "</s>", "additional_special_tokens": ["<|user|>"]})";
  files["chat_template.jinja"] = "j";
  t = read();
  EXPECT_EQ(*t.Encode("a<|user|>tool</s>"), (Ids{1, 6, 8, 7, 2}));
  EXPECT_TRUE(t.IsSpecial(8));
  EXPECT_FALSE(t.IsSpecial(7));
  EXPECT_EQ(t.chat_template(), "j");
  const auto refused = [&](const char* name, const char* bytes) {
    auto changed = files;
    changed[name] = bytes;
    const auto r = Tokenizer::FromFiles(changed);
    return r ? "" : r.error().message();
  };
  EXPECT_EQ(refused("added_tokens.json", R"({"a": 9})"),
            "added_tokens.json: \"a\" has the number 9, but the vocabulary says 4");
  EXPECT_EQ(refused("added_tokens.json", R"({"x": "9"})"),
            "added_tokens.json: piece \"x\" has no number");
  EXPECT_EQ(refused("tokenizer_config.json", R"({"added_tokens_decoder": {"x": {}}})"),
            "tokenizer_config.json: added_tokens_decoder: \"x\" is no number");
  EXPECT_EQ(refused("tokenizer_config.json", R"({"added_tokens_decoder": {"9": {}}})"),
            "tokenizer_config.json: added_tokens_decoder: expected a piece's text");
}

TEST_F(TokenizerTest, ConfigurationsBesideBytePairs) {
  std::map<std::string, std::string> files = {
      {"vocab.json", R"({"1": 0, "11": 1, "a": 2, "<|endoftext|>": 3})"},
      {"merges.txt", "#version: 0.2\n1 1\n"}};
  EXPECT_EQ(*Tokenizer::FromFiles(files)->Encode("11<|user|>"), (Ids{1}));
  files["tokenizer_config.json"] =
      R"({"tokenizer_class": "Qwen2Tokenizer", "eos_token": "<|user|>", "bos_token": null,
          "added_tokens_decoder": {"4": {"content": "<|user|>", "special": true}}})";
  const auto t = Tokenizer::FromFiles(files);
  ASSERT_TRUE(t) << t.error().message();
  EXPECT_EQ(*t->Encode("11a<|user|>a<|endoftext|>"), (Ids{0, 0, 2, 4, 2, 3}))
      << "Qwen2 has a digit at a time";
  EXPECT_EQ(t->ends(), (Ids{4, 3}));
  EXPECT_EQ(t->begin(), -1);
}

TEST_F(TokenizerTest, WhatEndsAChat) {
  const auto ends = [](const char* vocab, const char* config) {
    const std::map<std::string, std::string> files = {
        {"vocab.json", vocab}, {"merges.txt", ""}, {"tokenizer_config.json", config}};
    return Tokenizer::FromFiles(files)->ends();
  };
  EXPECT_EQ(ends(R"({"a": 0, "<|end|>": 1})",
                 R"({"added_tokens_decoder": {"1": {"content": "<|end|>", "special": true}}})"),
            (Ids{1}));
  EXPECT_EQ(ends(R"({"a": 0, "<|end|>": 1, "<|call|>": 2, "<|return|>": 3})",
                 R"({"added_tokens_decoder": {"1": {"content": "<|end|>", "special": true},
                     "2": {"content": "<|call|>", "special": true},
                     "3": {"content": "<|return|>", "special": true}}})"),
            (Ids{3, 2}))
      << "gpt-oss has channels that end";
}

// Pieces that end a word have </w>: a space where another piece follows. CLIP's class lowers case
// and stands its own pieces around a text.
TEST_F(TokenizerTest, WordsThatEnd) {
  std::map<std::string, std::string> files = {
      {"vocab.json", R"({"<|startoftext|>": 0, "<|endoftext|>": 1, "a": 2, "b": 3, "b</w>": 4,
                        "a</w>": 5, "ab</w>": 6})"},
      {"merges.txt", "#version: 0.2\na b</w>\n"}};
  for (const bool named : {false, true}) {
    if (named) files["tokenizer_config.json"] = R"({"tokenizer_class": "CLIPTokenizer"})";
    const auto t = Tokenizer::FromFiles(files);
    ASSERT_TRUE(t) << t.error().message();
    const Ids ids = *t->Encode("AB  a\nba");
    EXPECT_EQ(ids, (Ids{0, 6, 5, 3, 5, 1})) << named;
    EXPECT_EQ(*t->Decode(ids), "ab a ba");
    EXPECT_EQ(*t->Decode(Ids{6}), "ab");
    EXPECT_EQ(*t->Continuation(6), "ab ");
    StreamDecoder stream(*t);
    EXPECT_EQ(*stream.Next(6), "ab");
    EXPECT_EQ(*stream.Next(3), " b");
    EXPECT_EQ(*stream.Next(5), "a");
    EXPECT_EQ(stream.Finish(), "");
    StreamDecoder behind(*t);
    behind.Follow(Ids{6, 5});
    EXPECT_EQ(*behind.Next(5), " a");
  }
  files["tokenizer_config.json"] = R"({"tokenizer_class": "GPT2Tokenizer"})";
  EXPECT_EQ(*Tokenizer::FromFiles(files)->Encode("ab"), (Ids{2, 3}));
}

GgufTokenizer Llama() {
  const std::string s = "\xE2\x96\x81";
  return {.model = "llama",
          .tokens = {"<unk>", "<s>", "</s>", "<0x0A>", s, "a", "b", "ab", s + "ab", "<|user|>"},
          .scores = {0, 0, 0, 0, -5, -6, -7, -1, -2, 0},
          .token_type = {2, 3, 3, 6, 1, 1, 1, 1, 1, 4},
          .bos_token_id = 1,
          .eos_token_id = 2,
          .chat_template = "x"};
}

TEST_F(TokenizerTest, GgufOfSentencePiece) {
  const auto t = TokenizerFromGguf(Llama());
  ASSERT_TRUE(t) << t.error().message();
  EXPECT_EQ(*t->Encode("ab\n<|user|>b</s>"), (Ids{1, 8, 3, 9, 4, 6, 2}));
  EXPECT_EQ(*t->Decode(Ids{1, 8, 3, 8, 2}), "ab\n ab");
  EXPECT_EQ(t->ends(), (Ids{2}));
  EXPECT_EQ(t->chat_template(), "x");
  GgufTokenizer plain = Llama();
  plain.add_space_prefix = false;
  plain.add_bos_token = false;
  plain.add_eos_token = true;
  EXPECT_EQ(*TokenizerFromGguf(plain)->Encode("ab ab"), (Ids{7, 8, 2}));
}

// Runs of spaces that the user defined, as Gemma's, are spelled with the mark or with spaces.
TEST_F(TokenizerTest, GgufPiecesOfSpaces) {
  const std::string s = "\xE2\x96\x81";
  for (const bool marked : {true, false}) {
    GgufTokenizer gguf = Llama();
    gguf.tokens.push_back(marked ? s + s : "  ");
    gguf.scores.push_back(0);
    gguf.token_type.push_back(4);
    gguf.add_space_prefix = false;
    EXPECT_EQ(*TokenizerFromGguf(gguf)->Encode("a  b"), (Ids{1, 5, 10, 6})) << marked;
    EXPECT_EQ(*TokenizerFromGguf(gguf)->Decode(Ids{5, 10, 6}), "a  b") << marked;
  }
}

// What is stripped from the beginning of a text is kept behind other pieces; special ones are none.
TEST_F(TokenizerTest, ContinuationsKeepTheirSpace) {
  const auto t = TokenizerFromGguf(Llama());
  ASSERT_TRUE(t) << t.error().message();
  const auto behind = [&](const Ids& before) {
    StreamDecoder stream(*t);
    stream.Follow(before);
    return *stream.Next(8);
  };
  EXPECT_EQ(behind({}), "ab");
  EXPECT_EQ(behind({1, 2}), "ab");
  EXPECT_EQ(behind({1, 5}), " ab");
  EXPECT_EQ(behind({4}), " ab");          // the piece that was stripped
  EXPECT_EQ(behind({1, 700, 8}), " ab");  // 700 is no piece
  EXPECT_EQ(behind({5, 6, 700}), " ab");
  EXPECT_EQ(*t->Continuation(8), " ab");
  EXPECT_EQ(*t->Continuation(1), *t->Piece(1)) << "a special piece";
  EXPECT_FALSE(t->Continuation(700));
}

TEST_F(TokenizerTest, GgufOfBytePairs) {
  GgufTokenizer gguf{.model = "gpt2",
                     .pre = "llama-bpe",
                     .tokens = {"a", "1", "11", "\xC4\xA0",
                                "\xC4\xA0"
                                "a",
                                "<|end|>", "<s>"},
                     .token_type = {1, 1, 1, 1, 1, 3, 3},
                     .merges = {"1 1", "\xC4\xA0 a"},
                     .bos_token_id = 6,
                     .eos_token_id = 5};
  EXPECT_EQ(*TokenizerFromGguf(gguf)->Encode("a a1111<|end|>"), (Ids{6, 0, 4, 2, 1, 1, 5}));
  gguf.pre = "qwen2";  // a digit at a time, and no begin piece
  EXPECT_EQ(*TokenizerFromGguf(gguf)->Encode("11"), (Ids{1, 1}));
  gguf.pre = "smollm";
  EXPECT_EQ(*TokenizerFromGguf(gguf)->Encode("11 a"), (Ids{1, 1, 4}));
}

// Where rules split a text. Pieces are bytes, and all that two of them make, the first of the list
// before the others: what is split stays apart.
TEST_F(TokenizerTest, GgufWordRules) {
  const auto words = [](const char* name, const std::string& text) {
    GgufTokenizer gguf{.model = "gpt2", .pre = name, .bos_token_id = 0, .add_bos_token = true};
    std::string characters = "\n !\"#$'+,-.019aBcdsxyzABCD";
    characters += "\xE4\xBB\x8A\xC3\xA9\x80\x82\xE3";
    std::vector<std::string> all;
    for (const char c : characters) {
      const std::string piece = ByteLevelCharacter(static_cast<unsigned char>(c));
      if (std::ranges::find(all, piece) == all.end()) all.push_back(piece);
    }
    gguf.tokens = all;
    for (const std::string& a : all) {
      for (const std::string& b : all) {
        gguf.tokens.push_back(a + b);
        gguf.merges.push_back(a + " " + b);
      }
    }
    const auto t = TokenizerFromGguf(gguf);
    EXPECT_TRUE(t) << t.error().message();
    std::string out;
    const Ids ids = *t->Encode(text, {.add_special = false});
    for (const int64_t id : ids) {
      if (!out.empty()) out += '|';
      out += *t->Decode(Ids{id}, true);
    }
    return std::pair(out, t->Encode("")->size());
  };
  const auto split = [&](const char* name, const std::string& text) {
    return words(name, text).first;
  };
  EXPECT_EQ(split("gpt-2", "a 19019"), "a| 1|9|01|9");
  EXPECT_EQ(split("", "a 19019"), "a| |19|0|19") << "the default of old files";
  EXPECT_EQ(split("default", "a 19019"), "a| |19|0|19");
  EXPECT_EQ(split("tekken", "aBc"), "a|Bc");
  EXPECT_EQ(split("qwen2", "aBc"), "aB|c");
  EXPECT_EQ(split("tekken", "19019"), "1|9|0|1|9");
  EXPECT_EQ(split("llama4", "190.1"), "19|0|.|1");
  EXPECT_EQ(split("deepseek-llm", "a 19 xyz"), "a| |19| x|yz");
  EXPECT_EQ(split("deepseek-coder", "19"), "1|9");
  EXPECT_EQ(split("deepseek-v3", "-dsx 19019"), "-d|sx| |19|0|19");
  EXPECT_EQ(split("falcon", "$19019"), "$|19|0|19");
  EXPECT_EQ(split("superbpe", "1901"), "1|9|01");
  EXPECT_EQ(split("bloom", "a,,d"), "a|,,|d");
  EXPECT_EQ(split("viking", "a19"), "a|1|9");
  EXPECT_EQ(split("seed-coder", "!\na"), "!|\n|a");
  EXPECT_EQ(split("qwen2", "!\na"), "!\n|a");
  EXPECT_EQ(split("ufakzeka", "a'sx"), "a|'s|x");
  EXPECT_EQ(split("kimi-k2", "\xE4\xBB\x8A\xE3\x80\x82"), "\xE4\xBB|\x8A|\xE3|\x80\x82");
  EXPECT_EQ(words("gpt-2", "").second, 1u);
  EXPECT_EQ(words("glm4", "").second, 0u) << "never with the begin piece";
  std::string names = GgufWordsNames();
  for (size_t at = 0; at < names.size();) {
    const size_t end = std::min(names.find(", ", at), names.size());
    EXPECT_NE(split(names.substr(at, end - at).c_str(), "a B 19\n"), "");
    at = end + 2;
  }
}

TEST_F(TokenizerTest, GgufRefuses) {
  const auto refused = [](auto change) {
    GgufTokenizer gguf = Llama();
    change(gguf);
    const auto t = TokenizerFromGguf(gguf);
    return t ? "" : t.error().message();
  };
  EXPECT_EQ(refused([](auto& g) { g.model = "rwkv"; }),
            "tokenizer.ggml.model is rwkv: name another tokenizer (--tokenizer), or expected llama "
            "or gpt2");
  EXPECT_TRUE(refused([](auto& g) { g.model = "gpt2", g.pre = "x"; })
                  .starts_with("tokenizer.ggml.pre is x: name another tokenizer (--tokenizer), or "
                               "expected one of default, gpt-2, "));
  EXPECT_EQ(refused([](auto& g) { g.tokens.clear(); }), "tokens: there are none");
  EXPECT_EQ(refused([](auto& g) { g.scores.pop_back(); }), "scores has 9 entries, tokens 10");
  EXPECT_EQ(refused([](auto& g) { g.scores[3] = NAN; }), "scores: piece 3 has none");
  EXPECT_EQ(refused([](auto& g) { g.token_type.pop_back(); }),
            "token_type has 9 entries, tokens 10");
  EXPECT_EQ(refused([](auto& g) { g.token_type[2] = 7; }),
            "token_type: piece 2 has 7, expected 1 to 6");
  EXPECT_EQ(refused([](auto& g) { g.tokens[5] = "b"; }),
            "tokens: pieces 5 and 6 are the same text");
  EXPECT_EQ(refused([](auto& g) { g.eos_token_id = 10; }), "eos_token_id is 10, expected 0 to 9");
  EXPECT_EQ(refused([](auto& g) { g.model = "gpt2", g.pre = "gpt-2", g.merges = {"ab"}; }),
            "merge 0: expected two pieces with a space between");
}

}  // namespace
}  // namespace evoq
