// What a model that hears is given of a sound and told of its language.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "data/wav.h"
#include "generate/generate.h"

namespace evoq {

// The features of a sound that the model hears. Errors: kUsage for a model that hears nothing, for
// another rate than the model's, and for a sound that is longer than it can hear at once.
Result<std::shared_ptr<const Tensor>> HeardOf(const CachedModel& model, const Sound& sound);

struct SpeechTask {
  std::string language;  // "en"; "": the likeliest one of what is heard
  std::string task;      // "transcribe", or "translate" into English; "": transcribe
};

// What the text begins with (GenerateOptions::begin): its language, its task, and that it has no
// timestamps. The writer holds the sound afterwards, so that it is not read again. Errors: kUsage
// for a language or a task that the tokenizer does not know, and for one of a model that knows one
// language; those of Writer::Beginning.
Result<std::vector<int64_t>> SpeechBegin(const CachedModel& model, const Tokenizer& tokenizer,
                                         const SpeechTask& task,
                                         const std::shared_ptr<const Tensor>& sound,
                                         Writer& writer);

}  // namespace evoq
