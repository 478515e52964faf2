#include "ops/linear.h"

#include "kernels/requant.h"
#include "reference/definition.h"
#include "reference/linear.h"
#include "reference/real.h"
#include "reference/util.h"

namespace evoq {
namespace {

bool PerTensor(const Tensor& tensor) {
  return tensor.type().quantized() && tensor.type().quant->per_tensor();
}

Status NotInteger(const char* what, const TensorType& type) {
  return Unsupported("{} {} has no integer definition", what, type.ToString());
}

// The real scale and zero point of a residual; float32 counts as scale 1.
struct Residual {
  float scale = 1;
  int32_t zero = 0;
  Tensor values;  // float32: the stored numbers
};

Result<Residual> ReadResidual(const Tensor& tensor) {
  Residual r;
  if (!tensor.type().quantized()) {
    r.values = tensor;
    return r;
  }
  r.scale = tensor.type().quant->scales[0];
  r.zero = tensor.type().quant->zero_points[0];
  EVOQ_ASSIGN(r.values, ToFloat32(tensor.WithType(TensorType(tensor.dtype(), tensor.shape()))));
  return r;
}

}  // namespace

Status CheckInteger(const LinearCall& call) {
  if (!PerTensor(*call.x)) return NotInteger("input", call.x->type());
  if (!call.w->type().quantized()) return NotInteger("weight", call.w->type());
  const QuantParams& w = *call.w->type().quant;
  if (w.block != 0 || (!w.per_tensor() && w.axis != call.w_axis))
    return NotInteger("weight", call.w->type());
  if (call.bias && (call.bias->dtype() != DType::kInt32 || call.bias->type().quantized()))
    return NotInteger("bias", call.bias->type());
  if (call.table) {
    const bool bytes = call.table->dtype() == DType::kUint8 && PerTensor(*call.table) &&
                       call.table->elements() == 256;
    if (!bytes) return NotInteger("table", call.table->type());
    if (call.y.dtype != DType::kUint8 || !call.y.quantized())
      return NotInteger("output behind a table", call.y);
  }
  const bool integer_residual =
      call.residual && PerTensor(*call.residual) && DTypeBits(call.residual->dtype()) <= 16;
  if (call.residual && !integer_residual && call.residual->dtype() != DType::kFloat32)
    return NotInteger("residual", call.residual->type());
  if (!call.y.quantized())
    return call.y.dtype == DType::kFloat32 ? Status() : NotInteger("output", call.y);
  if (!call.y.quant->per_tensor() || DTypeBits(call.y.dtype) > 16)
    return NotInteger("output", call.y);
  return {};
}

Result<std::vector<uint32_t>> Centered(const Tensor& tensor) {
  EVOQ_ASSIGN(const std::vector<int64_t> q, ToInt64s(tensor));
  std::vector<uint32_t> centered(q.size());
  const QuantParams* params = tensor.type().quant.get();
  if (params == nullptr || params->per_tensor()) {
    const int64_t zero = params ? params->zero_points[0] : 0;
    for (size_t i = 0; i < q.size(); ++i) centered[i] = static_cast<uint32_t>(q[i] - zero);
    return centered;
  }
  const AxisSplit split = SplitAt(tensor.sizes(), params->axis);
  for (int64_t i = 0; i < tensor.elements(); ++i)
    centered[i] = static_cast<uint32_t>(q[i] - params->zero_points[i / split.inner % split.size]);
  return centered;
}

EvalResult FinishFloat(const LinearCall& call, DType dtype, std::span<const double> sums) {
  if (call.table) return InvalidInput("a table behind {} values", DTypeName(dtype));
  if (call.bias && call.bias->dtype() == DType::kInt32)
    return InvalidInput("bias is {}, expected {} where the inputs are not quantized",
                        call.bias->type().ToString(), DTypeName(dtype));
  if (call.bias && call.bias->dtype() != dtype)
    return Unsupported("bias {}", call.bias->type().ToString());
  if (call.residual && call.residual->dtype() != dtype)
    return Unsupported("residual {}", call.residual->type().ToString());
  const std::optional<Unary> activation = UnaryFromActivation(call.activation);
  return DispatchFloat(dtype, [&](auto tag) -> EvalResult {
    using T = decltype(tag);
    Tensor y = Tensor::Allocate(TensorType(dtype, call.y.shape));
    const T* bias = call.bias ? call.bias->data<T>() : nullptr;
    const T* residual = call.residual ? call.residual->data<T>() : nullptr;
    T* out = y.mutable_data<T>();
    for (int64_t i = 0; i < y.elements(); ++i) {
      T v = static_cast<T>(
          bias ? sums[i] + static_cast<double>(bias[i / call.channels.inner % call.channels.size])
               : sums[i]);
      if (residual) v = v + residual[i];
      out[i] = activation ? Apply(*activation, v) : v;
    }
    return One(std::move(y));
  });
}

EvalResult FinishInteger(const LinearCall& call, std::span<const uint32_t> sums) {
  if (call.table) {
    LinearCall inner = call;
    inner.table = nullptr;
    inner.y = TensorType(DType::kUint8, call.y.shape, *call.table->type().quant);
    EVOQ_ASSIGN(const std::vector<Tensor> before, FinishInteger(inner, sums));
    return One(ThroughTable(before[0], *call.table, call.y));
  }
  const float scale_x = call.x->type().quant->scales[0];
  const QuantParams& w = *call.w->type().quant;
  const bool to_integer = call.y.quantized();
  // A table activation works on real values; the others on values in units of the output's scale.
  const bool scaled = to_integer && IsPiecewiseLinear(call.activation.kind);
  const float scale_y = to_integer ? call.y.quant->scales[0] : 1.0f;
  const float unit = scaled ? scale_y : 1.0f;
  const Activation activation =
      scaled ? ScaledActivation(call.activation, scale_y) : call.activation;
  Residual residual;
  if (call.residual) {
    EVOQ_ASSIGN(residual, ReadResidual(*call.residual));
  }
  const float residual_multiplier = ScaleRatio(residual.scale, unit);
  const int32_t zero = to_integer ? call.y.quant->zero_points[0] : 0;
  const int32_t low = to_integer ? static_cast<int32_t>(IntegerMin(call.y.dtype)) : 0;
  const int32_t high = to_integer ? static_cast<int32_t>(IntegerMax(call.y.dtype)) : 0;
  const int32_t* bias = call.bias ? call.bias->data<int32_t>() : nullptr;
  std::vector<int32_t> integers(to_integer ? sums.size() : 0);
  Tensor reals;
  if (!to_integer) reals = Tensor::Allocate(call.y);
  float* out = to_integer ? nullptr : reals.mutable_data<float>();
  for (size_t i = 0; i < sums.size(); ++i) {
    const size_t channel = i / call.channels.inner % call.channels.size;
    const auto sum =
        static_cast<int32_t>(sums[i] + (bias ? static_cast<uint32_t>(bias[channel]) : 0u));
    float v = static_cast<float>(sum) *
              LinearMultiplier(scale_x, w.scales[channel % w.scales.size()], unit);
    if (call.residual)
      v = v + (residual.values.data<float>()[i] - static_cast<float>(residual.zero)) *
                  residual_multiplier;
    if (!call.slopes.empty()) v = v < 0 ? v * call.slopes[channel] : v;
    v = Apply(activation, v);
    if (!to_integer) {
      out[i] = v;
    } else {
      integers[i] = scaled ? RoundOrZeroPoint(v, zero, low, high)
                           : QuantizeValue(v, scale_y, zero, low, high);
    }
  }
  return One(to_integer ? FromInt32s(call.y, integers) : std::move(reals));
}

Tensor ThroughTable(const Tensor& x, const Tensor& table, const TensorType& y) {
  TensorType type = y;
  type.shape = x.shape();
  Tensor out = Tensor::Allocate(type);
  const uint8_t *bytes = x.data<uint8_t>(), *entries = table.data<uint8_t>();
  for (int64_t i = 0; i < x.elements(); ++i) out.mutable_data<uint8_t>()[i] = entries[bytes[i]];
  return out;
}

Tensor FromInt32s(const TensorType& type, std::span<const int32_t> values) {
  Tensor out = Tensor::Allocate(type);
  const auto fill = [&](auto tag) {
    auto* to = out.mutable_data<decltype(tag)>();
    for (size_t i = 0; i < values.size(); ++i) to[i] = static_cast<decltype(tag)>(values[i]);
  };
  const int bits = DTypeBits(type.dtype);
  switch (bits) {
    case 32: fill(int32_t{}); break;
    case 16: fill(int16_t{}); break;
    case 8: fill(int8_t{}); break;
    case 4:
    case 2: {
      const size_t per_byte = 8 / bits;
      const int mask = (1 << bits) - 1;
      for (size_t i = 0; i < values.size(); ++i)
        out.mutable_raw()[i / per_byte] |=
            static_cast<std::byte>((values[i] & mask) << (i % per_byte * bits));
      break;
    }
    default: EVOQ_CHECK(false, "{}", type.ToString());
  }
  return out;
}

Result<TensorType> QuantizedType(DType dtype, const Shape& shape, const Tensor& scale,
                                 const Tensor* zero_point, int axis) {
  EVOQ_ASSIGN(const Tensor scales, ToFloat32(scale));
  QuantParams quant;
  quant.scales.assign(scales.data<float>(), scales.data<float>() + scales.elements());
  quant.zero_points.assign(quant.scales.size(), 0);
  quant.axis = quant.scales.size() == 1 ? -1 : axis;
  if (zero_point != nullptr) {
    if (zero_point->dtype() != dtype)
      return InvalidInput("a zero point of {} for {}", DTypeName(zero_point->dtype()),
                          DTypeName(dtype));
    EVOQ_ASSIGN(const std::vector<int64_t> zeros, ToInt64s(*zero_point));
    if (zeros.size() != quant.scales.size() && zeros.size() != 1)
      return InvalidInput("{} zero points for {} scales", zeros.size(), quant.scales.size());
    for (size_t i = 0; i < quant.scales.size(); ++i)
      quant.zero_points[i] = static_cast<int32_t>(zeros[zeros.size() == 1 ? 0 : i]);
  }
  TensorType type(dtype, shape, std::move(quant));
  EVOQ_TRY(ValidateQuant(type));
  return type;
}

Result<Tensor> QuantizedInput(const EvalArgs& args, size_t i, int axis) {
  const Tensor& x = args.inputs[i];
  EVOQ_ASSIGN(TensorType type,
              QuantizedType(x.dtype(), x.shape(), args.inputs[i + 1], &args.inputs[i + 2], axis));
  return x.WithType(std::move(type));
}

}  // namespace evoq
