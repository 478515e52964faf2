// dynamic_conv and dynamic_matmul: the integer engine on activations whose scale and zero point
// come at run time, with float32 outputs (formula: ops/dynamic.cc).
#include "kernels/gemm/dynamic_int8.h"

#include "kernels/conv/conv_taps_int8.h"
#include "kernels/gemm/int8_geometry.h"
#include "kernels/gemm/int8_kernels.h"

namespace evoq {

std::optional<Reason> RejectDynamic(const KernelCall& call, int64_t columns, int w_axis) {
  const TensorType &x = call.inputs[0], &w = call.inputs[1];
  const auto byte = [](DType dtype) { return dtype == DType::kUint8 || dtype == DType::kInt8; };
  if (!byte(x.dtype) || x.quantized())
    return Reject("types", "x is {}, expected plain uint8 or int8", x.ToString());
  if (!byte(w.dtype) || !w.quantized() || w.quant->block != 0 ||
      (!w.quant->per_tensor() &&
       (w.quant->axis != w_axis || static_cast<int64_t>(w.quant->scales.size()) != columns)))
    return Reject("types", "w is {}, expected 8 bits with one scale or one per output channel",
                  w.ToString());
  if (call.constant(1) == nullptr) return Reject("not-constant", "w is computed at run time");
  if (!PlainFloat(call.outputs[0]))
    return Reject("types", "y is {}, expected float32", call.outputs[0].ToString());
  if (call.has_input(2)) {
    const TensorType& bias = call.inputs[2];
    if (!PlainFloat(bias) || bias.shape.elements() != columns)
      return Reject("types", "bias is {}, expected float32, one per output channel",
                    bias.ToString());
    if (call.constant(2) == nullptr) return Reject("not-constant", "bias is computed at run time");
  }
  if (call.has_input(3) &&
      (!PlainFloat(call.inputs[3]) || call.inputs[3].shape != call.outputs[0].shape))
    return Reject("types", "residual is {} for {}", call.inputs[3].ToString(),
                  call.outputs[0].ToString());
  if (!call.has_input(kDynamicScale) || !PlainFloat(call.inputs[kDynamicScale]) ||
      call.inputs[kDynamicScale].shape.elements() != 1)
    return Reject("types", "x_scale is not one float32");
  if (call.has_input(kDynamicZero) && (call.inputs[kDynamicZero].dtype != x.dtype ||
                                       call.inputs[kDynamicZero].shape.elements() != 1))
    return Reject("types", "x_zero_point is {}, expected one of x's type",
                  call.inputs[kDynamicZero].ToString());
  if (const auto activation = ActivationFromAttrs(call.attrs); !activation)
    return Reject("attribute", "{}", activation.error().message());
  return std::nullopt;
}

Int8Finish DynamicFinish(const KernelCall& call, const Activation& activation, Isa isa) {
  Int8Finish finish;
  finish.isa = isa;
  if (!IsPiecewiseLinear(activation.kind)) finish.curve = UnaryFromActivation(activation);
  finish.range = call.outputs.size() > 1 && call.outputs[1].dtype != DType::kUndefined;
  return finish;
}

namespace {

using ReadGeometry = std::optional<Reason> (*)(const KernelCall& call, Int8Geometry& geometry);

template <ReadGeometry kRead, int kAxis>
std::optional<Reason> RejectCall(const KernelCall& call) {
  Int8Geometry geometry;
  if (auto rejection = kRead(call, geometry)) return rejection;
  return RejectDynamic(call, geometry.out_channels, kAxis);
}

template <ReadGeometry kRead>
Result<Tensor> Pack(const KernelCall& call, size_t input) {
  Int8Geometry geometry;
  if (auto rejection = kRead(call, geometry)) return Unsupported("{}", rejection->sentence);
  return PackInt8Weights(call, input, geometry);
}

template <ReadGeometry kRead>
bool Reads(const KernelCall& call, size_t input, std::string_view layout) {
  Int8Geometry geometry;
  return !kRead(call, geometry) && ReadsInt8Weights(call, input, geometry, layout);
}

template <ReadGeometry kRead>
Result<Int8LinearSpec> SpecOf(const KernelCall& call, const BindOptions& options) {
  Int8LinearSpec spec;
  if (auto rejection = kRead(call, spec.geometry)) return Unsupported("{}", rejection->sentence);
  const QuantParams& w = *call.inputs[1].quant;
  const auto columns = static_cast<size_t>(spec.geometry.out_channels);
  spec.x_signed = call.inputs[0].dtype == DType::kInt8;
  spec.w_zero = w.zero_points;
  spec.x_scale_input = kDynamicScale;
  if (call.has_input(kDynamicZero)) spec.x_zero_input = kDynamicZero;
  for (size_t c = 0; c < columns; ++c)
    spec.epilogue.multiplier.push_back(w.scales[w.per_tensor() ? 0 : c]);
  if (call.has_input(2))
    spec.offset.assign(call.constant(2)->data<float>(), call.constant(2)->data<float>() + columns);
  EVOQ_ASSIGN(const Activation activation, ActivationFromAttrs(call.attrs));
  spec.epilogue.SetFloatOutput(activation);
  spec.epilogue.SetSlope(activation, static_cast<int64_t>(spec.epilogue.multiplier.size()));
  if (call.has_input(3)) {
    spec.epilogue.residual_input = 3;
    spec.epilogue.residual_type = Int8Residual::kFloat32;
  }
  spec.finish = DynamicFinish(call, activation, options.isa);
  return spec;
}

Result<BoundKernel> BindConv(const KernelCall& call, const BindOptions& options) {
  EVOQ_ASSIGN(Int8LinearSpec spec, SpecOf<ReadConvGeometry>(call, options));
  ConvShapeF32 shape;
  if (!ReadConvSizes(call, false, shape) && ChooseTapsInt8(shape, false, options.variant))
    return BindTapsInt8(shape, false, std::move(spec), *call.constant(1), options);
  return BindInt8Either(call, std::move(spec), options);
}
Result<BoundKernel> BindMatMul(const KernelCall& call, const BindOptions& options) {
  EVOQ_ASSIGN(Int8LinearSpec spec, SpecOf<ReadMatMulGeometry>(call, options));
  return BindInt8Either(call, std::move(spec), options);
}

}  // namespace

extern const KernelDef kDynamicConvInt8 = {
    .name = "dynamic_conv",
    .op = "DynamicConv",
    .precision = Precision::kInt8,
    .peak = Peak::kInt8,
    .reject = RejectCall<ReadConvGeometry, 0>,
    .pack = Pack<ReadConvGeometry>,
    .reads = Reads<ReadConvGeometry>,
    .bind = BindConv,
};
extern const KernelDef kDynamicMatMulInt8 = {
    .name = "dynamic_matmul",
    .op = "DynamicMatMul",
    .precision = Precision::kInt8,
    .peak = Peak::kInt8,
    .reject = RejectCall<ReadMatMulGeometry, 1>,
    .pack = Pack<ReadMatMulGeometry>,
    .reads = Reads<ReadMatMulGeometry>,
    .bind = BindMatMul,
};

}  // namespace evoq
