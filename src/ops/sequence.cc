// Sequences of tensors and optional values.
#include "ops/sequence.h"

#include "ops/control.h"
#include "ops/indexing.h"
#include "ops/util.h"

namespace evoq {
namespace {

Status CheckSequence(const InferArgs& args, size_t i) {
  if (args.inputs[i].kind == ValueKind::kSequence) return {};
  return InvalidInput("input {} is {}, expected a sequence", i, args.inputs[i].ToString());
}

Status CheckTensor(const InferArgs& args, size_t i) {
  if (!args.has(i) || args.inputs[i].is_tensor()) return {};
  return InvalidInput("input {} is {}, expected a tensor", i, args.inputs[i].ToString());
}

// A type that both fit: equal sizes stay.
Shape Common(const Shape& a, const Shape& b) {
  if (!a.ranked() || !b.ranked() || a.rank() != b.rank()) return Shape::UnknownRank();
  Shape shape = a;
  for (int d = 0; d < a.rank(); ++d) {
    if (a[d] != b[d]) shape[d] = Dim();
  }
  return shape;
}

std::vector<TensorType> SequenceOf(DType dtype, Shape shape) {
  return {TensorType::In(ValueKind::kSequence, dtype, std::move(shape))};
}

// ---- SequenceConstruct(x...), SequenceEmpty()

InferResult InferConstruct(const InferArgs& args) {
  Shape shape = args.inputs[0].shape;
  for (size_t i = 0; i < args.inputs.size(); ++i) {
    EVOQ_TRY(CheckTensor(args, i));
    if (args.inputs[i].dtype != args.inputs[0].dtype)
      return InvalidInput("input {} is {}, expected {} as input 0", i, args.inputs[i].ToString(),
                          DTypeName(args.inputs[0].dtype));
    shape = Common(shape, args.inputs[i].shape);
  }
  return SequenceOf(args.inputs[0].dtype, shape);
}

InferResult InferEmpty(const InferArgs& args) {
  EVOQ_ASSIGN(const int64_t number, IntAttr(args.node, "dtype", 1));
  const auto dtype =
      number > 0 && number < 128 ? DTypeFromOnnx(static_cast<int>(number)) : std::nullopt;
  if (!dtype) return Unsupported("attribute dtype is {}", number);
  return SequenceOf(*dtype, Shape::UnknownRank());
}

// ---- SequenceAt(s, i), SequenceErase(s, i?), SequenceInsert(s, x, i?), SequenceLength(s)

InferResult InferAt(const InferArgs& args) {
  EVOQ_TRY(CheckSequence(args, 0));
  EVOQ_TRY(CheckIndexType(args, 1));
  return std::vector<TensorType>{TensorType(args.inputs[0].dtype, args.inputs[0].shape)};
}

InferResult InferErase(const InferArgs& args) {
  EVOQ_TRY(CheckSequence(args, 0));
  if (args.has(1)) EVOQ_TRY(CheckIndexType(args, 1));
  return SameAsInput0(args);
}

InferResult InferInsert(const InferArgs& args) {
  EVOQ_TRY(CheckSequence(args, 0));
  EVOQ_TRY(CheckTensor(args, 1));
  if (args.has(2)) EVOQ_TRY(CheckIndexType(args, 2));
  if (args.inputs[1].dtype != args.inputs[0].dtype)
    return InvalidInput("input 1 is {}, expected {}", args.inputs[1].ToString(),
                        DTypeName(args.inputs[0].dtype));
  return SequenceOf(args.inputs[0].dtype, Common(args.inputs[0].shape, args.inputs[1].shape));
}

InferResult InferLength(const InferArgs& args) {
  EVOQ_TRY(CheckSequence(args, 0));
  return std::vector<TensorType>{TensorType(DType::kInt64, Shape{})};
}

// ---- SplitToSequence(x, split?)

InferResult InferSplitToSequence(const InferArgs& args) {
  EVOQ_TRY(CheckTensor(args, 0));
  if (args.has(1)) EVOQ_TRY(CheckIndexType(args, 1));
  EVOQ_ASSIGN(const int64_t axis, IntAttr(args.node, "axis", 0));
  EVOQ_ASSIGN(const int64_t keep, IntAttr(args.node, "keepdims", 1));
  Shape shape = args.inputs[0].shape;
  if (!shape.ranked()) return SequenceOf(args.inputs[0].dtype, shape);
  EVOQ_ASSIGN(const int normal, NormalizeAxis(axis, shape.rank()));
  shape[normal] = args.has(1) ? Dim() : Dim(1);
  if (!args.has(1) && keep == 0) shape.mutable_dims().erase(shape.mutable_dims().begin() + normal);
  return SequenceOf(args.inputs[0].dtype, shape);
}

// ---- ConcatFromSequence(s)

InferResult InferConcat(const InferArgs& args) {
  EVOQ_TRY(CheckSequence(args, 0));
  if (!args.node.attrs.Has("axis")) return InvalidInput("attribute axis is missing");
  EVOQ_ASSIGN(const int64_t axis, IntAttr(args.node, "axis", 0));
  EVOQ_ASSIGN(const int64_t fresh, IntAttr(args.node, "new_axis", 0));
  Shape shape = args.inputs[0].shape;
  if (shape.ranked()) {
    EVOQ_ASSIGN(const int normal, NormalizeAxis(axis, shape.rank() + (fresh != 0 ? 1 : 0)));
    if (fresh != 0) {
      shape.mutable_dims().insert(shape.mutable_dims().begin() + normal, Dim());
    } else {
      shape[normal] = Dim();
    }
  }
  return std::vector<TensorType>{TensorType(args.inputs[0].dtype, shape)};
}

// ---- Optional(x?), OptionalHasElement(x?), OptionalGetElement(x). Other values count as optionals
// that hold them.

}  // namespace

bool IsOptional(const TensorType& type) {
  return type.kind == ValueKind::kOptional || type.kind == ValueKind::kOptionalSequence;
}

namespace {

// The importer turns the attribute `type` into the numbers type and type_is_sequence.
InferResult InferOptional(const InferArgs& args) {
  if (args.has(0)) {
    const TensorType& x = args.inputs[0];
    if (IsOptional(x))
      return InvalidInput("input 0 is {}, expected a tensor or a sequence", x.ToString());
    return std::vector<TensorType>{TensorType::In(
        x.is_tensor() ? ValueKind::kOptional : ValueKind::kOptionalSequence, x.dtype, x.shape)};
  }
  EVOQ_ASSIGN(const int64_t number, IntAttr(args.node, "type", 0));
  const auto dtype =
      number > 0 && number < 128 ? DTypeFromOnnx(static_cast<int>(number)) : std::nullopt;
  if (!dtype) return InvalidInput("neither an input nor a type");
  const ValueKind kind = args.node.attrs.Int("type_is_sequence") != 0 ? ValueKind::kOptionalSequence
                                                                      : ValueKind::kOptional;
  return std::vector<TensorType>{TensorType::In(kind, *dtype, Shape::UnknownRank())};
}

InferResult InferHas(const InferArgs&) {
  return std::vector<TensorType>{TensorType(DType::kBool, Shape{})};
}

InferResult InferGet(const InferArgs& args) {
  TensorType type = args.inputs[0];
  if (IsOptional(type))
    type.kind = type.kind == ValueKind::kOptional ? ValueKind::kTensor : ValueKind::kSequence;
  return std::vector<TensorType>{type};
}

}  // namespace

#define EVOQ_SEQUENCE(symbol, op, least, most, infer_fn) \
  extern const OpDef symbol = {.name = op,               \
                               .min_inputs = least,      \
                               .max_inputs = most,       \
                               .containers = true,       \
                               .strings = Strings::kOwn, \
                               .infer = infer_fn};
EVOQ_SEQUENCE(kConcatFromSequence, "ConcatFromSequence", 1, 1, InferConcat)
EVOQ_SEQUENCE(kOptional, "Optional", 0, 1, InferOptional)
EVOQ_SEQUENCE(kOptionalGetElement, "OptionalGetElement", 1, 1, InferGet)
EVOQ_SEQUENCE(kOptionalHasElement, "OptionalHasElement", 0, 1, InferHas)
EVOQ_SEQUENCE(kSequenceAt, "SequenceAt", 2, 2, InferAt)
EVOQ_SEQUENCE(kSequenceConstruct, "SequenceConstruct", 1, -1, InferConstruct)
EVOQ_SEQUENCE(kSequenceEmpty, "SequenceEmpty", 0, 0, InferEmpty)
EVOQ_SEQUENCE(kSequenceErase, "SequenceErase", 1, 2, InferErase)
EVOQ_SEQUENCE(kSequenceInsert, "SequenceInsert", 2, 3, InferInsert)
EVOQ_SEQUENCE(kSequenceLength, "SequenceLength", 1, 1, InferLength)
EVOQ_SEQUENCE(kSplitToSequence, "SplitToSequence", 1, 2, InferSplitToSequence)
#undef EVOQ_SEQUENCE

}  // namespace evoq
