// What a request of OpenAI's completions and chats asks for.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "serve/text_model.h"

namespace evoq::serve {

struct TextAsked {
  TextRequest text;
  bool stream = false, usage = false;
  std::vector<std::string> ignored;  // members that change nothing here
};

// Members that ask for another text than this server would write are refused by their names;
// others that it does not know are ignored. Errors: kInvalidInput and kUnsupported, naming the
// member; those of the model's tokenizer and template.
Result<TextAsked> ReadTextAsked(const nlohmann::json& root, const TextModel& model, bool chat);

}  // namespace evoq::serve
