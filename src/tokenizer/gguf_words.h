// The rules by which GGUF files of byte pairs split a text into words.
#pragma once

#include <string>
#include <string_view>

namespace evoq {

struct GgufWords {
  // Each splits what the ones before it left: matches are words, and what lies between them.
  const char* patterns[6];
  bool whole_words = false;  // a word that is a piece is that piece
  bool begin = false;        // a text begins with the begin piece unless the file says otherwise
  bool never_begin = false;  // also where the file says so
};

// The rule of a name (tokenizer.ggml.pre); null: there is none.
const GgufWords* FindGgufWords(std::string_view name);
// All names, separated by commas.
std::string GgufWordsNames();

}  // namespace evoq
