// Operators that give the same bytes another shape: Identity, Reshape, Flatten, Squeeze, Unsqueeze.
#include "reference/definition.h"
#include "reference/util.h"

namespace evoq {
namespace {

EvalResult EvaluateView(const EvalArgs& args) {
  EVOQ_ASSIGN(const std::vector<TensorType> types, InferFromValues(args));
  return std::vector<Tensor>{args.inputs[0].WithType(types[0])};
}

EvalResult EvaluateIdentity(const EvalArgs& args) { return std::vector<Tensor>{args.inputs[0]}; }

}  // namespace

namespace reference {

extern const Definition kIdentity = {.name = "Identity", .evaluate = EvaluateIdentity};
extern const Definition kReshape = {.name = "Reshape", .evaluate = EvaluateView};
extern const Definition kFlatten = {.name = "Flatten", .evaluate = EvaluateView};
extern const Definition kSqueeze = {.name = "Squeeze", .evaluate = EvaluateView};
extern const Definition kUnsqueeze = {.name = "Unsqueeze", .evaluate = EvaluateView};

}  // namespace reference
}  // namespace evoq
