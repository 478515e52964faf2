// A template as a tree.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "tokenizer/template/value.h"

namespace evoq::chat {

enum class Op {
  kConstant,   // constant
  kName,       // text
  kList,       // args
  kDict,       // args: key, value, key, value ...
  kAttribute,  // args[0].text
  kIndex,      // args[0][args[1]]
  kSlice,      // args[0][args[1] : args[2] : args[3]]; nullptr where left out
  kCall,       // args[0](args[1] ..., named)
  kFilter,     // args[0] | text(args[1] ..., named)
  kTest,       // args[0] is text(args[1] ...)
  kNot,        // args[0]
  kAnd,        // args[0] and args[1]
  kOr,
  kIf,        // args[1] if args[0] else args[2]; the last may be nullptr
  kNegative,  // - args[0]
  kBinary,    // args[0] text args[1]: + - * / // % ** ~
  kCompare,   // args[0] text args[1]: == != < <= > >= in "not in"
};

struct Expression {
  Op op;
  int line = 0;
  int height = 1;  // levels of args
  std::string text;
  Value constant;
  std::vector<std::unique_ptr<Expression>> args;
  std::vector<std::pair<std::string, std::unique_ptr<Expression>>> named;
};
using ExpressionPtr = std::unique_ptr<Expression>;

struct Statement;
using Block = std::vector<Statement>;

struct Macro {
  std::string name;
  std::vector<std::string> parameters;
  std::vector<ExpressionPtr> defaults;  // nullptr: none
  Block body;
};

enum class Do { kText, kPrint, kIf, kFor, kSet, kSetBlock, kMacro, kBreak, kContinue };

struct Statement {
  Do what;
  int line = 0;
  std::string text;                  // kText
  ExpressionPtr value;               // kPrint, kIf, kFor (over), kSet
  ExpressionPtr condition;           // kFor: items that it is false of are left out
  std::vector<std::string> targets;  // kFor, kSet: names; kSet of namespace.attribute: "ns.name"
  Block body, otherwise;             // kIf, kFor, kSetBlock
  std::unique_ptr<Macro> macro;
};

// Errors: kInvalidInput and kUnsupported with the line; nesting of more than 100 levels.
Result<Block> Parse(std::string_view source);

}  // namespace evoq::chat
