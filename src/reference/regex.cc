// RegexFullMatch(x): whether each string is matched as a whole by the pattern, in RE2's syntax on
// UTF-8.
#include <re2/re2.h>

#include "base/budget_scope.h"
#include "ops/indexing.h"
#include "reference/definition.h"
#include "reference/util.h"

namespace evoq {
namespace {

// Of a compiled pattern with the states that matching adds. RE2 refuses patterns that need more.
constexpr int64_t kPatternBytes = int64_t{4} << 20;

// Matching takes time linear in the text, with the length of the compiled pattern as its factor at
// worst.
Result<std::unique_ptr<RE2>> PatternOf(const Node& node) {
  EVOQ_ASSIGN(const std::string pattern, StringAttr(node, "pattern", ""));
  EVOQ_TRY(SpendWork(static_cast<int64_t>(pattern.size()) * 1000, "compiling a pattern"));
  RE2::Options options;
  options.set_log_errors(false);
  options.set_max_mem(kPatternBytes);
  auto compiled = std::make_unique<RE2>(pattern, options);
  if (!compiled->ok()) return InvalidInput("attribute pattern: {}", compiled->error());
  return compiled;
}

EvalResult Evaluate(const EvalArgs& args) {
  EVOQ_ASSIGN(const auto pattern, PatternOf(args.node));
  const Tensor& x = args.inputs[0];
  Tensor y = Tensor::Allocate(TensorType(DType::kBool, x.shape()));
  for (int64_t i = 0; i < x.elements(); ++i) {
    const std::string& text = x.data<std::string>()[i];
    EVOQ_TRY(SpendWork(static_cast<int64_t>(text.size()) * pattern->ProgramSize(),
                       "matching a pattern"));
    y.mutable_data<bool>()[i] = RE2::FullMatch(text, *pattern);
  }
  return One(std::move(y));
}

}  // namespace

namespace reference {

extern const Definition kRegexFullMatch = {.name = "RegexFullMatch", .evaluate = Evaluate};

}  // namespace reference
}  // namespace evoq
