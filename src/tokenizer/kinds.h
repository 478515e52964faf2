// The kinds of tokenizer files: a row each, named by one line in tokenizer/kinds.inc.
#pragma once

#include <nlohmann/json.hpp>
#include <span>
#include <string>

#include "base/result.h"
#include "tokenizer/files.h"
#include "tokenizer/parts.h"

namespace evoq {

struct TokenizerKind {
  const char* name;
  const char* file;  // its name in a model's folder
  // Whether a file is of this kind, by its name in lower case.
  bool (*matches)(std::string_view name);
  // Errors: with the file's name and the place in it.
  Result<TokenizerParts> (*read)(const TokenizerFiles& files, const std::string& name);
};

// In the order in which a folder is searched.
std::span<const TokenizerKind* const> AllTokenizerKinds();

inline constexpr size_t kMaxTokenizerBytes = 128 << 20;

// tokenizer_config.json beside a tokenizer; null where there is none.
Result<nlohmann::json> TokenizerConfig(const TokenizerFiles& files);
// The chat templates: of files of their own, else the configuration's. Errors: those of the files.
Status ReadTemplates(const TokenizerFiles& files, const nlohmann::json& config,
                     TokenizerParts& parts);
// What transformers adds to a vocabulary that has no tokenizer.json: the pieces of the
// configuration (added_tokens_decoder), of added_tokens.json and special_tokens_map.json, which of
// them are special, what stands around a text (add_bos_token, add_eos_token), the chat templates.
// Without these files all stays as it is. Errors: kInvalidInput with the file's name.
Status Configure(const TokenizerFiles& files, const nlohmann::json& config, TokenizerParts& parts);
// Parts of a SentencePiece file. `prefix_once`: only what begins a text gets the file's space in
// front, not what is behind an added piece. Errors: with the file's name and the place in it.
Result<TokenizerParts> SentencePieceParts(const TokenizerFiles& files, const std::string& name,
                                          bool prefix_once = false);
// Parts of SentencePiece's byte pairs: a vocabulary, its unknown piece, and how words with U+2581
// for spaces become pieces. `scores` by piece; `defined_join`: of what the user defined too.
Result<TokenizerParts> SentencePiecePairs(std::shared_ptr<const Vocabulary> vocabulary,
                                          std::span<const double> scores, bool byte_fallback,
                                          bool defined_join = false);
// Decoding of it: U+2581 is a space, bytes' pieces are bytes, one space at the beginning is lost
// where `prefix` put one there.
DecodeSteps SentencePieceDecode(bool prefix);
// {"piece": number, ...}. Errors: kInvalidInput naming the piece.
Result<Vocabulary> VocabularyOf(const nlohmann::json& vocab);
// Special pieces that by their names end what a chat model says.
void AddEndsByName(TokenizerParts& parts);

}  // namespace evoq
