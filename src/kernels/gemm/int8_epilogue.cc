#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/gemm/int8_linear.h"
#include "kernels/requant.h"

namespace evoq {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// An activation that clamps and the saturation of an integer output are one clamp, whose ends are
// their values at the ends of the number line; the ends are integers, so rounding may come after
// it.
void SetIntegerClamp(const Activation& scaled, int32_t zero, DType dtype, Int8Epilogue& e) {
  const auto low = static_cast<int32_t>(IntegerMin(dtype)) - zero,
             high = static_cast<int32_t>(IntegerMax(dtype)) - zero;
  e.clamp = true;
  e.low = static_cast<float>(low);
  e.high = static_cast<float>(high);
  if (scaled.kind != ActivationKind::kRelu && scaled.kind != ActivationKind::kClip) return;
  e.low = static_cast<float>(RoundToInteger(Apply(scaled, -kInfinity), 0, low, high));
  e.high = static_cast<float>(RoundToInteger(Apply(scaled, kInfinity), 0, low, high));
}

}  // namespace

void Int8Epilogue::SetFloatOutput(const Activation& activation) {
  output = Int8Output::kFloat32;
  clamp = activation.kind == ActivationKind::kRelu || activation.kind == ActivationKind::kClip;
  low = activation.kind == ActivationKind::kClip ? activation.alpha : 0;
  high = activation.kind == ActivationKind::kClip ? activation.beta : kInfinity;
}

void Int8Epilogue::SetSlope(const Activation& activation, int64_t columns) {
  if (activation.kind == ActivationKind::kLeakyRelu)
    slopes.assign(static_cast<size_t>(columns), activation.alpha);
}

void Int8Epilogue::Fill(Int8Tile& tile) const {
  tile.output = output;
  tile.residual_type = residual_type;
  tile.residual_multiplier = residual_multiplier;
  tile.residual_zero = residual_zero;
  tile.y_zero = y_zero;
  tile.y_flip = y_signed ? 0x80 : 0;
  tile.small = small;
  tile.clamp = clamp;
  tile.low = low;
  tile.high = high;
}

void Int8Epilogue::SetSmall(std::span<const double> sum_bounds) {
  double largest = 0, steepest = 1;
  for (size_t c = 0; c < multiplier.size(); ++c)
    largest =
        std::max(largest, std::min(sum_bounds[c], 0x1p31) * static_cast<double>(multiplier[c]));
  largest += 512.0 * static_cast<double>(residual_multiplier);
  for (const float slope : slopes)
    steepest = std::max(steepest, std::abs(static_cast<double>(slope)));
  small = largest * steepest < 0x1p29;
}

Result<Int8Epilogue> QuantizedEpilogue(const KernelCall& call, int64_t columns) {
  const TensorType& y = call.outputs[0];
  const QuantParams& x = *call.inputs[0].quant;
  const QuantParams& w = *call.inputs[1].quant;
  const float y_scale = y.quantized() ? y.quant->scales[0] : 1.0f;
  EVOQ_ASSIGN(const ProductActivation product, ProductActivationFromAttrs(call.attrs));
  const Activation& activation = product.activation;
  const Activation scaled = ScaledActivation(activation, y_scale);

  Int8Epilogue e;
  e.output = y.quantized() ? Int8Output::kInt8 : Int8Output::kFloat32;
  e.multiplier.reserve(static_cast<size_t>(columns));
  for (int64_t c = 0; c < columns; ++c) {
    // One, one per channel, or one per channel of a group of ConvTranspose.
    const float w_scale = w.scales[static_cast<size_t>(c) % w.scales.size()];
    e.multiplier.push_back(LinearMultiplier(x.scales[0], w_scale, y_scale));
    if (!std::isfinite(e.multiplier.back()))
      return InvalidInput("scales {} * {} / {} of channel {} overflow", x.scales[0], w_scale,
                          y_scale, c);
  }
  if (call.has_input(3)) {
    const TensorType& residual = call.inputs[3];
    e.residual_input = 3;
    e.residual_type = !residual.quantized()             ? Int8Residual::kFloat32
                      : residual.dtype == DType::kUint8 ? Int8Residual::kUint8
                                                        : Int8Residual::kInt8;
    if (residual.quantized()) {
      e.residual_multiplier = ScaleRatio(residual.quant->scales[0], y_scale);
      e.residual_zero = residual.quant->zero_points[0];
      if (!std::isfinite(e.residual_multiplier))
        return InvalidInput("residual scale {} / {} overflows", residual.quant->scales[0], y_scale);
    }
  }
  e.slopes = product.slopes;
  e.SetSlope(activation, columns);
  if (y.quantized()) {
    e.y_zero = y.quant->zero_points[0];
    e.y_signed = y.dtype == DType::kInt8;
    SetIntegerClamp(scaled, e.y_zero, y.dtype, e);
  } else {
    e.SetFloatOutput(activation);
  }
  return e;
}

}  // namespace evoq
