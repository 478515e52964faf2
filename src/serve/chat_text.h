// The messages of a chat as the text that its model was trained on.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "serve/fields.h"
#include "serve/openai_request.h"

namespace evoq::serve {

// Of the members messages, tools, tool_choice, chat_template_kwargs, reasoning_effort and
// verbosity. `ordered`: the same with the members of objects in their order. What tools and
// channels make of the answer goes into `asked`. Errors: as ReadChat's.
Result<std::string> ReadChatText(Fields& fields, const nlohmann::ordered_json& ordered,
                                 const Tokenizer& tokenizer, TextAsked& asked);

}  // namespace evoq::serve
