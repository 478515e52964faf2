// The text of a template as tokens.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace evoq::chat {

enum class TokenKind {
  kText,
  kExpressionBegin,
  kStatementBegin,
  kEnd,
  kName,
  kString,
  kInteger,
  kFloat,
  kOperator,
  kFileEnd
};

// kEnd ends both an expression and a statement.
struct Token {
  TokenKind kind;
  std::string text;
  int line = 1;
};

// With trim_blocks and lstrip_blocks, and without the line break that ends the template: as
// transformers has it. Errors: kInvalidInput with the line.
Result<std::vector<Token>> Tokenize(std::string_view source);

}  // namespace evoq::chat
