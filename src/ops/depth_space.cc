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

// x seen as `split` sizes, permuted, seen as the output.
EvalResult Rearranged(const EvalArgs& args, const std::vector<int64_t>& split,
                      const std::vector<int>& permutation) {
  const Tensor& x = args.inputs[0];
  EVOQ_ASSIGN(const Tensor moved,
              Permuted(x.WithType(TensorType(x.dtype(), Shape(split))), permutation));
  return One(moved.WithType(TensorType(x.dtype(), args.output_types[0].shape)));
}

// DCR: y[n, c, h b + i, w b + j] = x[n, (i b + j) C + c, h, w]; CRD: = x[n, (c b + i) b + j, h, w].
EvalResult EvaluateDepthToSpace(const EvalArgs& args) {
  const std::vector<int64_t> s = args.inputs[0].sizes();
  const int64_t b = args.node.attrs.Int("blocksize"), c = s[1] / (b * b);
  if (args.node.attrs.String("mode", "DCR") == "DCR")
    return Rearranged(args, {s[0], b, b, c, s[2], s[3]}, {0, 3, 4, 1, 5, 2});
  return Rearranged(args, {s[0], c, b, b, s[2], s[3]}, {0, 1, 4, 2, 5, 3});
}

// DCR: y[n, (i b + j) C + c, h, w] = x[n, c, h b + i, w b + j]; CRD: y[n, (c b + i) b + j, h, w].
EvalResult EvaluateSpaceToDepth(const EvalArgs& args) {
  const std::vector<int64_t> s = args.inputs[0].sizes();
  const int64_t b = args.node.attrs.Int("blocksize");
  return Rearranged(args, {s[0], s[1], s[2] / b, b, s[3] / b, b},
                    args.node.attrs.String("mode", "DCR") == "DCR"
                        ? std::vector<int>{0, 3, 5, 1, 2, 4}
                        : std::vector<int>{0, 1, 3, 5, 2, 4});
}

}  // namespace

extern const OpDef kDepthToSpace = {.name = "DepthToSpace",
                                    .quant = QuantTrait::kMove,
                                    .spatial = true,
                                    .infer = InferDepthToSpace,
                                    .evaluate = EvaluateDepthToSpace};
extern const OpDef kSpaceToDepth = {.name = "SpaceToDepth",
                                    .quant = QuantTrait::kMove,
                                    .spatial = true,
                                    .infer = InferSpaceToDepth,
                                    .evaluate = EvaluateSpaceToDepth};

}  // namespace evoq
