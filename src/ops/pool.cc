// MaxPool, AveragePool, LpPool and their global forms.
#include "ops/pool.h"

#include "base/brief.h"
#include "base/math.h"
#include "ops/linear.h"
#include "ops/util.h"
#include "ops/window.h"

namespace evoq {
namespace {

// A window of more values than this is refused.
constexpr int64_t kMaxPoolTaps = int64_t{1} << 26;

std::vector<Dim> PoolKernelDims(const std::vector<int64_t>& kernel) {
  return {kernel.begin(), kernel.end()};
}

}  // namespace

Result<Window> PoolWindowOf(const Node& node, const Shape& x) {
  EVOQ_ASSIGN(const std::vector<int64_t> kernel, IntsAttr(node, "kernel_shape"));
  if (kernel.empty()) return InvalidInput("attribute kernel_shape is missing");
  const auto taps = CheckedProduct(kernel);
  if (!taps || *taps > kMaxPoolTaps)
    return Fail(ErrorCode::kTooLarge, "a window of {}", BracketedBriefly<int64_t>(kernel));
  return ResolveWindow(node, PoolKernelDims(kernel), SpatialDims(x),
                       node.attrs.Int("ceil_mode") != 0);
}

namespace {

InferResult InferPool(const InferArgs& args) {
  const TensorType& x = args.inputs[0];
  if (!x.shape.ranked()) return std::vector<TensorType>{x, TensorType(DType::kInt64, x.shape)};
  if (x.shape.rank() < 3)
    return InvalidInput("input 0 is {}, expected rank 3 or more", x.ToString());
  EVOQ_ASSIGN(const Window w, PoolWindowOf(args.node, x.shape));
  std::vector<Dim> dims = {x.shape[0], x.shape[1]};
  dims.insert(dims.end(), w.output.begin(), w.output.end());
  const Shape shape(std::move(dims));
  return std::vector<TensorType>{TensorType(x.dtype, shape), TensorType(DType::kInt64, shape)};
}

InferResult InferFloatPool(const InferArgs& args) {
  EVOQ_TRY(CheckFloat(args, 0));
  EVOQ_ASSIGN(std::vector<TensorType> types, InferPool(args));
  types.resize(1);
  return types;
}

InferResult InferGlobalPool(const InferArgs& args) {
  EVOQ_TRY(CheckFloat(args, 0));
  TensorType y = args.inputs[0];
  if (y.shape.ranked() && y.shape.rank() < 3)
    return InvalidInput("input 0 is {}, expected rank 3 or more", y.ToString());
  for (int d = 2; y.shape.ranked() && d < y.shape.rank(); ++d) y.shape[d] = 1;
  return std::vector<TensorType>{std::move(y)};
}

}  // namespace

extern const OpDef kAveragePool = {
    .name = "AveragePool", .quant = QuantTrait::kReal, .spatial = true, .infer = InferFloatPool};
extern const OpDef kGlobalAveragePool = {.name = "GlobalAveragePool",
                                         .quant = QuantTrait::kReal,
                                         .spatial = true,
                                         .infer = InferGlobalPool};
extern const OpDef kGlobalLpPool = {.name = "GlobalLpPool",
                                    .quant = QuantTrait::kReal,
                                    .spatial = true,
                                    .infer = InferGlobalPool,
                                    .prefers_float = true};
extern const OpDef kGlobalMaxPool = {
    .name = "GlobalMaxPool", .quant = QuantTrait::kMove, .spatial = true, .infer = InferGlobalPool};
extern const OpDef kLpPool = {.name = "LpPool",
                              .quant = QuantTrait::kReal,
                              .spatial = true,
                              .infer = InferFloatPool,
                              .prefers_float = true};
extern const OpDef kMaxPool = {.name = "MaxPool",
                               .outputs = 2,
                               .quant = QuantTrait::kMove,
                               .spatial = true,
                               .infer = InferPool};

}  // namespace evoq
