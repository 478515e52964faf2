// The loop of operators with an integer definition on two quantized values (kernels/requant.h): Add
// and Mul.
#pragma once

#include "kernels/requant.h"
#include "ops/op.h"
#include "reference/broadcast.h"

namespace evoq {

// Reads element i of an 8- or 16-bit integer tensor.
struct IntegerReader {
  explicit IntegerReader(const Tensor& t) : data(t.raw()), dtype(t.dtype()) {}
  int32_t operator[](int64_t i) const {
    switch (dtype) {
      case DType::kUint8: return reinterpret_cast<const uint8_t*>(data)[i];
      case DType::kInt8: return reinterpret_cast<const int8_t*>(data)[i];
      case DType::kUint16: return reinterpret_cast<const uint16_t*>(data)[i];
      default: return reinterpret_cast<const int16_t*>(data)[i];
    }
  }
  const std::byte* data;
  DType dtype;
};

inline bool HasIntegerDefinition(const TensorType& type) {
  const int bits = DTypeBits(type.dtype);
  return type.quantized() && type.quant->per_tensor() && (bits == 8 || bits == 16);
}

// Scale and zero point of a type with HasIntegerDefinition; any other's mean nothing.
struct IntegerScale {
  explicit IntegerScale(const TensorType& type)
      : scale(type.quantized() ? type.quant->scales[0] : 1.0f),
        zero(type.quantized() ? type.quant->zero_points[0] : 0),
        low(static_cast<int32_t>(IntegerMin(type.dtype))),
        high(static_cast<int32_t>(IntegerMax(type.dtype))) {}
  float scale;
  int32_t zero, low, high;
};

// Errors: kUnsupported for types that are not 8- or 16-bit with one scale each. What follows
// computes with their zero points.
inline Status CheckIntegerPair(const EvalArgs& args) {
  const TensorType &a = args.inputs[0].type(), &b = args.inputs[1].type(),
                   &out = args.output_types[0];
  if (HasIntegerDefinition(a) && HasIntegerDefinition(b) && HasIntegerDefinition(out)) return {};
  return Unsupported("{} and {} to {}", a.ToString(), b.ToString(), out.ToString());
}

// y = f(a, b) of stored integers, with broadcasting. Errors: of CheckIntegerPair.
template <typename F>
EvalResult EvaluateIntegerPair(const EvalArgs& args, const F& f) {
  const Tensor &a = args.inputs[0], &b = args.inputs[1];
  const TensorType& out = args.output_types[0];
  EVOQ_TRY(CheckIntegerPair(args));
  EVOQ_ASSIGN(Shape shape, BroadcastShapes(a.shape(), b.shape()));
  EVOQ_ASSIGN(Tensor y, AllocateOutput(TensorType(out.dtype, std::move(shape), *out.quant)));
  std::byte* to = y.mutable_raw();
  const bool wide = DTypeBits(out.dtype) == 16;
  const IntegerReader read_a(a), read_b(b);
  ForEachBroadcastRow(a.sizes(), b.sizes(), y.sizes(), [&](const BroadcastRow& run) {
    for (int64_t i = 0; i < run.count; ++i) {
      const int32_t q = f(read_a[run.a + i * run.a_step], read_b[run.b + i * run.b_step]);
      if (wide) {
        reinterpret_cast<uint16_t*>(to)[run.to + i] = static_cast<uint16_t>(q);
      } else {
        reinterpret_cast<uint8_t*>(to)[run.to + i] = static_cast<uint8_t>(q);
      }
    }
  });
  return One(std::move(y));
}

}  // namespace evoq
