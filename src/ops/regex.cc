// RegexFullMatch(x): whether each string is matched as a whole by the pattern, in RE2's syntax on
// UTF-8. Evaluation refuses a pattern that has another syntax.
#include "ops/indexing.h"
#include "ops/util.h"

namespace evoq {
namespace {

InferResult Infer(const InferArgs& args) {
  EVOQ_TRY(CheckDType(args, 0, std::array{DType::kString}));
  EVOQ_TRY(StringAttr(args.node, "pattern", ""));
  return std::vector<TensorType>{TensorType(DType::kBool, args.inputs[0].shape)};
}

}  // namespace

extern const OpDef kRegexFullMatch = {
    .name = "RegexFullMatch", .strings = Strings::kOwn, .infer = Infer};

}  // namespace evoq
