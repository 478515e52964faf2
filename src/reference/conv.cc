// Conv, ConvTranspose, ConvInteger and QLinearConv.
#include "ops/conv.h"

#include <algorithm>

#include "ops/linear.h"
#include "reference/conv.h"
#include "reference/definition.h"
#include "reference/linear.h"
#include "reference/util.h"

namespace evoq {

Result<std::vector<uint32_t>> ConvIntegerSums(const ConvExtents& s, bool transposed,
                                              const Tensor& x, const Tensor& w) {
  EVOQ_ASSIGN(const std::vector<uint32_t> x_values, Centered(x));
  EVOQ_ASSIGN(const std::vector<uint32_t> w_values, Centered(w));
  std::vector<uint32_t> sums(s.batch * s.groups * s.out_channels * s.out_size());
  ConvSums(s, transposed, x_values.data(), w_values.data(), sums.data());
  return sums;
}

namespace {

LinearCall CallOf(const EvalArgs& args, bool transposed, const ConvExtents& s,
                  const Activation& activation) {
  LinearCall call;
  call.x = &args.inputs[0];
  call.w = &args.inputs[1];
  call.w_axis = transposed ? 1 : 0;
  call.bias = args.has(2) ? &args.inputs[2] : nullptr;
  call.residual = args.has(3) ? &args.inputs[3] : nullptr;
  call.table = args.has(4) ? &args.inputs[4] : nullptr;
  call.activation = activation;
  call.y = args.output_types[0];
  call.channels = {s.batch, s.groups * s.out_channels, s.out_size()};
  return call;
}

template <bool kTransposed>
EvalResult EvaluateConv(const EvalArgs& args) {
  const Tensor &x = args.inputs[0], &w = args.inputs[1];
  if (x.dtype() != w.dtype())
    return Unsupported("{} and {} inputs", DTypeName(x.dtype()), DTypeName(w.dtype()));
  EVOQ_ASSIGN(const ConvExtents s, GeometryOf(args.node, x.shape(), w.shape(), kTransposed));
  EVOQ_ASSIGN(const Activation activation, ActivationFromAttrs(args.node.attrs));
  return DispatchFloat(x.dtype(), [&](auto tag) -> EvalResult {
    using T = decltype(tag);
    std::vector<double> sums(s.batch * s.groups * s.out_channels * s.out_size());
    ConvSums(s, kTransposed, x.data<T>(), w.data<T>(), sums.data());
    return FinishFloat(CallOf(args, kTransposed, s, activation), x.dtype(), sums);
  });
}

template <bool kTransposed>
EvalResult EvaluateConvQuantized(const EvalArgs& args) {
  const Tensor &x = args.inputs[0], &w = args.inputs[1];
  EVOQ_ASSIGN(const ProductActivation product, ProductActivationFromAttrs(args.node.attrs));
  EVOQ_ASSIGN(const ConvExtents s, GeometryOf(args.node, x.shape(), w.shape(), kTransposed));
  LinearCall call = CallOf(args, kTransposed, s, product.activation);
  call.slopes = product.slopes;
  EVOQ_TRY(CheckInteger(call));
  EVOQ_ASSIGN(const std::vector<uint32_t> sums, ConvIntegerSums(s, kTransposed, x, w));
  return FinishInteger(call, sums);
}

// ---- ConvInteger(x, w, x_zero_point?, w_zero_point?): int32 sums.

// `x` with scale 1 and the zero points of input i.
Result<Tensor> WithZeroPoint(const Tensor& x, const EvalArgs& args, size_t i, int axis) {
  const int64_t count = args.has(i) ? args.inputs[i].elements() : 1;
  const Tensor ones = Tensor::FromValues<float>(Shape{count}, std::vector<float>(count, 1.0f));
  EVOQ_ASSIGN(TensorType type, QuantizedType(x.dtype(), x.shape(), ones,
                                             args.has(i) ? &args.inputs[i] : nullptr, axis));
  return x.WithType(std::move(type));
}

EvalResult EvaluateConvInteger(const EvalArgs& args) {
  EVOQ_ASSIGN(const Tensor x, WithZeroPoint(args.inputs[0], args, 2, -1));
  EVOQ_ASSIGN(const Tensor w, WithZeroPoint(args.inputs[1], args, 3, 0));
  EVOQ_ASSIGN(const ConvExtents s, GeometryOf(args.node, x.shape(), w.shape(), false));
  EVOQ_ASSIGN(const std::vector<uint32_t> sums, ConvIntegerSums(s, false, x, w));
  Tensor y = Tensor::Allocate(args.output_types[0]);
  std::copy(sums.begin(), sums.end(), y.mutable_data<uint32_t>());
  return One(std::move(y));
}

// ---- QLinearConv(x, x_scale, x_zero_point, w, w_scale, w_zero_point, y_scale, y_zero_point,
// bias?)

EvalResult EvaluateQLinearConv(const EvalArgs& args) {
  EVOQ_ASSIGN(const Tensor x, QuantizedInput(args, 0, -1));
  EVOQ_ASSIGN(const Tensor w, QuantizedInput(args, 3, 0));
  const TensorType& plain = args.output_types[0];
  EVOQ_ASSIGN(const TensorType y_type,
              QuantizedType(plain.dtype, plain.shape, args.inputs[6], &args.inputs[7], -1));
  const std::vector<Tensor> inputs = {x, w, args.has(8) ? args.inputs[8] : Tensor()};
  const std::vector<TensorType> types = {y_type};
  EVOQ_ASSIGN(
      std::vector<Tensor> outputs,
      EvaluateConvQuantized<false>({.node = args.node, .inputs = inputs, .output_types = types}));
  return One(outputs[0].WithType(plain));
}

}  // namespace

namespace reference {

extern const Definition kConv = {.name = "Conv",
                                 .evaluate = EvaluateConv<false>,
                                 .evaluate_quantized = EvaluateConvQuantized<false>};
extern const Definition kConvTranspose = {.name = "ConvTranspose",
                                          .evaluate = EvaluateConv<true>,
                                          .evaluate_quantized = EvaluateConvQuantized<true>};
extern const Definition kConvInteger = {.name = "ConvInteger", .evaluate = EvaluateConvInteger};
extern const Definition kQLinearConv = {.name = "QLinearConv", .evaluate = EvaluateQLinearConv};

}  // namespace reference
}  // namespace evoq
