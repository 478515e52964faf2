// Text from a language model.
#pragma once

#include <string>
#include <vector>

#include "generate/generate.h"
#include "generate/languages.h"
#include "generate/speech.h"
#include "workflow/follow.h"
#include "workflow/told.h"

namespace evoq {

struct GenerateJob {
  std::string model, tokenizer, draft;
  std::vector<std::string> prompts;  // texts, or what the user says where `chat`
  // Prompts as numbers of tokens, behind the others.
  std::vector<std::vector<int64_t>> prompt_tokens;
  std::string system;  // what a chat begins with; "": nothing
  bool chat = false;
  bool plain = false;  // without the special pieces around a text
  GenerateOptions options;
  std::string audio;     // a WAV file that a model hears, in place of prompts
  SpeechTask speech;     // of it
  Languages languages;   // of models that read one text and write another
  int64_t context = 0;   // tokens of a sequence; 0: what the model was made for, at most 4096
  int64_t parallel = 1;  // prompts at the same time
  std::string kv_cache;  // what the caches hold (llm/cache_type.h); "": as the model has them
  std::string cache;     // a prompt's cache: read where the file is there, and written; "": none
  int threads = 0;
};

struct GenerateResult {
  std::string model;
  std::string note;              // why tokens are given without a text; "": nothing to say
  std::vector<Generated> texts;  // by prompt
  int64_t context = 0, cache_bytes = 0;
  double load_ms = 0;   // until the model could run
  double total_ms = 0;  // of all prompts, behind that
  int threads = 0;

  double tokens_per_s() const;  // of all prompts together, from the first prompt's beginning
};

// `on_text` gets what is complete, with the number of its prompt; false: stop that prompt.
// Errors: kUsage for options that do not go together, a prompt that the context does not hold, a
// model that carries no tokenizer; kUnsupported for a model that is no language model with caches.
Result<GenerateResult> Generate(
    const GenerateJob& job,
    const std::function<bool(size_t prompt, std::string_view text)>& on_text = nullptr,
    const Follow& follow = {});
Told Tell(const GenerateResult& result);

}  // namespace evoq
