// evoq::DynamicConv and evoq::DynamicMatMul (x, w, bias?, residual?, x_scale, x_zero_point?) -> y,
// range?: products of activations whose scale is computed at run time.
#include "ops/dynamic.h"

#include <array>

#include "ops/conv.h"
#include "ops/linear.h"
#include "ops/matmul.h"
#include "ops/util.h"

namespace evoq {
namespace {

InferResult WithRange(const InferArgs& args, const Dim& channels, Shape y) {
  EVOQ_TRY(CheckDType(args, 0, std::array{DType::kUint8, DType::kInt8}));
  if (!args.has(kScaleInput)) return InvalidInput("input {} (x_scale) is omitted", kScaleInput);
  EVOQ_TRY(CheckDType(args, kScaleInput, std::array{DType::kFloat32}));
  if (args.has(kZeroInput))
    EVOQ_TRY(CheckDType(args, kZeroInput, std::array{args.inputs[0].dtype}));
  for (size_t i : {size_t{2}, size_t{3}}) {
    if (args.has(i)) EVOQ_TRY(CheckDType(args, i, std::array{DType::kFloat32}));
  }
  EVOQ_TRY(CheckLinearExtras(args, channels, y, /*table=*/false));
  return std::vector<TensorType>{TensorType(DType::kFloat32, std::move(y)),
                                 TensorType(DType::kFloat32, Shape{2})};
}

InferResult InferConv(const InferArgs& args) {
  EVOQ_ASSIGN(Shape y,
              ConvOutputShape(args.node, args.inputs[0].shape, args.inputs[1].shape, false));
  EVOQ_ASSIGN(const Dim channels, ConvOutputChannels(args.node, args.inputs[1].shape, false));
  return WithRange(args, channels, std::move(y));
}

InferResult InferMatMul(const InferArgs& args) {
  EVOQ_TRY(CheckRank(args, 1, 2));
  EVOQ_ASSIGN(Shape y, MatMulShape(args.inputs[0].shape, args.inputs[1].shape));
  const Shape& w = args.inputs[1].shape;
  return WithRange(args, w.ranked() ? w[1] : Dim(), std::move(y));
}

constexpr LinearForm kConvForm = {
    .out_axis = 0, .in_axis = 1, .channel_axis = 1, .grouped = true, .real_form = "Conv"};
constexpr LinearForm kMatMulForm = {
    .out_axis = -1, .in_axis = -2, .channel_axis = -1, .real_form = "MatMul"};

}  // namespace

extern const OpDef kDynamicConv = {.name = "DynamicConv",
                                   .domain = "evoq",
                                   .min_inputs = 2,
                                   .max_inputs = 6,
                                   .outputs = 2,
                                   .quant = QuantTrait::kLinear,
                                   .spatial = true,
                                   .infer = InferConv,
                                   .macs = ConvMacs,
                                   .roles = {Role::kData, Role::kWeight, Role::kBias,
                                             Role::kResidual, Role::kScale, Role::kZeroPoint},
                                   .linear = &kConvForm,
                                   .ranges_at_run_time = true};
extern const OpDef kDynamicMatMul = {.name = "DynamicMatMul",
                                     .domain = "evoq",
                                     .min_inputs = 2,
                                     .max_inputs = 6,
                                     .outputs = 2,
                                     .quant = QuantTrait::kLinear,
                                     .infer = InferMatMul,
                                     .macs = MatMulMacs,
                                     .roles = {Role::kData, Role::kWeight, Role::kBias,
                                               Role::kResidual, Role::kScale, Role::kZeroPoint},
                                     .linear = &kMatMulForm,
                                     .ranges_at_run_time = true};

}  // namespace evoq
