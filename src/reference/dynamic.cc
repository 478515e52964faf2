// evoq::DynamicConv and evoq::DynamicMatMul (x, w, bias?, residual?, x_scale, x_zero_point?) -> y,
// range?: integer arithmetic on activations whose scale is computed at run time, as
// DynamicQuantizeLinear does.
//   acc = sum (x - x_zero_point) (w - zero_w)                   exact, int32; x: plain uint8 or
//   int8, w: quantized, constant y   = activation(float32(acc) * (x_scale * scale_w[c]) + bias[c] +
//   residual)   float32, one rounding per operation range = the least and the largest of 0 and the
//   elements of y, without NaNs
#include "ops/dynamic.h"

#include <cmath>

#include "kernels/math/math.h"
#include "ops/conv.h"
#include "ops/linear.h"
#include "ops/matmul.h"
#include "reference/conv.h"
#include "reference/definition.h"
#include "reference/linear.h"
#include "reference/matmul.h"
#include "reference/util.h"

namespace evoq {
namespace {

EvalResult NeedsQuantized(const EvalArgs& args) {
  return InvalidInput("input 1 is {}, expected quantized weights",
                      args.inputs[1].type().ToString());
}

// x with scale 1 and its zero point.
Result<Tensor> CenteredInput(const EvalArgs& args) {
  if (args.inputs[kScaleInput].elements() != 1 ||
      (args.has(kZeroInput) && args.inputs[kZeroInput].elements() != 1))
    return InvalidInput("x_scale and x_zero_point have {} and {} elements, expected one",
                        args.inputs[kScaleInput].elements(),
                        args.has(kZeroInput) ? args.inputs[kZeroInput].elements() : 1);
  const Tensor one = Tensor::FromValues<float>(Shape{1}, std::vector<float>{1.0f});
  const Tensor* zero = args.has(kZeroInput) ? &args.inputs[kZeroInput] : nullptr;
  EVOQ_ASSIGN(TensorType type,
              QuantizedType(args.inputs[0].dtype(), args.inputs[0].shape(), one, zero, -1));
  return args.inputs[0].WithType(std::move(type));
}

// The weights' parameters fit: one scale, or one per channel along `axis`.
Status CheckWeights(const Tensor& w, int axis, int64_t channels) {
  const TensorType& type = w.type();
  const bool fits =
      type.quantized() && type.quant->block == 0 && DTypeBits(type.dtype) <= 8 &&
      (type.quant->per_tensor() ||
       (type.quant->axis == axis && static_cast<int64_t>(type.quant->scales.size()) == channels));
  if (fits) return {};
  return InvalidInput(
      "input 1 is {}, expected quantized weights with one scale or one per output channel",
      type.ToString());
}

EvalResult Finish(const EvalArgs& args, const AxisSplit& channels, std::span<const uint32_t> sums) {
  EVOQ_ASSIGN(const Activation activation, ActivationFromAttrs(args.node.attrs));
  const std::vector<float>& scales = args.inputs[1].type().quant->scales;
  const float x_scale = args.inputs[kScaleInput].data<float>()[0];
  const float* bias = args.has(2) ? args.inputs[2].data<float>() : nullptr;
  const float* residual = args.has(3) ? args.inputs[3].data<float>() : nullptr;
  Tensor y = Tensor::Allocate(TensorType(DType::kFloat32, args.output_types[0].shape));
  for (size_t i = 0; i < sums.size(); ++i) {
    const size_t c = i / channels.inner % channels.size;
    float v = static_cast<float>(static_cast<int32_t>(sums[i])) *
              (x_scale * scales[scales.size() == 1 ? 0 : c]);
    if (bias) v = v + bias[c];
    if (residual) v = v + residual[i];
    y.mutable_data<float>()[i] = Apply(activation, v);
  }
  Tensor range = Tensor::Allocate(TensorType(DType::kFloat32, Shape{2}));
  range.mutable_data<float>()[0] = std::fmin(MinF(y.data<float>(), y.elements()), 0.0f);
  range.mutable_data<float>()[1] = std::fmax(MaxF(y.data<float>(), y.elements()), 0.0f);
  return std::vector<Tensor>{std::move(y), std::move(range)};
}

EvalResult EvaluateConv(const EvalArgs& args) {
  EVOQ_ASSIGN(const Tensor x, CenteredInput(args));
  EVOQ_ASSIGN(const ConvExtents s, GeometryOf(args.node, x.shape(), args.inputs[1].shape(), false));
  EVOQ_TRY(CheckWeights(args.inputs[1], 0, s.groups * s.out_channels));
  EVOQ_ASSIGN(const std::vector<uint32_t> sums, ConvIntegerSums(s, false, x, args.inputs[1]));
  return Finish(args, {s.batch, s.groups * s.out_channels, s.out_size()}, sums);
}

EvalResult EvaluateMatMul(const EvalArgs& args) {
  EVOQ_ASSIGN(const Tensor x, CenteredInput(args));
  const int64_t columns = args.inputs[1].shape()[1].value;
  EVOQ_TRY(CheckWeights(args.inputs[1], 1, columns));
  EVOQ_ASSIGN(const std::vector<uint32_t> sums, MatMulIntegerSums(x, args.inputs[1]));
  return Finish(args, {1, columns, 1}, sums);
}

}  // namespace

namespace reference {

extern const Definition kDynamicConv = {.name = "DynamicConv",
                                        .domain = "evoq",
                                        .evaluate = NeedsQuantized,
                                        .evaluate_quantized = EvaluateConv};
extern const Definition kDynamicMatMul = {.name = "DynamicMatMul",
                                          .domain = "evoq",
                                          .evaluate = NeedsQuantized,
                                          .evaluate_quantized = EvaluateMatMul};

}  // namespace reference
}  // namespace evoq
