// What a request of OpenAI's interfaces asks for.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "serve/text_model.h"
#include "serve/tool_calls.h"

namespace evoq::serve {

struct TextAsked {
  struct Prompt {
    std::vector<int64_t> tokens;
    std::string text;  // where it is to be echoed
  };
  std::vector<Prompt> prompts;
  int64_t choices = 1;      // of each prompt
  GenerateOptions options;  // of the first choice; each next one has the next seed
  bool stream = false, usage = false, echo = false, logprobs = false;
  OfferedTools tools;                // of a chat
  std::vector<std::string> ignored;  // members that change nothing here
  nlohmann::json repeated;           // members that an answer says again
};

// Members that ask for another text than this server would write are refused by their names;
// others that it does not know are ignored. Errors: kInvalidInput and kUnsupported, naming the
// member; those of the model's tokenizer and template.
Result<TextAsked> ReadCompletion(const nlohmann::ordered_json& root, const TextModel& model);
Result<TextAsked> ReadChat(const nlohmann::ordered_json& root, const TextModel& model);

// A list of tokens; `at` is its place in the request. Errors: kInvalidInput.
Result<std::vector<int64_t>> ReadTokens(const nlohmann::json& list, int64_t vocabulary,
                                        const std::string& at);

}  // namespace evoq::serve
