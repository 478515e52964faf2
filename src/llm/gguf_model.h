// What a GGUF file says of the language model in it.
#pragma once

#include "llm/gguf.h"
#include "llm/language_model.h"

namespace evoq {

// Errors: kUnsupported for an architecture or a setting that evoq lacks, kInvalidInput for one that
// is missing or of the wrong kind, naming the fact.
Result<LanguageModel> ReadGgufModel(const GgufFile& file);

}  // namespace evoq
