// evoq::DynamicQuantizeBlocks(x) -> q, scales: rows along the last axis as int8, with a float16
// scale for each block_size elements.
#include "base/math.h"
#include "ops/util.h"

namespace evoq {
namespace {

InferResult Infer(const InferArgs& args) {
  EVOQ_TRY(CheckDType(args, 0, std::array{DType::kFloat32}));
  EVOQ_ASSIGN(const int64_t block, IntAttr(args.node, "block_size", 0));
  if (block < 1) return InvalidInput("attribute block_size is {}, expected 1 or more", block);
  const Shape& shape = args.inputs[0].shape;
  if (!shape.ranked())
    return std::vector<TensorType>{TensorType(DType::kInt8, Shape::UnknownRank()),
                                   TensorType(DType::kFloat16, Shape::UnknownRank())};
  if (shape.rank() == 0) return InvalidInput("input 0 is a scalar, expected rows");
  std::vector<Dim> blocks = shape.dims();
  blocks.back() = blocks.back().known() ? Dim(CeilDiv(blocks.back().value, block)) : Dim();
  return std::vector<TensorType>{TensorType(DType::kInt8, shape),
                                 TensorType(DType::kFloat16, Shape(std::move(blocks)))};
}

}  // namespace

extern const OpDef kDynamicQuantizeBlocks = {
    .name = "DynamicQuantizeBlocks", .domain = "evoq", .outputs = 2, .infer = Infer};

}  // namespace evoq
