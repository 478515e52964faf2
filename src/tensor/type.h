// What a value is: element type, shape and, when it is quantized, what its integers stand for.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tensor/dtype.h"
#include "tensor/shape.h"

namespace evoq {

// Integer q stands for (q - zero_point) * scale.
struct QuantParams {
  std::vector<float> scales;         // one, or one per index of `axis`, or one per block
  std::vector<int32_t> zero_points;  // as many as scales
  int axis = -1;                     // -1: one scale for the whole tensor
  int64_t block = 0;                 // 0: not blocked; else indices along `axis` that share a scale

  // Of a packed constant whose own bytes hold its scales and zero points, where its layout says
  // (kernels/layout.h): both lists are empty, and this is what the bytes are.
  struct Inside {
    bool half_scales = false;  // float16, else float32
    bool zeros = false;        // zero points that differ; without them `zero` is that of all
    int32_t zero = 0;
    bool operator==(const Inside&) const = default;
  };
  std::optional<Inside> inside = {};

  static QuantParams PerTensor(float scale, int32_t zero_point) {
    return {{scale}, {zero_point}, -1, 0};
  }
  bool per_tensor() const { return axis < 0; }
  bool operator==(const QuantParams&) const = default;
};

// A value is a tensor, a list of tensors, or an option of either.
enum class ValueKind : int8_t { kTensor = 0, kSequence = 1, kOptional = 2, kOptionalSequence = 3 };

// dtype + shape + optional QuantParams. A type with `quant` means real numbers; its dtype says how
// they are stored.
struct TensorType {
  DType dtype = DType::kUndefined;
  Shape shape;
  std::shared_ptr<const QuantParams>
      quant;  // shared because it is copied with every type; compared by value
  ValueKind kind =
      ValueKind::kTensor;  // of a sequence or optional, dtype and shape are the elements'

  TensorType() = default;
  TensorType(DType d, Shape s) : dtype(d), shape(std::move(s)) {}
  TensorType(DType d, Shape s, QuantParams q)
      : dtype(d), shape(std::move(s)), quant(std::make_shared<const QuantParams>(std::move(q))) {}

  static TensorType In(ValueKind kind, DType dtype, Shape shape) {
    TensorType type(dtype, std::move(shape));
    type.kind = kind;
    return type;
  }

  bool quantized() const { return quant != nullptr; }
  bool is_tensor() const { return kind == ValueKind::kTensor; }
  // The type that operators reason about: float32 of the same shape for a quantized type, itself
  // otherwise.
  TensorType Dequantized() const {
    return quantized() ? TensorType(DType::kFloat32, shape) : *this;
  }

  // Bytes of a static type (nibbles rounded up); nothing when not static, too large for int64, or a
  // container.
  std::optional<int64_t> bytes() const;

  // "float32[N, 3, 224, 224]", "uint8[1, 8](scale 0.02, zero 128)", "int8[64, 3, 3, 3](64 scales on
  // axis 0)", "sequence(float32[?, 3])".
  std::string ToString() const;

  bool operator==(const TensorType& other) const;
};

// How many scales a quantized type has; of static shape where they lie inside the constant.
int64_t ScaleCount(const TensorType& type);

// Errors: kInvalidInput unless sizes agree with the shape, every scale is finite and > 0, zero
// points fit the dtype.
Status ValidateQuant(const TensorType& type);

}  // namespace evoq
