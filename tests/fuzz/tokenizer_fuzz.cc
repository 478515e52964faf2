// Room: tokenizer
// tokenizer.json: each file is read or refused, and what was read turns texts into tokens and
// tokens into texts. Mutations change the JSON's values, its members and whole parts of it.
#include <algorithm>
#include <random>

#include "base/check.h"
#include "base/json_file.h"
#include "tests/fuzz/time_limit.h"
#include "tokenizer/grammar/matcher.h"
#include "tokenizer/tokenizer.h"

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t max_size);

namespace {

using namespace evoq;
using nlohmann::json;

// A file of each model, and between them all steps that there are.
const std::vector<json>& Seeds() {
  static const std::vector<json> seeds = [] {
    constexpr const char* kTexts[] = {
        R"({"added_tokens": [{"id": 9, "content": "</s>", "special": true, "normalized": false,
            "single_word": false, "lstrip": true, "rstrip": false}],
            "normalizer": {"type": "Sequence", "normalizers": [{"type": "NFC"}, {"type": "Replace",
              "pattern": {"Regex": " +"}, "content": " "}, {"type": "Strip", "strip_left": true,
              "strip_right": false}]},
            "pre_tokenizer": {"type": "Sequence", "pretokenizers": [{"type": "Split", "pattern":
              {"Regex": "\\p{L}+|\\p{N}{1,3}|[^\\s]|\\s+(?!\\S)|\\s+"}, "behavior": "Isolated",
              "invert": false}, {"type": "ByteLevel", "add_prefix_space": false,
              "trim_offsets": true, "use_regex": false}]},
            "post_processor": {"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": false,
              "use_regex": true},
            "decoder": {"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true,
              "use_regex": true},
            "model": {"type": "BPE", "dropout": null, "unk_token": null,
              "continuing_subword_prefix": null, "end_of_word_suffix": null, "fuse_unk": false,
              "byte_fallback": false, "ignore_merges": true, "vocab": {"h": 0, "e": 1, "l": 2,
              "o": 3, "Ġ": 4, "he": 5, "ll": 6, "llo": 7, "Ã": 8}, "merges": [["h", "e"], "l l",
              "ll o"]}})",
        R"({"added_tokens": [{"id": 0, "content": "<unk>", "special": true, "normalized": false,
              "single_word": false, "lstrip": false, "rstrip": false}],
            "normalizer": {"type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": "▁"},
              {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}]},
            "pre_tokenizer": null,
            "post_processor": {"type": "TemplateProcessing", "single": [{"SpecialToken": {"id":
              "<unk>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}], "pair": [],
              "special_tokens": {"<unk>": {"id": "<unk>", "ids": [0], "tokens": ["<unk>"]}}},
            "decoder": {"type": "Sequence", "decoders": [{"type": "Replace", "pattern": {"String":
              "▁"}, "content": " "}, {"type": "ByteFallback"}, {"type": "Fuse"}, {"type": "Strip",
              "content": " ", "start": 1, "stop": 0}]},
            "model": {"type": "BPE", "unk_token": "<unk>", "fuse_unk": true, "byte_fallback": true,
              "vocab": {"<unk>": 0, "<0xC3>": 1, "<0xA9>": 2, "▁": 3, "a": 4, "▁a": 5},
              "merges": ["▁ a"]}})",
        R"({"added_tokens": [], "normalizer": {"type": "Precompiled", "precompiled_charsmap": ""},
            "pre_tokenizer": {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always",
              "split": true},
            "post_processor": {"type": "RobertaProcessing", "sep": ["</s>", 1], "cls": ["<s>", 0],
              "trim_offsets": true, "add_prefix_space": false},
            "decoder": {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always",
              "split": true},
            "model": {"type": "Unigram", "unk_id": 2, "byte_fallback": false, "vocab": [["<s>", 0],
              ["</s>", 0], ["<unk>", 0], ["▁", -2.5], ["a", -3], ["▁ab", -4.25], ["b", -3.5]]}})",
        R"({"added_tokens": [{"id": 1, "content": "[SEP]", "special": true, "normalized": false,
              "single_word": true, "lstrip": false, "rstrip": true}],
            "normalizer": {"type": "BertNormalizer", "clean_text": true, "handle_chinese_chars":
              true, "strip_accents": null, "lowercase": true},
            "pre_tokenizer": {"type": "BertPreTokenizer"},
            "post_processor": {"type": "BertProcessing", "sep": ["[SEP]", 1], "cls": ["[CLS]", 2]},
            "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": true},
            "model": {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##",
              "max_input_chars_per_word": 100, "vocab": {"[UNK]": 0, "[SEP]": 1, "[CLS]": 2,
              "he": 3, "##llo": 4, "日": 5, "!": 6}}})",
        R"({"added_tokens": [], "normalizer": {"type": "Sequence", "normalizers": [{"type": "NFKD"},
              {"type": "StripAccents"}, {"type": "Lowercase"}, {"type": "NFD"}, {"type": "NFKC"}]},
            "pre_tokenizer": {"type": "Sequence", "pretokenizers": [{"type": "Whitespace"},
              {"type": "Digits", "individual_digits": true}, {"type": "Punctuation", "behavior":
              "MergedWithPrevious"}, {"type": "WhitespaceSplit"}]},
            "post_processor": null, "decoder": null,
            "model": {"type": "WordLevel", "unk_token": "?", "vocab": {"?": 0, "hello": 1,
              "1": 2}}})"};
    std::vector<json> all;
    for (const char* text : kTexts) all.push_back(json::parse(text));
    return all;
  }();
  return seeds;
}

