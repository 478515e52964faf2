// Two texts that a model reads together, as a tokenizer.json puts them.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace evoq {

struct PairTemplate {
  enum class Kind { kPiece, kFirst, kSecond };
  struct Part {
    Kind kind;
    int64_t piece;  // of kPiece
    int64_t type;   // token_type_ids of its tokens
  };
  std::vector<Part> parts;  // each text once
};

// Of its post_processor. Errors: kInvalidInput; kUnsupported for a file that says nothing of pairs.
Result<PairTemplate> ReadPairTemplate(std::string_view tokenizer_json);

}  // namespace evoq
