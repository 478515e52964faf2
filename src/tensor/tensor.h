// A typed block of memory.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/check.h"
#include "tensor/type.h"

namespace evoq {

// A static type and its bytes. Copies share the memory (they are handles), so bytes are written
// right after Allocate and never once the tensor is part of a graph or a program. The memory may
// belong to a mapped file.
class Tensor {
 public:
  Tensor() = default;  // no tensor: defined() is false

  // Fresh, zero-filled, 64-byte aligned memory. `type` must be static and fit the address space
  // (CHECK): types from files are bounded by the reader.
  static Tensor Allocate(TensorType type);
  // The same of numbers of each type, in one piece of memory, of which the system gives large pages
  // also where each of them is small.
  static std::vector<Tensor> AllocateTogether(std::span<const TensorType> types);

  // Refers to `data`, kept alive by `owner`. Not writable.
  static Tensor View(TensorType type, const std::byte* data, std::shared_ptr<const void> owner);

  // Refers to memory of the caller, which must outlive it.
  static Tensor Borrow(TensorType type, std::byte* data);

  template <typename T>
  static Tensor FromValues(Shape shape, const std::vector<T>& values) {
    Tensor t = Allocate(TensorType(DTypeOf<T>::value, std::move(shape)));
    EVOQ_CHECK(t.elements() == static_cast<int64_t>(values.size()), "{} values for {}",
               values.size(), t.type().ToString());
    for (size_t i = 0; i < values.size(); ++i) t.mutable_data<T>()[i] = values[i];
    return t;
  }
  // Of one axis.
  template <typename T>
  static Tensor FromValues(const std::vector<T>& values) {
    return FromValues(Shape{static_cast<int64_t>(values.size())}, values);
  }
  template <typename T>
  static Tensor Scalar(T value) {
    return FromValues<T>(Shape{}, {value});
  }

  // A sequence of tensors of `type`'s dtype, or an optional, whose items are what it holds: none or
  // one (a tensor, or a sequence). The shape of `type` is widened to fit all items.
  static Tensor Of(ValueKind kind, TensorType type, std::vector<Tensor> items);

  bool defined() const { return data_ != nullptr; }
  // What a container holds; empty for a tensor.
  const std::vector<Tensor>& items() const;
  const TensorType& type() const { return type_; }
  DType dtype() const { return type_.dtype; }
  const Shape& shape() const { return type_.shape; }
  std::vector<int64_t> sizes() const { return type_.shape.sizes(); }
  int64_t elements() const { return elements_; }
  size_t bytes() const { return bytes_; }

  // "" is plain row-major; otherwise the name of a packed layout (kernels/layout.h), and `bytes()`
  // its size.
  const std::string& layout() const { return layout_; }
  // Packed bytes that stand for a tensor of `type`.
  static Tensor Packed(TensorType type, std::string layout, std::vector<std::byte> bytes);
  static Tensor PackedView(TensorType type, std::string layout, std::span<const std::byte> bytes,
                           std::shared_ptr<const void> owner);

  const std::byte* raw() const { return data_; }
  std::byte* mutable_raw() {
    EVOQ_CHECK(writable_, "a view is not writable");
    return const_cast<std::byte*>(data_);
  }
  // The elements as T, which must have the dtype's size.
  template <typename T>
  const T* data() const {
    EVOQ_CHECK(static_cast<int>(sizeof(T) * 8) == DTypeBits(type_.dtype), "{} read as {} bytes",
               type_.ToString(), sizeof(T));
    return reinterpret_cast<const T*>(data_);
  }
  template <typename T>
  T* mutable_data() {
    EVOQ_CHECK(static_cast<int>(sizeof(T) * 8) == DTypeBits(type_.dtype), "{} written as {} bytes",
               type_.ToString(), sizeof(T));
    return reinterpret_cast<T*>(mutable_raw());
  }
  template <typename T>
  std::span<const T> values() const {
    return {data<T>(), static_cast<size_t>(elements_)};
  }

  // The same memory under another type of equal byte size (a reshape, a change of quantization).
  Tensor WithType(TensorType type) const;

  // A fresh copy with its own memory.
  Tensor Clone() const;

 private:
  TensorType type_;
  std::shared_ptr<const void> owner_;
  const std::byte* data_ = nullptr;
  int64_t elements_ = 0;
  size_t bytes_ = 0;
  bool writable_ = false;
  std::string layout_;
  std::shared_ptr<const std::vector<Tensor>> items_;
};

// Element i of a type of fewer than 8 bits: its bits, low bits of the result.
inline uint8_t PackedBits(const std::byte* data, int64_t i, int bits) {
  const int per_byte = 8 / bits;
  return static_cast<uint8_t>((static_cast<int>(data[i / per_byte]) >> (i % per_byte * bits)) &
                              ((1 << bits) - 1));
}
// Writes it into memory that is zero there.
inline void SetPackedBits(std::byte* data, int64_t i, int bits, int value) {
  const int per_byte = 8 / bits;
  data[i / per_byte] |=
      static_cast<std::byte>((value & ((1 << bits) - 1)) << (i % per_byte * bits));
}

// Elements of an integer or bool tensor as int64 (shapes, axes, pads). Errors: kInvalidInput for
// other types.
Result<std::vector<int64_t>> ToInt64s(const Tensor& tensor);

// A float32 copy: floats converted, integers cast, quantized values dequantized as (q - zero) *
// scale in float32. Errors: kUnsupported for a packed layout or a type without real values.
Result<Tensor> ToFloat32(const Tensor& tensor);

// Quantizes a float32 tensor to `type` (whose shape is the tensor's): saturate(round_half_even(x /
// scale) + zero), as ONNX QuantizeLinear does. NaN becomes the zero point.
Result<Tensor> QuantizeTensor(const Tensor& tensor, const TensorType& type);

// Same type and the same bytes (strings and items of containers are compared by value).
bool BitEqual(const Tensor& a, const Tensor& b);

}  // namespace evoq
