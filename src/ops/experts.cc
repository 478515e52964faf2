#include "ops/experts.h"

#include <algorithm>

#include "kernels/gemm/blocks/block_data.h"
#include "ops/indexing.h"
#include "ops/linear.h"
#include "ops/util.h"

namespace evoq {
namespace {

// [.., J, N] of ids [.., J] and data [.., 1 or J, ?], each of which may be unknown.
Result<Shape> RowsShape(const Shape& data, const Shape& ids, const Dim& columns) {
  if (!data.ranked() || !ids.ranked()) return Shape::UnknownRank();
  const int rank = ids.rank();
  if (rank < 1 || data.rank() != rank + 1)
    return InvalidInput("data {} for indices {}, expected [.., 1 or J, N] for [.., J]",
                        data.ToString(), ids.ToString());
  std::vector<Dim> dims = ids.dims();
  for (int i = 0; i < rank; ++i) {
    if (!dims[i].known()) dims[i] = data[i].known() && i + 1 < rank ? data[i] : dims[i];
    const bool one = i + 1 == rank && data[i].known() && data[i].value == 1;
    if (one || !data[i].known() || !dims[i].known() || data[i].value == dims[i].value) continue;
    return InvalidInput("data {} for indices {}, expected [.., 1 or J, N] for [.., J]",
                        data.ToString(), ids.ToString());
  }
  dims.push_back(columns);
  return Shape(std::move(dims));
}

InferResult InferChoose(const InferArgs& args) {
  EVOQ_TRY(CheckIndexType(args, 0));
  const TensorType& first = args.inputs[1];
  Shape shape = first.shape;
  for (size_t i = 1; i < args.inputs.size(); ++i) {
    if (!args.has(i) || args.inputs[i].dtype != first.dtype)
      return InvalidInput("input {} is {}, expected {} as input 1", i, args.inputs[i].ToString(),
                          DTypeName(first.dtype));
    if (args.inputs[i].shape != first.shape && args.inputs[i].shape.is_static() &&
        first.shape.is_static())
      return InvalidInput("input {} is {}, expected the shape of input 1, {}", i,
                          args.inputs[i].ToString(), first.shape.ToString());
    if (args.inputs[i].shape.is_static()) shape = args.inputs[i].shape;
  }
  const bool known = shape.ranked() && shape.rank() > 0;
  EVOQ_ASSIGN(Shape y,
              RowsShape(shape, args.inputs[0].shape, known ? shape[shape.rank() - 1] : Dim()));
  return std::vector<TensorType>{TensorType(first.dtype, std::move(y))};
}

InferResult InferExperts(const InferArgs& args) {
  EVOQ_TRY(CheckFloat(args, kExpertData));
  EVOQ_TRY(CheckIndexType(args, kExpertIds));
  EVOQ_ASSIGN(const int64_t experts, IntAttr(args.node, kExperts, 0));
  const auto given = static_cast<int64_t>(args.inputs.size() - kFirstExpert);
  if (experts < 1 || (given != experts && given - experts != experts))
    return InvalidInput(
        "attribute {} is {} for {} inputs behind the indices, expected one or two "
        "for each expert",
        kExperts, experts, given);
  const Shape& x = args.inputs[kExpertData].shape;
  const Shape& w = args.inputs[kFirstExpert].shape;
  for (size_t i = kFirstExpert; i < args.inputs.size(); ++i) {
    const bool bias = static_cast<int64_t>(i - kFirstExpert) >= experts;
    // Biases of products that are summed in float32 are float32.
    const bool float32 = args.has(i) && bias && args.inputs[i].dtype == DType::kFloat32;
    if (!float32 && (!args.has(i) || args.inputs[i].dtype != args.inputs[kExpertData].dtype))
      return InvalidInput("input {} is {}, expected {} as input 0", i, args.inputs[i].ToString(),
                          DTypeName(args.inputs[kExpertData].dtype));
    EVOQ_TRY(CheckRank(args, i, bias ? 1 : 2));
    const Shape& shape = args.inputs[i].shape;
    const bool fits = !w.ranked() || !shape.ranked() ||
                      (bias ? shape[0] == w[1] || !shape[0].known() || !w[1].known()
                            : shape == w || !shape.is_static() || !w.is_static());
    if (!fits)
      return InvalidInput("input {} is {} beside {} of the first expert", i,
                          args.inputs[i].ToString(), w.ToString());
  }
  if (x.ranked() && x.rank() > 0 && w.ranked() && x[x.rank() - 1].known() && w[0].known() &&
      x[x.rank() - 1].value != w[0].value)
    return InvalidInput("{} by {}: {} columns, expected {}", x.ToString(), w.ToString(),
                        x[x.rank() - 1].value, w[0].value);
  EVOQ_ASSIGN(const int64_t data_block, IntAttr(args.node, kDataBlock, 0));
  if (data_block < 0)
    return InvalidInput("attribute {} is {}, expected 0 or more", kDataBlock, data_block);
  EVOQ_ASSIGN(Shape y, RowsShape(x, args.inputs[kExpertIds].shape, w.ranked() ? w[1] : Dim()));
  EVOQ_ASSIGN(const DType dtype, LinearOutputDType(args));
  return std::vector<TensorType>{TensorType(dtype, std::move(y))};
}

int64_t Macs(const Node&, std::span<const TensorType> inputs, std::span<const TensorType> outputs) {
  return outputs[0].shape.elements().value_or(0) * inputs[kFirstExpert].shape[0].value;
}

}  // namespace

ExpertRows ExpertRowsOf(const Shape& data, const Shape& ids, int64_t experts) {
  const int64_t rows = ids.elements().value_or(0);
  const int rank = ids.rank();
  const int64_t chosen = ids[rank - 1].value;
  const bool shared = data[rank - 1].value == 1 && chosen > 1;
  return {rows, shared ? chosen : 1, experts};
}

ReadShare ReadShareOf(const Node& node, std::span<const TensorType> inputs) {
  const OpDef* op = FindOp(node);
  if (op == nullptr || op->alternatives < 0) return {};
  const int64_t experts = std::max<int64_t>(node.attrs.Int(kExperts, 1), 1);
  const int64_t rows = inputs[static_cast<size_t>(op->indices)].shape.elements().value_or(experts);
  return {std::min(rows, experts), experts};
}

extern const OpDef kChooseExpert = {.name = "ChooseExpert",
                                    .domain = "evoq",
                                    .min_inputs = 2,
                                    .max_inputs = -1,
                                    .infer = InferChoose,
                                    .roles = {Role::kParameter},
                                    .indices = 0};
extern const OpDef kExpertMatMul = {.name = "ExpertMatMul",
                                    .domain = "evoq",
                                    .min_inputs = 3,
                                    .max_inputs = -1,
                                    .infer = InferExperts,
                                    .macs = Macs,
                                    .roles = {Role::kData, Role::kParameter},
                                    .indices = 1,
                                    .alternatives = 2};

}  // namespace evoq
