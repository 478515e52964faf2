// The members of requests that say of which form a text is to be.
#pragma once

#include <memory>
#include <nlohmann/json.hpp>

#include "serve/fields.h"
#include "tokenizer/grammar/grammar.h"

namespace evoq::serve {

// At most one of them may be there: OpenAI's response_format, llama.cpp's grammar and json_schema,
// vLLM's guided_json and the like. `form` stays null without. Errors: kInvalidInput and
// kUnsupported, naming the member; those of grammars and schemas.
Status ReadForm(Fields& fields, const nlohmann::ordered_json& ordered,
                std::shared_ptr<const Grammar>& form);

}  // namespace evoq::serve
