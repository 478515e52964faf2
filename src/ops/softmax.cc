// Softmax, LogSoftmax and Hardmax along one axis.
#include "ops/util.h"

namespace evoq {
namespace {

InferResult InferAlongAxis(const InferArgs& args) {
  EVOQ_ASSIGN(const int64_t axis, IntAttr(args.node, "axis", -1));
  if (args.inputs[0].shape.ranked()) EVOQ_TRY(NormalizeAxis(axis, args.inputs[0].shape.rank()));
  return FloatSameAsInput0(args);
}

}  // namespace

extern const OpDef kHardmax = {.name = "Hardmax", .infer = InferAlongAxis};
extern const OpDef kLogSoftmax = {
    .name = "LogSoftmax", .infer = InferAlongAxis, .axes = AxisUse::kAttribute, .default_axis = -1};
extern const OpDef kSoftmax = {.name = "Softmax",
                               .quant = QuantTrait::kReal,
                               .infer = InferAlongAxis,
                               .axes = AxisUse::kAttribute,
                               .default_axis = -1,
                               .prefers_float = true};

}  // namespace evoq
