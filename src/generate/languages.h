// Languages of the text that a model reads and of the one that it writes, by name.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/tokenizer.h"

namespace evoq {

// As the tokenizer has it ("fra_Latn", "fr_XX"), or without what stands around it ("fr" is the
// piece __fr__). "": the one that the model takes by itself.
struct Languages {
  std::string source, target;
};

// What a model reads of a text.
struct SourceText {
  std::vector<int64_t> tokens;
  std::vector<int64_t> begin;  // of the text that is written (GenerateOptions::begin)
};
// The source's language takes the place of the one that the tokenizer puts before or behind a text;
// the target's is the first token of the text that is written, or, where its piece is >>NAME<<,
// stands before the text that is read. Errors: kUsage for a language that the tokenizer does not
// know, and for one where it puts none; those of Encode.
Result<SourceText> EncodeSource(const Tokenizer& tokenizer, std::string_view text,
                                const Languages& languages, bool add_special);

}  // namespace evoq
