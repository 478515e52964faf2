// What the readers make a Tokenizer of.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tokenizer/piece_trie.h"
#include "tokenizer/segmenters.h"
#include "tokenizer/steps.h"
#include "tokenizer/tokenizer.h"
#include "tokenizer/vocabulary.h"

namespace evoq {

// A piece that is found in the text before it is split into words.
struct AddedPiece {
  std::string content;
  int64_t id = -1;
  bool special = false;      // not found where EncodeOptions::parse_special is off
  bool normalized = false;   // found after the normalizer, else before
  bool as_written = false;   // the normalizer does not change what is looked for
  bool left = false;         // takes the white space before it with it
  bool right = false;        // and after it
  bool single_word = false;  // only where no word's character is beside it
};

struct TokenizerParts {
  std::shared_ptr<const Vocabulary> vocabulary;  // added pieces too
  std::vector<AddedPiece> added;
  Normalizer normalize = [](std::string&) -> Status { return {}; };
  Normalizer normalize_behind;  // of text behind an added piece; empty: normalize
  Splitter split = [](std::vector<Word>&) -> Status { return {}; };
  Segmenter segment;
  std::vector<int64_t> before, after;  // pieces around a text
  DecodeSteps decode;
  std::vector<bool> special;  // by piece; shorter: the rest is not
  int64_t begin = -1, unknown = -1, padding = -1;
  std::vector<int64_t> ends;
  std::string chat_template, tool_template;

  void SetSpecial(int64_t id) {
    if (id < 0) return;
    if (special.size() <= static_cast<size_t>(id)) special.resize(static_cast<size_t>(id) + 1);
    special[static_cast<size_t>(id)] = true;
  }
};

// A part of a text: an added piece, or text between them.
struct AddedPart {
  int64_t id = -1;  // -1: text
  size_t begin, end;
};

// Finds added pieces: at each place the longest.
class AddedPieces {
 public:
  void Add(AddedPiece piece, std::string_view written);
  bool empty() const { return pieces_.empty(); }
  std::vector<AddedPart> Split(std::string_view text, bool parse_special) const;

 private:
  PieceTrie trie_;
  std::vector<AddedPiece> pieces_;
};

}  // namespace evoq
