// ScatterElements (and its old name Scatter) and ScatterND: a copy of the data with updates
// written, or combined by `reduction` (none, add, mul, max, min), at index positions.
#include "ops/scatter.h"

#include "ops/indexing.h"
#include "ops/op.h"
#include "ops/util.h"

namespace evoq {

Result<ScatterReduction> ScatterReductionOf(const Node& node) {
  EVOQ_ASSIGN(const std::string name, StringAttr(node, "reduction", "none"));
  if (name == "none") return ScatterReduction::kNone;
  if (name == "add") return ScatterReduction::kAdd;
  if (name == "mul") return ScatterReduction::kMul;
  if (name == "max") return ScatterReduction::kMax;
  if (name == "min") return ScatterReduction::kMin;
  return InvalidInput("reduction is '{}', expected none, add, mul, max or min", name);
}

namespace {

Status CheckInputs(const InferArgs& args) {
  EVOQ_TRY(ScatterReductionOf(args.node));
  EVOQ_TRY(CheckIndexType(args, 1));
  return CheckDType(args, 2, std::array{args.inputs[0].dtype});
}

InferResult InferElements(const InferArgs& args) {
  EVOQ_TRY(CheckInputs(args));
  EVOQ_ASSIGN(const int64_t axis_attr, IntAttr(args.node, "axis", 0));
  const Shape &data = args.inputs[0].shape, &indices = args.inputs[1].shape,
              &updates = args.inputs[2].shape;
  if (data.ranked()) {
    EVOQ_ASSIGN(const int axis, NormalizeAxis(axis_attr, data.rank()));
    EVOQ_TRY(CheckElementIndices(data, indices, axis));
  }
  if (indices.is_static() && updates.is_static() && !(indices == updates))
    return InvalidInput("updates {} differ from indices {}", updates.ToString(),
                        indices.ToString());
  return SameAsInput0(args);
}

// indices [b..., depth] name blocks data[i_0, ..., i_depth-1]; updates are [b..., block...].
InferResult InferND(const InferArgs& args) {
  EVOQ_TRY(CheckInputs(args));
  const Shape &data = args.inputs[0].shape, &indices = args.inputs[1].shape,
              &updates = args.inputs[2].shape;
  if (!data.ranked() || !indices.ranked()) return SameAsInput0(args);
  if (data.rank() == 0 || indices.rank() == 0)
    return InvalidInput("has a scalar input, expected rank 1 or more");
  if (!data.is_static() || !indices.is_static() || !updates.is_static()) return SameAsInput0(args);
  const int64_t depth = indices[indices.rank() - 1].value;
  if (depth > data.rank())
    return InvalidInput("indices {} are deeper than the data {}", indices.ToString(),
                        data.ToString());
  std::vector<Dim> wanted(indices.dims().begin(), indices.dims().end() - 1);
  wanted.insert(wanted.end(), data.dims().begin() + depth, data.dims().end());
  if (!(updates == Shape(wanted)))
    return InvalidInput("updates are {}, expected {}", updates.ToString(),
                        Shape(wanted).ToString());
  return SameAsInput0(args);
}

}  // namespace

extern const OpDef kScatter = {
    .name = "Scatter", .min_inputs = 3, .max_inputs = 3, .infer = InferElements, .indices = 1};
extern const OpDef kScatterElements = {.name = "ScatterElements",
                                       .min_inputs = 3,
                                       .max_inputs = 3,
                                       .infer = InferElements,
                                       .indices = 1};
extern const OpDef kScatterND = {
    .name = "ScatterND", .min_inputs = 3, .max_inputs = 3, .infer = InferND, .indices = 1};

}  // namespace evoq
