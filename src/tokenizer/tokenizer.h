// Text to the numbers of a language model's pieces and back.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace evoq {

struct TokenizerParts;  // parts.h
struct TokenizerCore;
class TokenTree;  // grammar/matcher.h

struct EncodeOptions {
  bool add_special = true;    // with what the file puts around a text: the begin piece, [CLS], ...
  bool parse_special = true;  // a special piece written in the text ("<|im_end|>") is that piece
};

// A value; copies share what they read. Every call is safe from many threads.
//
// A text is UTF-8; each byte that is none counts as U+FFFD. Encoding takes O(n log n) of the text.
class Tokenizer {
 public:
  // Reads the file by what it is (tokenizer/kinds.inc), or a folder with one:
  //   tokenizer.json             Hugging Face's tokenizers
  //   NAME.model                 SentencePiece
  //   NAME.vocab                 SentencePiece's text form: "piece<TAB>score", by score
  //   vocab.json                 GPT-2's, with merges.txt beside it (the same name but for "vocab")
  //   NAME.bin                   llama2.c
  // Beside a tokenizer.json, tokenizer_config.json says the special pieces and the chat templates,
  // chat_template.jinja and additional_chat_templates/tool_use.jinja are those instead. Beside a
  // .model or a vocab.json it adds pieces too, as added_tokens.json and special_tokens_map.json do.
  // Errors: kInvalidInput and kUnsupported, naming the file and the place.
  static Result<Tokenizer> Load(const std::string& path);
  // Of files in memory, by the names that they have in a folder; `label` stands before names in
  // messages. Errors: as above.
  static Result<Tokenizer> FromFiles(std::map<std::string, std::string> bytes,
                                     const std::string& label = "");
  // Errors: those of its normalizer on the added pieces.
  static Result<Tokenizer> Make(TokenizerParts parts);

  // Errors: kTooLarge for a text whose pattern takes too much work.
  Result<std::vector<int64_t>> Encode(std::string_view text, EncodeOptions options = {}) const;
  // The bytes that the pieces stand for; they need not be UTF-8. Special pieces are left out unless
  // asked for. Errors: kInvalidInput naming a number out of range.
  Result<std::string> Decode(std::span<const int64_t> ids, bool special = false) const;

  // The bytes that a piece, also a special one, adds to a text that has begun; they need not be
  // whole characters. Errors: as Decode's.
  Result<std::string> Continuation(int64_t id) const;

  // A model may have more rows than there are pieces: the numbers up to `rows` are then numbers
  // without a piece, which decode to no text.
  void Widen(int64_t rows);

  int64_t size() const;  // all numbers are below
  // A piece as the file has it; "" for a number without one. Errors: kInvalidInput.
  Result<std::string> Piece(int64_t id) const;
  std::optional<int64_t> Find(std::string_view piece) const;
  bool IsSpecial(int64_t id) const;

  // Of the pieces' bytes, made once for all copies. Errors: as Continuation's.
  Result<std::shared_ptr<const TokenTree>> Tree() const;

  // The pieces of these meanings; -1: none.
  int64_t begin() const;
  int64_t padding() const;
  const std::vector<int64_t>& ends() const;  // a model that gives one of them has finished
  const std::string& chat_template() const;  // "": none
  const std::string& tool_template() const;  // of chats with tools; "": none of their own

 private:
  friend class StreamDecoder;
  std::shared_ptr<const TokenizerCore> core_;
  int64_t rows_ = 0;
};

// Decodes piece by piece: what is given out is whole characters.
class StreamDecoder {
 public:
  explicit StreamDecoder(Tokenizer tokenizer, bool special = false)
      : tokenizer_(std::move(tokenizer)), special_(special) {}

  // These pieces stand in front and were given out before: what is stripped from the beginning of
  // a text is not stripped from its continuation.
  void Follow(std::span<const int64_t> before);
  // The text that the piece completes; "" while a character waits for its last bytes.
  // Errors: as Tokenizer::Decode.
  Result<std::string> Next(int64_t id);
  // What still waits, at the end.
  std::string Finish();

 private:
  friend class Tokenizer;
  Status Append(int64_t id);  // to what waits
  Tokenizer tokenizer_;
  bool special_;
  bool first_ = true;
  int64_t stripped_ = 0;  // of what the text's beginning loses
  bool ended_ = false;    // the piece before ended a word
  std::string waiting_;
};

}  // namespace evoq
