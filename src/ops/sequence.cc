// Sequences of tensors and optional values.
#include <algorithm>
#include <cstring>

#include "base/math.h"
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

EvalResult EvaluateConstruct(const EvalArgs& args) {
  return One(Tensor::Of(ValueKind::kSequence, args.inputs[0].type(),
                        std::vector<Tensor>(args.inputs.begin(), args.inputs.end())));
}

InferResult InferEmpty(const InferArgs& args) {
  EVOQ_ASSIGN(const int64_t number, IntAttr(args.node, "dtype", 1));
  const auto dtype =
      number > 0 && number < 128 ? DTypeFromOnnx(static_cast<int>(number)) : std::nullopt;
  if (!dtype) return Unsupported("attribute dtype is {}", number);
  return SequenceOf(*dtype, Shape::UnknownRank());
}

EvalResult EvaluateEmpty(const EvalArgs& args) {
  return One(Tensor::Of(ValueKind::kSequence,
                        TensorType(args.output_types[0].dtype, Shape::UnknownRank()), {}));
}

// ---- SequenceAt(s, i), SequenceErase(s, i?), SequenceInsert(s, x, i?), SequenceLength(s): i
// counts from the end when negative; without it the end.

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

// Input i as a place among `size`, or `fallback` when it is omitted.
Result<int64_t> PlaceOf(const EvalArgs& args, size_t i, int64_t size, int64_t fallback) {
  if (!args.has(i)) return fallback;
  EVOQ_ASSIGN(const std::vector<int64_t> place, ToInt64s(args.inputs[i]));
  if (place.size() != 1)
    return InvalidInput("input {} has {} elements, expected 1", i, place.size());
  return NormalizeIndex(place[0], size);
}

EvalResult EvaluateAt(const EvalArgs& args) {
  const auto& items = args.inputs[0].items();
  EVOQ_ASSIGN(const int64_t place, PlaceOf(args, 1, static_cast<int64_t>(items.size()), 0));
  return One(items[static_cast<size_t>(place)]);
}

EvalResult EvaluateErase(const EvalArgs& args) {
  std::vector<Tensor> items = args.inputs[0].items();
  const int64_t size = static_cast<int64_t>(items.size());
  EVOQ_ASSIGN(const int64_t place, PlaceOf(args, 1, size, size - 1));
  if (place < 0) return InvalidInput("the sequence is empty");
  items.erase(items.begin() + place);
  return One(Tensor::Of(ValueKind::kSequence,
                        TensorType(args.inputs[0].dtype(), args.inputs[0].shape()),
                        std::move(items)));
}

EvalResult EvaluateInsert(const EvalArgs& args) {
  std::vector<Tensor> items = args.inputs[0].items();
  const int64_t size = static_cast<int64_t>(items.size());
  int64_t place = size;
  if (args.has(2)) {
    EVOQ_ASSIGN(const std::vector<int64_t> given, ToInt64s(args.inputs[2]));
    if (given.size() != 1 || given[0] < -size || given[0] > size)
      return InvalidInput("a place outside a sequence of {}", size);
    place = given[0] < 0 ? given[0] + size : given[0];
  }
  items.insert(items.begin() + place, args.inputs[1]);
  return One(Tensor::Of(ValueKind::kSequence,
                        TensorType(args.inputs[0].dtype(), args.inputs[0].shape()),
                        std::move(items)));
}

EvalResult EvaluateLength(const EvalArgs& args) {
  return One(Tensor::Scalar(static_cast<int64_t>(args.inputs[0].items().size())));
}

// ---- SplitToSequence(x, split?): parts along `axis` of the given sizes, of one size (the last may
// be smaller), or of 1, whose axis then goes unless keepdims.

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

EvalResult EvaluateSplitToSequence(const EvalArgs& args) {
  const Tensor& x = args.inputs[0];
  EVOQ_ASSIGN(const int axis, NormalizeAxis(args.node.attrs.Int("axis", 0), x.shape().rank()));
  const AxisSplit split = SplitAt(x.sizes(), axis);
  const bool drop = !args.has(1) && args.node.attrs.Int("keepdims", 1) == 0;
  std::vector<int64_t> sizes;
  if (args.has(1)) {
    EVOQ_ASSIGN(sizes, ToInt64s(args.inputs[1]));
  }
  if (!args.has(1) || args.inputs[1].shape().rank() == 0) {
    const int64_t size = args.has(1) ? sizes.at(0) : 1;
    if (size < 1) return InvalidInput("parts of {}", size);
    sizes.clear();
    for (int64_t at = 0; at < split.size; at += size)
      sizes.push_back(std::min(size, split.size - at));
  }
  int64_t total = 0;
  for (int64_t size : sizes) {
    if (size < 0 || size > split.size - total)
      return InvalidInput("parts of more than {} in all", split.size);
    total += size;
  }
  if (total != split.size)
    return InvalidInput("parts of {} in all, expected {}", total, split.size);
  EVOQ_ASSIGN(const int64_t width, ElementBytes(x));
  std::vector<Tensor> parts;
  int64_t at = 0;
  for (int64_t size : sizes) {
    std::vector<int64_t> shape = x.sizes();
    shape[axis] = size;
    if (drop) shape.erase(shape.begin() + axis);
    Tensor part = Tensor::Allocate(TensorType(x.dtype(), Shape(shape)));
    const int64_t bytes = size * split.inner * width;
    for (int64_t o = 0; o < split.outer && bytes > 0; ++o)
      std::memcpy(part.mutable_raw() + o * bytes,
                  x.raw() + (o * split.size + at) * split.inner * width,
                  static_cast<size_t>(bytes));
    at += size;
    parts.push_back(std::move(part));
  }
  return One(Tensor::Of(ValueKind::kSequence, TensorType(x.dtype(), args.output_types[0].shape),
                        std::move(parts)));
}

