// Comparisons, logic and bits of two values with broadcasting, and Where.
#include "ops/indexing.h"
#include "ops/op.h"
#include "ops/util.h"

namespace evoq {
namespace {

InferResult InferLogic(const InferArgs& args) {
  EVOQ_TRY(CheckDType(args, 0, std::array{DType::kBool}));
  return BroadcastInputs(args);
}

InferResult InferBits(const InferArgs& args) {
  if (!IsInteger(args.inputs[0].dtype))
    return InvalidInput("input 0 is {}, expected an integer type", args.inputs[0].ToString());
  return BroadcastInputs(args);
}

// ---- BitShift

InferResult InferBitShift(const InferArgs& args) {
  EVOQ_ASSIGN(const std::string direction, StringAttr(args.node, "direction", ""));
  if (direction != "LEFT" && direction != "RIGHT")
    return InvalidInput("direction is '{}', expected LEFT or RIGHT", direction);
  return InferBits(args);
}

// ---- Where(condition, x, y)

InferResult InferWhere(const InferArgs& args) {
  EVOQ_TRY(CheckDType(args, 0, std::array{DType::kBool}));
  EVOQ_TRY(CheckDType(args, 2, std::array{args.inputs[1].dtype}));
  EVOQ_ASSIGN(const Shape values, BroadcastShapes(args.inputs[1].shape, args.inputs[2].shape));
  EVOQ_ASSIGN(Shape shape, BroadcastShapes(args.inputs[0].shape, values));
  return std::vector<TensorType>{TensorType(args.inputs[1].dtype, std::move(shape))};
}

constexpr OpDef CompareOp(const char* name) {
  return {.name = name,
          .min_inputs = 2,
          .max_inputs = 2,
          .elementwise = true,
          .strings = Strings::kRanks,
          .infer = BroadcastToBool};
}
constexpr OpDef LogicOp(const char* name) {
  return {.name = name, .min_inputs = 2, .max_inputs = 2, .elementwise = true, .infer = InferLogic};
}
constexpr OpDef BitsOp(const char* name) {
  return {.name = name, .min_inputs = 2, .max_inputs = 2, .elementwise = true, .infer = InferBits};
}

}  // namespace

extern const OpDef kEqual = CompareOp("Equal");
extern const OpDef kGreater = CompareOp("Greater");
extern const OpDef kGreaterOrEqual = CompareOp("GreaterOrEqual");
extern const OpDef kLess = CompareOp("Less");
extern const OpDef kLessOrEqual = CompareOp("LessOrEqual");
extern const OpDef kAnd = LogicOp("And");
extern const OpDef kOr = LogicOp("Or");
extern const OpDef kXor = LogicOp("Xor");
extern const OpDef kBitwiseAnd = BitsOp("BitwiseAnd");
extern const OpDef kBitwiseOr = BitsOp("BitwiseOr");
extern const OpDef kBitwiseXor = BitsOp("BitwiseXor");
extern const OpDef kBitShift = {.name = "BitShift",
                                .min_inputs = 2,
                                .max_inputs = 2,
                                .elementwise = true,
                                .infer = InferBitShift};
extern const OpDef kWhere = {.name = "Where",
                             .min_inputs = 3,
                             .max_inputs = 3,
                             .elementwise = true,
                             .strings = Strings::kRanks,
                             .infer = InferWhere};

}  // namespace evoq