// Some place in a value, by chance.
json* Somewhere(json& value, std::minstd_rand& random) {
  json* at = &value;
  while (at->is_structured() && !at->empty() && random() % 8 != 0) {
    auto next = at->begin();
    std::advance(next, static_cast<std::ptrdiff_t>(random() % at->size()));
    at = &*next;
  }
  return at;
}

json Other(std::minstd_rand& random) {
  const json others[] = {
      nullptr, true,   false,   0,           -1,          1e9,        -1.5,
      "",      "a",    "▁",     "Ġ",         "##",        "\xC3\xA9", json::array(),
      "(a*)*", "[^a]", "<s>",   "</s>",      "NFC",       "Sequence", json::object(),
      ".",     "\\",   "Split", "ByteLevel", "Metaspace", "<0x41>",   1 << 21};
  return others[random() % std::size(others)];
}

void Mutate(json& file, std::minstd_rand& random) {
  json* const at = Somewhere(file, random);
  switch (random() % 6) {
    case 0: *at = Other(random); break;
    case 1: {
      json other = Seeds()[random() % Seeds().size()];
      *at = *Somewhere(other, random);
      break;
    }
    case 2: {
      json same = file;
      *at = *Somewhere(same, random);
      break;
    }
    case 3:
      if (at->is_array()) at->push_back(at->empty() ? Other(random) : (*at)[0]);
      if (at->is_object()) (*at)[Other(random).dump().substr(0, 6)] = Other(random);
      if (at->is_string()) *at = at->get<std::string>() + "a";
      break;
    case 4:
      if (at->is_structured() && !at->empty()) {
        auto item = at->begin();
        std::advance(item, static_cast<std::ptrdiff_t>(random() % at->size()));
        at->erase(item);
      }
      if (at->is_number()) *at = at->get<double>() + (random() % 3 - 1.0);
      break;
    default: {  // a part of another file
      constexpr const char* kParts[] = {"normalizer", "pre_tokenizer", "post_processor",
                                        "decoder",    "model",         "added_tokens"};
      const char* const part = kParts[random() % std::size(kParts)];
      if (file.is_object()) file[part] = Seeds()[random() % Seeds().size()][part];
    }
  }
}

void Use(const Tokenizer& tokenizer) {
  std::string_view texts[] = {"", "hello  héllo \xE6\x97\xA5 12345!\n", "\xFF</s> <unk>[SEP]a\xCC",
                              " ab aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\tab"};
  for (const std::string_view text : texts) {
    for (const bool special : {false, true}) {
      const auto ids = tokenizer.Encode(text, {.add_special = special, .parse_special = special});
      if (!ids) {
        EVOQ_CHECK(ids.error().code() != ErrorCode::kInternal, "{}", ids.error().message());
        continue;
      }
      for (const int64_t id : *ids)
        EVOQ_CHECK(id >= 0 && id < tokenizer.size(), "token {} of {}", id, tokenizer.size());
      const auto whole = tokenizer.Decode(*ids, special);
      EVOQ_CHECK(whole, "{}", whole.error().message());
      StreamDecoder stream(tokenizer, special);
      std::string pieces;
      for (const int64_t id : *ids) pieces += *stream.Next(id);
      EVOQ_CHECK(pieces + stream.Finish() == *whole, "pieces of a text are another text");
    }
  }
  EVOQ_CHECK(tokenizer.size() > 100000 || tokenizer.Tree(), "no tree of its pieces");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const TimeLimit limit;
  const auto tokenizer = Tokenizer::FromFiles(
      {{"tokenizer.json", std::string(reinterpret_cast<const char*>(data), size)}});
  if (tokenizer) return Use(*tokenizer), 0;
  EVOQ_CHECK(tokenizer.error().code() != ErrorCode::kInternal, "{}", tokenizer.error().message());
  EVOQ_CHECK(tokenizer.error().message().size() < 4096, "an error of {} bytes",
             tokenizer.error().message().size());
  return 0;
}

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size,
                                          unsigned int seed) {
  std::minstd_rand random(seed);
  random();
  const auto parsed = ParseJson({reinterpret_cast<const char*>(data), size});
  json file = Seeds()[random() % Seeds().size()];
  if (parsed && random() % 64 != 0) file = *parsed;
  if (parsed && random() % 16 == 0) return LLVMFuzzerMutate(data, size, max_size);
  for (unsigned step = random() % 3 + 1; step > 0; --step) Mutate(file, random);
  const std::string text = file.dump(-1, ' ', false, json::error_handler_t::replace);
  if (text.size() > max_size) return LLVMFuzzerMutate(data, size, max_size);
  std::copy(text.begin(), text.end(), data);
  return text.size();
}
