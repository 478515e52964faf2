// Runs a template.
#pragma once

#include <string>

#include "base/result.h"
#include "tokenizer/template/parser.h"

namespace evoq::chat {

// The text that `block` makes of the variables. Work, memory and the depth of macros are bounded.
// Errors: kInvalidInput, kUnsupported and kTooLarge with the line; kConditionFailed for what the
// template itself refuses (raise_exception).
Result<std::string> Render(const Block& block, const Dict& variables);

}  // namespace evoq::chat
