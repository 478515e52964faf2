#include "tensor/type.h"

#include <cmath>

#include "base/math.h"

namespace evoq {

std::optional<int64_t> TensorType::bytes() const {
  const auto elements = shape.elements();
  if (!elements || !is_tensor()) return std::nullopt;
  const auto bits = CheckedMul(*elements, DTypeBits(dtype));
  if (!bits) return std::nullopt;
  return CeilDiv(*bits, 8);
}

std::string TensorType::ToString() const {
  std::string text = fmt::format("{}{}", DTypeName(dtype), shape.ToString());
  constexpr const char* kAround[] = {"{}", "sequence({})", "optional({})",
                                     "optional(sequence({}))"};
  if (!is_tensor()) return fmt::format(fmt::runtime(kAround[static_cast<int>(kind)]), text);
  if (!quant) return text;
  if (quant->per_tensor())
    return text + fmt::format("(scale {}, zero {})", quant->scales[0], quant->zero_points[0]);
  text += fmt::format("({} scales on axis {}", ScaleCount(*this), quant->axis);
  if (quant->block > 0) text += fmt::format(", block {}", quant->block);
  return text + ")";
}

bool TensorType::operator==(const TensorType& other) const {
  if (dtype != other.dtype || kind != other.kind || shape != other.shape ||
      quantized() != other.quantized())
    return false;
  return !quant || quant == other.quant || *quant == *other.quant;
}

int64_t ScaleCount(const TensorType& type) {
  const QuantParams& q = *type.quant;
  if (!q.inside) return static_cast<int64_t>(q.scales.size());
  std::vector<int64_t> sizes = type.shape.sizes();
  if (q.block == 0) return sizes[q.axis];
  sizes[q.axis] = CeilDiv(sizes[q.axis], q.block);
  return CheckedProduct(sizes).value_or(0);
}

namespace {

Status ValidateInside(const TensorType& type) {
  const QuantParams& q = *type.quant;
  const QuantParams::Inside& inside = *q.inside;
  if (!q.scales.empty() || !q.zero_points.empty())
    return InvalidInput("{} scales beside those inside of the constant", q.scales.size());
  if (!type.shape.is_static() || q.axis < 0 || q.axis >= type.shape.rank() || q.block < 0)
    return InvalidInput("scales inside of {}{}: axis {}, block {}", DTypeName(type.dtype),
                        type.shape.ToString(), q.axis, q.block);
  const bool tiny = IsTinyFloat(type.dtype);
  if (tiny ? inside.zeros || inside.zero != 0
           : inside.zero < IntegerMin(type.dtype) || inside.zero > IntegerMax(type.dtype))
    return InvalidInput("zero point {} inside of {}", inside.zero, DTypeName(type.dtype));
  return {};
}

}  // namespace

Status ValidateQuant(const TensorType& type) {
  if (!type.quant) return {};
  const QuantParams& q = *type.quant;
  const bool tiny = (IsTinyFloat(type.dtype) && DTypeBits(type.dtype) == 4) ||
                    type.dtype == DType::kFloat8E4M3FN || type.dtype == DType::kFloat8E5M2;
  if (!IsInteger(type.dtype) && !tiny)
    return InvalidInput(
        "a quantized type of {}, expected an integer type, a float of 4 bits, float8e4m3fn or "
        "float8e5m2",
        DTypeName(type.dtype));
  if (q.inside) return ValidateInside(type);
  if (q.scales.size() != q.zero_points.size() || q.scales.empty())
    return InvalidInput("{} scales and {} zero points, expected as many of both and at least one",
                        q.scales.size(), q.zero_points.size());
  if (q.per_tensor()) {
    if (q.scales.size() != 1)
      return InvalidInput("{} scales without an axis, expected 1", q.scales.size());
  } else if (q.block == 0 && type.shape.ranked()) {
    if (q.axis >= type.shape.rank())
      return InvalidInput("quantization axis {} of a tensor of rank {}", q.axis, type.shape.rank());
    const Dim& d = type.shape[q.axis];
    if (d.known() && d.value != static_cast<int64_t>(q.scales.size()))
      return InvalidInput("{} scales on axis {} of size {}", q.scales.size(), q.axis, d.value);
  } else if (type.shape.ranked()) {
    if (q.block < 0 || q.axis >= type.shape.rank())
      return InvalidInput("blocks of {} on axis {} of a tensor of rank {}", q.block, q.axis,
                          type.shape.rank());
    std::vector<int64_t> blocks = type.shape.sizes();
    blocks[q.axis] = CeilDiv(blocks[q.axis], q.block);
    if (type.shape.is_static() && CheckedProduct(blocks) != static_cast<int64_t>(q.scales.size()))
      return InvalidInput("{} scales for {}, expected one per block of {} on axis {}",
                          q.scales.size(), type.shape.ToString(), q.block, q.axis);
  }
  for (float scale : q.scales) {
    if (!std::isfinite(scale) || scale <= 0)
      return InvalidInput("scale {}, expected a finite number > 0", scale);
  }
  for (int32_t zero : q.zero_points) {
    if (tiny && zero != 0)
      return InvalidInput("zero point {} of {}, expected 0", zero, DTypeName(type.dtype));
    if (zero < IntegerMin(type.dtype) || zero > IntegerMax(type.dtype))
      return InvalidInput("zero point {} outside {}'s range", zero, DTypeName(type.dtype));
  }
  return {};
}

}  // namespace evoq
