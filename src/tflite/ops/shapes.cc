// Operators that change shapes, or are about them.
#include <numeric>

#include "tflite/translator.h"

namespace evoq::tflite {
namespace {

std::vector<int64_t> Ints32(const flatbuffers::Vector<int32_t>* from) {
  return from == nullptr ? std::vector<int64_t>()
                         : std::vector<int64_t>(from->begin(), from->end());
}

ValueId CastTo(Translator& to, ValueId value, DType dtype) {
  return to.Apply("Cast", {value}, Attrs::Of("to", static_cast<int>(dtype)));
}

// The shape of input 1, or of the options where there is none. A size of 0 is none here.
Status Reshape(Translator& to) {
  EVOQ_TRY(to.CheckSameElements());
  ValueId shape;
  if (to.has(1)) {
    shape = to.Int64s(1);
  } else {
    EVOQ_ASSIGN(const auto* o, to.Options<fb::ReshapeOptions>());
    if (o->new_shape() == nullptr) return InvalidInput("no shape, as an input or an option");
    shape = to.Int64Constant(Ints32(o->new_shape()));
  }
  if (to.input(0).elements == Elements::kComplex) {
    shape = to.Apply("Concat", {shape, to.Int64Constant({2})}, Attrs::Of("axis", 0));
  }
  return to.Set(0, to.Apply("Reshape", {to.Real(0), shape}, Attrs::Of("allowzero", 1)));
}

Status Squeeze(Translator& to) {
  EVOQ_ASSIGN(const auto* o, to.Options<fb::SqueezeOptions>());
  EVOQ_TRY(to.CheckSameElements());
  std::vector<int64_t> axes = Ints32(o->squeeze_dims());
  for (int64_t& axis : axes) {
    EVOQ_ASSIGN(axis, to.AxisOf(axis, to.input(0).rank()));
  }
  std::vector<ValueId> inputs = {to.Real(0)};
  if (!axes.empty()) inputs.push_back(to.Int64Constant(axes));
  return to.Set(0, to.Apply("Squeeze", std::move(inputs)));
}

Status ExpandDims(Translator& to) {
  EVOQ_TRY(to.CheckSameElements());
  EVOQ_ASSIGN(const int64_t given, to.Int(1));
  EVOQ_ASSIGN(const int64_t axis, to.AxisOf(given, to.input(0).rank() + 1));
  return to.Set(0, to.Apply("Unsqueeze", {to.Real(0), to.Int64Constant({axis})}));
}

Status Transpose(Translator& to) {
  EVOQ_ASSIGN(const std::vector<int64_t> given, to.Ints(1));
  std::vector<int64_t> perm = given;
  std::vector<bool> seen(perm.size());
  for (int64_t& axis : perm) {
    EVOQ_ASSIGN(axis, to.AxisOf(axis, static_cast<int>(perm.size())));
    if (seen[static_cast<size_t>(axis)]) return InvalidInput("axis {} twice", axis);
    seen[static_cast<size_t>(axis)] = true;
  }
  return to.Set(0, to.Transposed(to.Real(0), perm));
}

Status ShapeOf(Translator& to) {
  const ValueId shape = to.Apply("Shape", {to.Real(0)});
  return to.Set(
      0, to.output(0).dtype == DType::kInt64 ? shape : CastTo(to, shape, to.output(0).dtype));
}

Status Rank(Translator& to) {
  return to.Set(0,
                to.Apply("Identity", {to.Constant(Tensor::Scalar<int32_t>(to.input(0).rank()))}));
}

Status Fill(Translator& to) { return to.Set(0, to.Apply("Expand", {to.Real(1), to.Int64s(0)})); }

Status ZerosLike(Translator& to) {
  Attrs attrs;
  attrs.Set("value", ZeroOf(to.output(0), Shape{1}));
  return to.Set(0,
                to.Apply("ConstantOfShape", {to.Apply("Shape", {to.Real(0)})}, std::move(attrs)));
}

Status BroadcastTo(Translator& to) {
  return to.Set(0, to.Apply("Expand", {to.Real(0), to.Int64s(1)}));
}

Status Tile(Translator& to) { return to.Set(0, to.Apply("Tile", {to.Real(0), to.Int64s(1)})); }

Status Range(Translator& to) {
  return to.Set(0, to.Apply("Range", {to.Real(0), to.Real(1), to.Real(2)}));
}

}  // namespace

extern const OpRow kReshape = {
    .name = "RESHAPE", .number = 22, .most_inputs = 2, .complex = true, .translate = Reshape};
extern const OpRow kTranspose = {
    .name = "TRANSPOSE", .number = 39, .least_inputs = 2, .most_inputs = 2, .translate = Transpose};
extern const OpRow kSqueeze = {
    .name = "SQUEEZE", .number = 43, .complex = true, .translate = Squeeze};
extern const OpRow kTile = {
    .name = "TILE", .number = 69, .least_inputs = 2, .most_inputs = 2, .translate = Tile};
extern const OpRow kExpandDims = {.name = "EXPAND_DIMS",
                                  .number = 70,
                                  .least_inputs = 2,
                                  .most_inputs = 2,
                                  .complex = true,
                                  .translate = ExpandDims};
extern const OpRow kShape = {
    .name = "SHAPE", .number = 77, .translate = ShapeOf, .sizes = SizesOfShape};
extern const OpRow kZerosLike = {.name = "ZEROS_LIKE", .number = 93, .translate = ZerosLike};
extern const OpRow kFill = {
    .name = "FILL", .number = 94, .least_inputs = 2, .most_inputs = 2, .translate = Fill};
extern const OpRow kRange = {
    .name = "RANGE", .number = 96, .least_inputs = 3, .most_inputs = 3, .translate = Range};
extern const OpRow kRank = {.name = "RANK", .number = 110, .translate = Rank};
extern const OpRow kBroadcastTo = {.name = "BROADCAST_TO",
                                   .number = 130,
                                   .least_inputs = 2,
                                   .most_inputs = 2,
                                   .translate = BroadcastTo};

}  // namespace evoq::tflite
