// Requests of llama.cpp's own completions, in the words of OpenAI's.
#pragma once

#include <nlohmann/json.hpp>

#include "serve/openai_request.h"

namespace evoq::serve {

// Where nothing is said, what llama.cpp has: no end but the context's, temperature 0.8, top_k 40,
// top_p 0.95, min_p 0.05. Errors: as ReadCompletion's.
Result<TextAsked> ReadLlamaCompletion(const nlohmann::ordered_json& root, const TextModel& model);

}  // namespace evoq::serve
