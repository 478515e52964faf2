// The tokenizer in a GGUF file's metadata (tokenizer.ggml.*).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "tokenizer/tokenizer.h"

namespace evoq {

// The values of the keys tokenizer.ggml.NAME, tokenizer.chat_template and
// tokenizer.chat_template.tool_use.
struct GgufTokenizer {
  std::string model;  // "llama" (SentencePiece's byte pairs) or "gpt2"
  std::string pre;    // which rule splits a text of "gpt2" (gguf_words.h); "": default
  std::vector<std::string> tokens;  // by number
  std::vector<float> scores;        // "llama"
  std::vector<int32_t> token_type;  // 1 normal, 2 unknown, 3 control, 4 user defined, 5 unused,
                                    // 6 byte; empty: all normal
  std::vector<std::string> merges;  // "gpt2": "left right"
  int64_t bos_token_id = -1, eos_token_id = -1, eot_token_id = -1;
  int64_t unknown_token_id = -1, padding_token_id = -1;
  std::optional<bool> add_bos_token, add_eos_token, add_space_prefix;
  std::string chat_template, tool_template;
};

// Errors: kUnsupported naming a model or pre that evoq lacks; kInvalidInput for sizes that
// differ, numbers out of range and pieces that are there twice.
Result<Tokenizer> TokenizerFromGguf(const GgufTokenizer& gguf);

}  // namespace evoq
