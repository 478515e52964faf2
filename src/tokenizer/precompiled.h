// SentencePiece's table of normal forms (precompiled_charsmap): a double-array trie of characters
// and the texts that they become.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace evoq {

// The layout: a uint32 size of the trie in bytes, its units (uint32), texts that end with NUL.
class CharacterMap {
 public:
  // Errors: kInvalidInput for a table that is cut off. An empty table maps nothing.
  static Result<CharacterMap> Make(std::string_view table);

  struct Match {
    size_t bytes = 0;  // 0: none
    std::string_view text;
  };
  // What `text` begins with, and what that becomes.
  Match Longest(std::string_view text) const { return Find(text, /*longest=*/true); }
  // The text as Hugging Face's Precompiled has it: a grapheme of less than 6 bytes becomes what the
  // shortest entry says that it begins with; else each of its characters does.
  std::string ByGraphemes(std::string_view text) const;

 private:
  struct Table {
    std::vector<uint32_t> units;
    std::string texts;
  };
  Match Find(std::string_view text, bool longest) const;
  std::shared_ptr<const Table> table_;
};

}  // namespace evoq
