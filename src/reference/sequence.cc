// Sequences of tensors and optional values.
#include "ops/sequence.h"

#include <algorithm>
#include <cstring>

#include "ops/control.h"
#include "ops/indexing.h"
#include "reference/control.h"
#include "reference/definition.h"
#include "reference/util.h"

namespace evoq {
namespace {

// ---- SequenceConstruct(x...), SequenceEmpty()

EvalResult EvaluateConstruct(const EvalArgs& args) {
  return One(Tensor::Of(ValueKind::kSequence, args.inputs[0].type(),
                        std::vector<Tensor>(args.inputs.begin(), args.inputs.end())));
}

EvalResult EvaluateEmpty(const EvalArgs& args) {
  return One(Tensor::Of(ValueKind::kSequence,
                        TensorType(args.output_types[0].dtype, Shape::UnknownRank()), {}));
}

// ---- SequenceAt(s, i), SequenceErase(s, i?), SequenceInsert(s, x, i?), SequenceLength(s): i
// counts from the end when negative; without it the end.

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

EvalResult EvaluateOptional(const EvalArgs& args) {
  std::vector<Tensor> items;
  if (args.has(0)) items.push_back(args.inputs[0]);
  const TensorType& type = args.output_types[0];
  return One(Tensor::Of(type.kind, TensorType(type.dtype, type.shape), std::move(items)));
}

EvalResult EvaluateHas(const EvalArgs& args) {
  const bool has =
      args.has(0) && (!IsOptional(args.inputs[0].type()) || !args.inputs[0].items().empty());
  return One(Tensor::Scalar(has));
}

EvalResult EvaluateGet(const EvalArgs& args) {
  if (!IsOptional(args.inputs[0].type())) return One(args.inputs[0]);
  if (args.inputs[0].items().empty()) return InvalidInput("the optional holds nothing");
  return One(args.inputs[0].items()[0]);
}

}  // namespace

namespace reference {

extern const Definition kConcatFromSequence = {.name = "ConcatFromSequence",
                                               .evaluate = EvaluateConcat};
extern const Definition kOptional = {.name = "Optional", .evaluate = EvaluateOptional};
extern const Definition kOptionalGetElement = {.name = "OptionalGetElement",
                                               .evaluate = EvaluateGet};
extern const Definition kOptionalHasElement = {.name = "OptionalHasElement",
                                               .evaluate = EvaluateHas};
extern const Definition kSequenceAt = {.name = "SequenceAt", .evaluate = EvaluateAt};
extern const Definition kSequenceConstruct = {.name = "SequenceConstruct",
                                              .evaluate = EvaluateConstruct};
extern const Definition kSequenceEmpty = {.name = "SequenceEmpty", .evaluate = EvaluateEmpty};
extern const Definition kSequenceErase = {.name = "SequenceErase", .evaluate = EvaluateErase};
extern const Definition kSequenceInsert = {.name = "SequenceInsert", .evaluate = EvaluateInsert};
extern const Definition kSequenceLength = {.name = "SequenceLength", .evaluate = EvaluateLength};
extern const Definition kSplitToSequence = {.name = "SplitToSequence",
                                            .evaluate = EvaluateSplitToSequence};

}  // namespace reference
}  // namespace evoq
