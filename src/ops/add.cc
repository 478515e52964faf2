// Add: y = activation(a + b), with broadcasting.
#include "kernels/activation.h"
#include "ops/util.h"

namespace evoq {
namespace {

InferResult Infer(const InferArgs& args) {
  EVOQ_ASSIGN(const Activation activation, ActivationFromAttrs(args.node.attrs));
  if (activation.kind != ActivationKind::kNone) EVOQ_TRY(CheckFloat(args, 0));
  return BroadcastInputs(args);
}

}  // namespace

extern const OpDef kAdd = {.name = "Add",
                           .min_inputs = 2,
                           .max_inputs = 2,
                           .quant = QuantTrait::kReal,
                           .elementwise = true,
                           .infer = Infer,
                           .quantizes_constants = true};

}  // namespace evoq
