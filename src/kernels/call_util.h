// What `reject` and `bind` functions ask about a call.
#pragma once

#include <fmt/format.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "kernels/kernel.h"
#include "tensor/type.h"

namespace evoq {

// Reject("types", "input 0 is {}, expected ...", ...) for use in a function that returns
// optional<Reason>.
template <typename... Args>
Reason Reject(const char* code, fmt::format_string<Args...> format, Args&&... args) {
  return Reason{code, fmt::format(format, std::forward<Args>(args)...)};
}

inline bool PlainFloat(const TensorType& type) {
  return type.dtype == DType::kFloat32 && !type.quantized();
}
// Quantized with one scale in this integer type.
inline bool QuantizedAs(const TensorType& type, DType dtype) {
  return type.dtype == dtype && type.quantized() && type.quant->per_tensor();
}
inline bool QuantizedU8(const TensorType& type) { return QuantizedAs(type, DType::kUint8); }
// uint8 or int8 with one scale.
inline bool QuantizedByte(const TensorType& type) {
  return QuantizedU8(type) || QuantizedAs(type, DType::kInt8);
}
inline float ScaleOf(const TensorType& type) { return type.quant->scales[0]; }
inline int32_t ZeroOf(const TensorType& type) { return type.quant->zero_points[0]; }

// Elements of a static type.
inline int64_t ElementsOf(const TensorType& type) { return type.shape.elements().value(); }

// Nothing when input 0 and output 0 are plain float32.
inline std::optional<Reason> RejectUnlessFloat(const KernelCall& call) {
  if (PlainFloat(call.inputs[0]) && PlainFloat(call.outputs[0])) return std::nullopt;
  return Reject("types", "{} -> {}, expected float32", call.inputs[0].ToString(),
                call.outputs[0].ToString());
}

// The spatial sizes of N,spatial...,C or N,C,spatial...
inline std::vector<int64_t> SpatialSizes(const TensorType& type, bool channels_last) {
  const auto sizes = type.shape.sizes();
  return channels_last ? std::vector<int64_t>(sizes.begin() + 1, sizes.end() - 1)
                       : std::vector<int64_t>(sizes.begin() + 2, sizes.end());
}

// Every shape static and every byte size inside int64, all inputs and outputs named by position.
inline std::optional<Reason> RejectUnknownShapes(const KernelCall& call) {
  for (size_t i = 0; i < call.inputs.size(); ++i) {
    if (call.has_input(i) && !call.inputs[i].bytes()) {
      return Reject("shape", "input {} is {}, expected a static shape", i,
                    call.inputs[i].ToString());
    }
  }
  for (size_t i = 0; i < call.outputs.size(); ++i) {
    if (call.outputs[i].dtype != DType::kUndefined && !call.outputs[i].bytes()) {
      return Reject("shape", "output {} is {}, expected a static shape", i,
                    call.outputs[i].ToString());
    }
  }
  return std::nullopt;
}

}  // namespace evoq
