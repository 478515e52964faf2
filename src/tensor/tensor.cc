#include "tensor/tensor.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "base/aligned.h"
#include "base/guarded_ends.h"
#include "base/math.h"

namespace evoq {
namespace {

size_t StaticBytes(const TensorType& type) {
  const auto bytes = type.bytes();
  EVOQ_CHECK(bytes.has_value(), "{} has no static size", type.ToString());
  return static_cast<size_t>(*bytes);
}

// Calls body(element index, scale index) for every element of a tensor quantized per tensor, axis
// or block.
template <typename Body>
void ForEachWithScale(const std::vector<int64_t>& sizes, const QuantParams& q, const Body& body) {
  int64_t total = 1, inner = 1;
  for (int64_t s : sizes) total *= s;
  if (q.per_tensor()) {
    for (int64_t i = 0; i < total; ++i) body(i, 0);
    return;
  }
  for (size_t i = q.axis + 1; i < sizes.size(); ++i) inner *= sizes[i];
  const int64_t axis_size = sizes[q.axis];
  const int64_t blocks = q.block > 0 ? CeilDiv(axis_size, q.block) : axis_size;
  for (int64_t i = 0; i < total; ++i) {
    const int64_t index = i / inner % axis_size;
    if (q.block == 0) {
      body(i, index);
    } else {
      const int64_t outer = i / inner / axis_size;
      body(i, (outer * blocks + index / q.block) * inner + i % inner);
    }
  }
}

// Calls body(pointer to T) with the element type of `dtype`; nibbles and strings are not handled.
// False when unknown.
template <typename Body>
bool DispatchElement(DType dtype, const Body& body) {
  switch (dtype) {
    case DType::kFloat32: body(static_cast<float*>(nullptr)); return true;
    case DType::kFloat64: body(static_cast<double*>(nullptr)); return true;
    case DType::kUint8: body(static_cast<uint8_t*>(nullptr)); return true;
    case DType::kInt8: body(static_cast<int8_t*>(nullptr)); return true;
    case DType::kUint16: body(static_cast<uint16_t*>(nullptr)); return true;
    case DType::kInt16: body(static_cast<int16_t*>(nullptr)); return true;
    case DType::kInt32: body(static_cast<int32_t*>(nullptr)); return true;
    case DType::kInt64: body(static_cast<int64_t*>(nullptr)); return true;
    case DType::kUint32: body(static_cast<uint32_t*>(nullptr)); return true;
    case DType::kUint64: body(static_cast<uint64_t*>(nullptr)); return true;
    case DType::kBool: body(static_cast<bool*>(nullptr)); return true;
    default: return false;
  }
}

// Element i of an integer type of 4 or 2 bits.
int32_t PackedInteger(const Tensor& tensor, int64_t i) {
  const int bits = DTypeBits(tensor.dtype()), value = PackedBits(tensor.raw(), i, bits);
  return IsSigned(tensor.dtype()) && value >= 1 << (bits - 1) ? value - (1 << bits) : value;
}

// What a container points to, so that it is defined.
constexpr std::byte kNoBytes{};

}  // namespace

Tensor Tensor::Allocate(TensorType type) {
  Tensor t;
  t.bytes_ = StaticBytes(type);
  t.elements_ = *type.shape.elements();
  if (type.dtype == DType::kString) {
    auto strings = std::make_shared<std::vector<std::string>>(
        static_cast<size_t>(std::max<int64_t>(t.elements_, 1)));
    t.data_ = reinterpret_cast<const std::byte*>(strings->data());
    t.owner_ = std::move(strings);
    t.type_ = std::move(type);
    t.writable_ = true;
    return t;
  }
  auto buffer = std::make_shared<AlignedBuffer>(AlignedBuffer::Zeros(t.bytes_));
  t.data_ = buffer->data();
  t.owner_ = std::move(buffer);
  t.type_ = std::move(type);
  t.writable_ = true;
  return t;
}

std::vector<Tensor> Tensor::AllocateTogether(std::span<const TensorType> types) {
  constexpr auto kApart = static_cast<int64_t>(kAlignment);
  int64_t all = 0;
  std::vector<int64_t> places;
  for (const TensorType& type : types) {
    EVOQ_CHECK(type.dtype != DType::kString, "{} has no bytes", type.ToString());
    const auto end = CheckedAdd(all, RoundUp(static_cast<int64_t>(StaticBytes(type)), kApart));
    EVOQ_CHECK(end.has_value(), "{} and those before it are too large", type.ToString());
    places.push_back(std::exchange(all, *end));
  }
  std::vector<Tensor> tensors;
  if constexpr (kGuardsEnds) {
    for (const TensorType& type : types) tensors.push_back(Allocate(type));
    return tensors;
  }
  const auto memory =
      std::make_shared<AlignedBuffer>(AlignedBuffer::Zeros(static_cast<size_t>(all)));
  for (size_t i = 0; i < types.size(); ++i) {
    tensors.push_back(View(types[i], memory->data() + places[i], memory));
    tensors.back().writable_ = true;
  }
  return tensors;
}

Tensor Tensor::View(TensorType type, const std::byte* data, std::shared_ptr<const void> owner) {
  Tensor t;
  t.bytes_ = StaticBytes(type);
  t.elements_ = *type.shape.elements();
  t.data_ = data;
  t.owner_ = std::move(owner);
  t.type_ = std::move(type);
  return t;
}

Tensor Tensor::Borrow(TensorType type, std::byte* data) {
  Tensor t = View(std::move(type), data, nullptr);
  t.writable_ = true;
  return t;
}

Tensor Tensor::Packed(TensorType type, std::string layout, std::vector<std::byte> bytes) {
  auto buffer = std::make_shared<AlignedBuffer>(bytes.size());
  if (!bytes.empty()) std::memcpy(buffer->data(), bytes.data(), bytes.size());
  const std::span<const std::byte> view(buffer->data(), bytes.size());
  return PackedView(std::move(type), std::move(layout), view, std::move(buffer));
}

Tensor Tensor::PackedView(TensorType type, std::string layout, std::span<const std::byte> bytes,
                          std::shared_ptr<const void> owner) {
  Tensor t;
  t.elements_ = type.shape.elements().value_or(0);
  t.type_ = std::move(type);
  t.layout_ = std::move(layout);
  t.data_ = bytes.data();
  t.bytes_ = bytes.size();
  t.owner_ = std::move(owner);
  return t;
}

Tensor Tensor::Of(ValueKind kind, TensorType type, std::vector<Tensor> items) {
  EVOQ_CHECK(kind != ValueKind::kTensor && (kind == ValueKind::kSequence || items.size() <= 1));
  for (size_t i = 0; i < items.size(); ++i) {
    const Shape& shape = items[i].shape();
    if (i == 0) {
      type.shape = shape;
    } else if (shape.rank() != type.shape.rank()) {
      type.shape = Shape::UnknownRank();
    } else {
      for (int d = 0; d < shape.rank(); ++d) {
        if (type.shape[d] != shape[d]) type.shape[d] = Dim();
      }
    }
  }
  Tensor t;
  t.type_ = TensorType::In(kind, type.dtype, std::move(type.shape));
  t.data_ = &kNoBytes;
  t.items_ = std::make_shared<const std::vector<Tensor>>(std::move(items));
  return t;
}

const std::vector<Tensor>& Tensor::items() const {
  static const std::vector<Tensor> kNone;
  return items_ ? *items_ : kNone;
}

Tensor Tensor::WithType(TensorType type) const {
  EVOQ_CHECK(layout_.empty() && StaticBytes(type) == bytes_, "{} as {}", type_.ToString(),
             type.ToString());
  Tensor t = *this;
  t.elements_ = *type.shape.elements();
  t.type_ = std::move(type);
  return t;
}

Tensor Tensor::Clone() const {
  if (!layout_.empty())
    return Packed(type_, layout_, std::vector<std::byte>(data_, data_ + bytes_));
  if (items_) return *this;
  Tensor t = Allocate(type_);
  if (dtype() == DType::kString) {
    std::copy(data<std::string>(), data<std::string>() + elements_, t.mutable_data<std::string>());
    return t;
  }
  if (bytes_ > 0) std::memcpy(t.mutable_raw(), data_, bytes_);
  return t;
}

Result<std::vector<int64_t>> ToInt64s(const Tensor& tensor) {
  if (!tensor.layout().empty() || (!IsInteger(tensor.dtype()) && tensor.dtype() != DType::kBool))
    return InvalidInput("{} where integers are expected", tensor.type().ToString());
  std::vector<int64_t> values(static_cast<size_t>(tensor.elements()));
  const bool known = DispatchElement(tensor.dtype(), [&](auto* tag) {
    using T = std::remove_pointer_t<decltype(tag)>;
    for (size_t i = 0; i < values.size(); ++i)
      values[i] = static_cast<int64_t>(tensor.data<T>()[i]);
  });
  if (!known) {
    for (size_t i = 0; i < values.size(); ++i)
      values[i] = PackedInteger(tensor, static_cast<int64_t>(i));
  }
  return values;
}

Result<Tensor> ToFloat32(const Tensor& tensor) {
  if (!tensor.layout().empty())
    return Unsupported("a tensor in layout '{}' has no plain values", tensor.layout());
  Tensor out = Tensor::Allocate(TensorType(DType::kFloat32, tensor.shape()));
  float* y = out.mutable_data<float>();
  const int64_t n = tensor.elements();
  if (tensor.type().quantized()) {
    EVOQ_TRY(ValidateQuant(tensor.type()));
    const QuantParams& params = *tensor.type().quant;
    if (!IsInteger(tensor.dtype())) {
      EVOQ_ASSIGN(const Tensor numbers,
                  ToFloat32(tensor.WithType(TensorType(tensor.dtype(), tensor.shape()))));
      const auto* q = numbers.data<float>();
      ForEachWithScale(tensor.sizes(), params,
                       [&](int64_t i, int64_t s) { y[i] = q[i] * params.scales[s]; });
      return out;
    }
    EVOQ_ASSIGN(const std::vector<int64_t> q, ToInt64s(tensor));
    ForEachWithScale(tensor.sizes(), params, [&](int64_t i, int64_t s) {
      y[i] = static_cast<float>(q[i] - params.zero_points[s]) * params.scales[s];
    });
    return out;
  }
  if (tensor.dtype() == DType::kFloat16) {
    for (int64_t i = 0; i < n; ++i) y[i] = HalfToFloat(tensor.data<uint16_t>()[i]);
    return out;
  }
  if (tensor.dtype() == DType::kBfloat16) {
    for (int64_t i = 0; i < n; ++i) y[i] = Bfloat16ToFloat(tensor.data<uint16_t>()[i]);
    return out;
  }
  const bool known = DispatchElement(tensor.dtype(), [&](auto* tag) {
    using T = std::remove_pointer_t<decltype(tag)>;
    for (int64_t i = 0; i < n; ++i) y[i] = static_cast<float>(tensor.data<T>()[i]);
  });
  if (known) return out;
  const int bits = DTypeBits(tensor.dtype());
  if (IsTinyFloat(tensor.dtype())) {
    for (int64_t i = 0; i < n; ++i)
      y[i] = TinyFloatToFloat(tensor.dtype(), PackedBits(tensor.raw(), i, bits));
    return out;
  }
  if (!IsInteger(tensor.dtype()))
    return Unsupported("{} has no real values", tensor.type().ToString());
  for (int64_t i = 0; i < n; ++i) y[i] = static_cast<float>(PackedInteger(tensor, i));
  return out;
}

Result<Tensor> QuantizeTensor(const Tensor& tensor, const TensorType& type) {
  EVOQ_TRY(ValidateQuant(type));
  if (tensor.dtype() != DType::kFloat32 || tensor.type().quantized() ||
      type.shape != tensor.shape() || !type.quantized())
    return InvalidInput("cannot quantize {} to {}", tensor.type().ToString(), type.ToString());
  const QuantParams& q = *type.quant;
  const float* x = tensor.data<float>();
  if (!IsInteger(type.dtype)) {
    Tensor out = Tensor::Allocate(type);
    ForEachWithScale(tensor.sizes(), q, [&](int64_t i, int64_t s) {
      SetPackedBits(out.mutable_raw(), i, DTypeBits(type.dtype),
                    FloatToTinyFloat(type.dtype, x[i] / q.scales[s]));
    });
    return out;
  }
  const int64_t low = IntegerMin(type.dtype), high = IntegerMax(type.dtype);
  Tensor out = Tensor::Allocate(type);
  const auto quantize = [&](int64_t i, int64_t s) -> int64_t {
    const int32_t zero = q.zero_points[s];
    const float value = std::nearbyintf(x[i] / q.scales[s]) + static_cast<float>(zero);
    if (std::isnan(value)) return zero;
    // As float32 the bounds of 32 and 64 bits lie beyond what they hold.
    if (value >= static_cast<float>(high)) return high;
    return value <= static_cast<float>(low) ? low : static_cast<int64_t>(value);
  };
  if (const int bits = DTypeBits(type.dtype); bits < 8) {
    std::byte* y = out.mutable_raw();
    ForEachWithScale(tensor.sizes(), q, [&](int64_t i, int64_t s) {
      SetPackedBits(y, i, bits, static_cast<int>(quantize(i, s)));
    });
  } else {
    DispatchElement(type.dtype, [&](auto* tag) {
      using T = std::remove_pointer_t<decltype(tag)>;
      T* y = out.mutable_data<T>();
      ForEachWithScale(tensor.sizes(), q,
                       [&](int64_t i, int64_t s) { y[i] = static_cast<T>(quantize(i, s)); });
    });
  }
  return out;
}

bool BitEqual(const Tensor& a, const Tensor& b) {
  if (a.type() == b.type()) {
    if (!a.type().is_tensor())
      return std::equal(a.items().begin(), a.items().end(), b.items().begin(), b.items().end(),
                        BitEqual);
    if (a.dtype() == DType::kString) {
      const auto x = a.values<std::string>(), y = b.values<std::string>();
      return std::equal(x.begin(), x.end(), y.begin(), y.end());
    }
  }
  return a.type() == b.type() && a.layout() == b.layout() && a.bytes() == b.bytes() &&
         (a.bytes() == 0 || std::memcmp(a.raw(), b.raw(), a.bytes()) == 0);
}

}  // namespace evoq
