// Language models from files, whatever their format.
#pragma once

#include <cstdint>
#include <string>

#include "graph/graph.h"
#include "llm/language_model.h"

namespace evoq {

// Whether ImportLanguageModel is who reads this: a folder with a config.json, a GGUF file or a
// checkpoint of llama2.c, told by their contents.
bool IsLanguageModelPath(const std::string& path);

// The graph of docs/llm.md, with inferred types; its constants are views of the mapped files where
// they can be. What is not the file's very weights is noted in the fact llm.notes. Errors: of the
// readers, naming file and place; kUnsupported for an architecture or option that evoq lacks.
// `form`: of BuildLanguageModel, for what writes text. An encoder, and any folder that says how
// vectors of texts are made (llm/pooling.h), give the states of the tokens and that vector.
Result<Graph> ImportLanguageModel(const std::string& path,
                                  LanguageForm form = LanguageForm::kCached);

// The bytes of the file, or of the folder's weights.
Result<int64_t> LanguageModelBytes(const std::string& path);

}  // namespace evoq
