// DepthToSpace and SpaceToDepth: blocks of b x b pixels become channels, and back.
#include "base/math.h"
#include "ops/util.h"

namespace evoq {
namespace {

constexpr int64_t kMaxBlock = 1 << 15;

Result<int64_t> BlockSize(const InferArgs& args) {
  EVOQ_ASSIGN(const int64_t block, IntAttr(args.node, "blocksize", 0));
  if (block < 1 || block > kMaxBlock)
    return InvalidInput("attribute blocksize is {}, expected 1 to {}", block, kMaxBlock);
  EVOQ_TRY(CheckRank(args, 0, 4));
  return block;
}

Status CheckMode(const Node& node) {
  const std::string mode = node.attrs.String("mode", "DCR");
  if (mode != "DCR" && mode != "CRD")
    return InvalidInput("attribute mode is '{}', expected DCR or CRD", mode);
  return {};
}

Result<Dim> Times(const Dim& dim, int64_t factor) {
  if (!dim.known()) return Dim();
  const auto product = CheckedMul(dim.value, factor);
  if (!product) return Fail(ErrorCode::kTooLarge, "size {} times {}", dim.value, factor);
  return Dim(*product);
}

Result<Dim> Over(const Dim& dim, int64_t divisor, const char* what) {
  if (!dim.known()) return Dim();
  if (dim.value % divisor != 0)
    return InvalidInput("{} {} is not a multiple of {}", what, dim.value, divisor);
  return Dim(dim.value / divisor);
}

InferResult InferDepthToSpace(const InferArgs& args) {
  EVOQ_ASSIGN(const int64_t block, BlockSize(args));
  EVOQ_TRY(CheckMode(args.node));
  TensorType y = args.inputs[0];
  if (!y.shape.ranked()) return std::vector<TensorType>{y};
  EVOQ_ASSIGN(y.shape[1], Over(y.shape[1], block * block, "number of channels"));
  EVOQ_ASSIGN(y.shape[2], Times(y.shape[2], block));
  EVOQ_ASSIGN(y.shape[3], Times(y.shape[3], block));
  return std::vector<TensorType>{y};
}

InferResult InferSpaceToDepth(const InferArgs& args) {
  EVOQ_ASSIGN(const int64_t block, BlockSize(args));
  EVOQ_TRY(CheckMode(args.node));
  TensorType y = args.inputs[0];
  if (!y.shape.ranked()) return std::vector<TensorType>{y};
  EVOQ_ASSIGN(y.shape[1], Times(y.shape[1], block * block));
  EVOQ_ASSIGN(y.shape[2], Over(y.shape[2], block, "height"));
  EVOQ_ASSIGN(y.shape[3], Over(y.shape[3], block, "width"));
  return std::vector<TensorType>{y};
}

}  // namespace

extern const OpDef kDepthToSpace = {.name = "DepthToSpace",
                                    .quant = QuantTrait::kMove,
                                    .spatial = true,
                                    .infer = InferDepthToSpace};
extern const OpDef kSpaceToDepth = {.name = "SpaceToDepth",
                                    .quant = QuantTrait::kMove,
                                    .spatial = true,
                                    .infer = InferSpaceToDepth};

}  // namespace evoq
