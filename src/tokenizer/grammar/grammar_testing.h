// A tokenizer of all bytes and of some words, for tests.
#pragma once

#include <array>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/check.h"
#include "tokenizer/grammar/matcher.h"
#include "tokenizer/unicode.h"

namespace evoq {

// Token b is the byte b; then come the words, and the last one, special, is </s>.
inline Tokenizer ByteTokenizer(const std::vector<std::string>& words = {}) {
  // GPT-2's characters for bytes.
  const auto shown = [](unsigned char byte) {
    static const auto table = [] {
      std::array<uint32_t, 256> codes;
      uint32_t next = 256;
      for (uint32_t b = 0; b < codes.size(); ++b) {
        const bool plain = (b >= '!' && b <= '~') || (b >= 0xA1 && b <= 0xAC) || b >= 0xAE;
        codes[b] = plain ? b : next++;
      }
      return codes;
    }();
    std::string out;
    AppendUtf8(out, table[byte]);
    return out;
  };
  nlohmann::json vocabulary;
  for (int b = 0; b < 256; ++b) vocabulary[shown(static_cast<unsigned char>(b))] = b;
  for (const std::string& word : words) {
    std::string piece;
    for (const char c : word) piece += shown(static_cast<unsigned char>(c));
    vocabulary.emplace(piece, vocabulary.size());
  }
  const auto end = vocabulary.size();
  const nlohmann::json level = {
      {"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}};
  const nlohmann::json file = {
      {"version", "1.0"},
      {"added_tokens",
       {{{"id", end},
         {"content", "</s>"},
         {"special", true},
         {"normalized", false},
         {"single_word", false},
         {"lstrip", false},
         {"rstrip", false}}}},
      {"pre_tokenizer", level},
      {"decoder", level},
      {"model", {{"type", "BPE"}, {"vocab", vocabulary}, {"merges", nlohmann::json::array()}}}};
  auto made = Tokenizer::FromFiles({{"tokenizer.json", file.dump()}});
  EVOQ_CHECK(made, "{}", made.error().message());
  return *made;
}

// How a text stands to a grammar, byte by byte.
enum class Fits { kNo, kBegins, kWhole };
inline Fits FitOf(const std::shared_ptr<const Grammar>& grammar, std::string_view text) {
  static const auto tree = *TokenTree::Of(ByteTokenizer());
  GrammarMatcher matcher(grammar, tree);
  for (const char c : text) {
    if (!matcher.Take(static_cast<unsigned char>(c))) return Fits::kNo;
  }
  return matcher.whole() ? Fits::kWhole : Fits::kBegins;
}

}  // namespace evoq
