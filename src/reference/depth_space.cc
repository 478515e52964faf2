// DepthToSpace and SpaceToDepth: blocks of b x b pixels become channels, and back.
#include "reference/definition.h"
#include "reference/util.h"

namespace evoq {
namespace {

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

namespace reference {

extern const Definition kDepthToSpace = {.name = "DepthToSpace", .evaluate = EvaluateDepthToSpace};
extern const Definition kSpaceToDepth = {.name = "SpaceToDepth", .evaluate = EvaluateSpaceToDepth};

}  // namespace reference
}  // namespace evoq
