// The items of a response's input, as the messages of a chat.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "base/result.h"

namespace evoq::serve {

// `instructions` may be empty. Items are messages, calls of functions, their outputs, and
// reasoning; those that one turn of the model wrote become one message. Errors: kInvalidInput and
// kUnsupported, naming the item.
Result<nlohmann::ordered_json> MessagesOf(const std::string& instructions,
                                          const nlohmann::ordered_json& input);

}  // namespace evoq::serve
