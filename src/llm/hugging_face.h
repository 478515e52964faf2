// Folders as Hugging Face's transformers writes them: config.json, safetensors, a tokenizer.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "llm/architecture.h"

namespace evoq {

// The settings of a config.json; of a model that reads pictures too, those of its text_config.
// Errors: kUnsupported for an architecture or a setting that evoq
// lacks, kInvalidInput for one that is missing or of the wrong kind.
Result<LanguageModel> ReadConfig(const nlohmann::json& config);

// What a config.json of any architecture says of the context, the vocabulary, and the tokens that
// begin and end a text, where it does. Errors: kInvalidInput for one of the wrong kind.
Status ReadTextSettings(const nlohmann::json& config, LanguageModel& model);

// The tensors under GGUF's names; those that the row does not know keep their own. Of a model that
// is a part of another (`model.wrapped`) the other's are left out, with a sentence in `notes`.
StoredTensors RenamedTensors(const LanguageModel& model, StoredTensors tensors,
                             std::vector<std::string>& notes);

// The name without ".weight" that a folder has for a tensor of GGUF's name; "" for none.
std::string HuggingFaceName(const Architecture& row, std::string_view gguf);

// Adds what the folder says for generating text: the tokenizer's files, the chat template, further
// ends of a text. Errors: kInvalidInput for files that are no JSON; kTooLarge.
Status ReadTokenizerFiles(const std::string& folder, LanguageModel& model);

}  // namespace evoq