// ---- ConcatFromSequence(s): the items joined along `axis`, a new one with new_axis=1.

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

EvalResult EvaluateConcat(const EvalArgs& args) {
  const auto& items = args.inputs[0].items();
  if (items.empty()) return InvalidInput("the sequence is empty");
  const bool fresh = args.node.attrs.Int("new_axis") != 0;
  const int rank = items[0].shape().rank();
  EVOQ_ASSIGN(const int axis, NormalizeAxis(args.node.attrs.Int("axis"), rank + (fresh ? 1 : 0)));
  if (fresh) {
    EVOQ_ASSIGN(Tensor stacked, Stacked(items, axis, args.output_types[0]));
    return One(std::move(stacked));
  }
  std::vector<int64_t> sizes = items[0].sizes();
  sizes[axis] = 0;
  for (const Tensor& item : items) {
    std::vector<int64_t> other = item.sizes();
    if (other.size() != sizes.size() || item.dtype() != items[0].dtype())
      return InvalidInput("items {} and {}", items[0].type().ToString(), item.type().ToString());
    sizes[axis] += other[axis];
    other[axis] = sizes[axis];
    if (other != sizes)
      return InvalidInput("items {} and {} on axis {}", items[0].type().ToString(),
                          item.type().ToString(), axis);
  }
  EVOQ_ASSIGN(const int64_t width, ElementBytes(items[0]));
  EVOQ_ASSIGN(Tensor y, AllocateOutput(TensorType(items[0].dtype(), Shape(sizes))));
  const AxisSplit to = SplitAt(sizes, axis);
  int64_t at = 0;
  for (const Tensor& item : items) {
    const int64_t bytes = item.sizes()[axis] * to.inner * width;
    for (int64_t o = 0; o < to.outer && bytes > 0; ++o)
      std::memcpy(y.mutable_raw() + (o * to.size + at) * to.inner * width, item.raw() + o * bytes,
                  static_cast<size_t>(bytes));
    at += item.sizes()[axis];
  }
  return One(std::move(y));
}

// ---- Optional(x?), OptionalHasElement(x?), OptionalGetElement(x). Other values count as optionals
// that hold them.

bool IsOptional(const TensorType& type) {
  return type.kind == ValueKind::kOptional || type.kind == ValueKind::kOptionalSequence;
}

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

EvalResult EvaluateOptional(const EvalArgs& args) {
  std::vector<Tensor> items;
  if (args.has(0)) items.push_back(args.inputs[0]);
  const TensorType& type = args.output_types[0];
  return One(Tensor::Of(type.kind, TensorType(type.dtype, type.shape), std::move(items)));
}

InferResult InferHas(const InferArgs&) {
  return std::vector<TensorType>{TensorType(DType::kBool, Shape{})};
}

EvalResult EvaluateHas(const EvalArgs& args) {
  const bool has =
      args.has(0) && (!IsOptional(args.inputs[0].type()) || !args.inputs[0].items().empty());
  return One(Tensor::Scalar(has));
}

InferResult InferGet(const InferArgs& args) {
  TensorType type = args.inputs[0];
  if (IsOptional(type))
    type.kind = type.kind == ValueKind::kOptional ? ValueKind::kTensor : ValueKind::kSequence;
  return std::vector<TensorType>{type};
}

EvalResult EvaluateGet(const EvalArgs& args) {
  if (!IsOptional(args.inputs[0].type())) return One(args.inputs[0]);
  if (args.inputs[0].items().empty()) return InvalidInput("the optional holds nothing");
  return One(args.inputs[0].items()[0]);
}

}  // namespace

#define EVOQ_SEQUENCE(symbol, op, least, most, infer_fn, evaluate_fn) \
  extern const OpDef symbol = {.name = op,                            \
                               .min_inputs = least,                   \
                               .max_inputs = most,                    \
                               .containers = true,                    \
                               .strings = Strings::kOwn,              \
                               .infer = infer_fn,                     \
                               .evaluate = evaluate_fn};
EVOQ_SEQUENCE(kConcatFromSequence, "ConcatFromSequence", 1, 1, InferConcat, EvaluateConcat)
EVOQ_SEQUENCE(kOptional, "Optional", 0, 1, InferOptional, EvaluateOptional)
EVOQ_SEQUENCE(kOptionalGetElement, "OptionalGetElement", 1, 1, InferGet, EvaluateGet)
EVOQ_SEQUENCE(kOptionalHasElement, "OptionalHasElement", 0, 1, InferHas, EvaluateHas)
EVOQ_SEQUENCE(kSequenceAt, "SequenceAt", 2, 2, InferAt, EvaluateAt)
EVOQ_SEQUENCE(kSequenceConstruct, "SequenceConstruct", 1, -1, InferConstruct, EvaluateConstruct)
EVOQ_SEQUENCE(kSequenceEmpty, "SequenceEmpty", 0, 0, InferEmpty, EvaluateEmpty)
EVOQ_SEQUENCE(kSequenceErase, "SequenceErase", 1, 2, InferErase, EvaluateErase)
EVOQ_SEQUENCE(kSequenceInsert, "SequenceInsert", 2, 3, InferInsert, EvaluateInsert)
EVOQ_SEQUENCE(kSequenceLength, "SequenceLength", 1, 1, InferLength, EvaluateLength)
EVOQ_SEQUENCE(kSplitToSequence, "SplitToSequence", 1, 2, InferSplitToSequence,
              EvaluateSplitToSequence)
#undef EVOQ_SEQUENCE

}  // namespace evoq
