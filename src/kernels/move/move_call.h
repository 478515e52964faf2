// What the moving rows share.
#pragma once

#include <cstring>

#include "kernels/call_util.h"
#include "kernels/parallel.h"

namespace evoq {

// Bytes of an element, or 0 for the packed nibble types.
inline int64_t ElementBytes(DType dtype) {
  const int bits = DTypeBits(dtype);
  return bits % 8 == 0 ? bits / 8 : 0;
}

// Input i and output 0 have whole-byte elements of one type with the same parameters: moving keeps
// the integers.
inline std::optional<Reason> RejectUnlessSame(const KernelCall& call, size_t i) {
  const TensorType &x = call.inputs[i], &y = call.outputs[0];
  TensorType as_y = x;
  as_y.shape = y.shape;
  if (ElementBytes(x.dtype) == 0 || !(as_y == y)) {
    return Reject("types",
                  "input {} is {}, output {}: moving elements needs the same type of whole bytes",
                  i, x.ToString(), y.ToString());
  }
  if (x.quantized() && !x.quant->per_tensor())
    return Reject("types", "input {} has scales along an axis", i);
  return std::nullopt;
}

// Nanoseconds that copying this many bytes takes, for Grain.
inline double CopyNs(int64_t bytes) { return 2.0 + static_cast<double>(bytes) * 0.05; }

// Short runs, which a call of memcpy would dominate; the two may not overlap.
inline void CopyRun(std::byte* to, const std::byte* from, int64_t bytes) {
  if (bytes > 512) {
    std::memcpy(to, from, static_cast<size_t>(bytes));
  } else if (bytes >= 16) {
    for (int64_t i = 0; i + 16 < bytes; i += 16) __builtin_memcpy(to + i, from + i, 16);
    __builtin_memcpy(to + bytes - 16, from + bytes - 16, 16);
  } else if (bytes >= 8) {
    __builtin_memcpy(to, from, 8);
    __builtin_memcpy(to + bytes - 8, from + bytes - 8, 8);
  } else if (bytes >= 4) {
    __builtin_memcpy(to, from, 4);
    __builtin_memcpy(to + bytes - 4, from + bytes - 4, 4);
  } else {
    for (int64_t i = 0; i < bytes; ++i) to[i] = from[i];
  }
}

// The integers of a constant input, or nothing.
inline std::optional<std::vector<int64_t>> ConstantInts(const KernelCall& call, size_t i) {
  if (call.constant(i) == nullptr) return std::nullopt;
  auto values = ToInt64s(*call.constant(i));
  if (!values) return std::nullopt;
  return *values;
}

// What DepthToSpace and SpaceToDepth do, of a call that their kernels take: x with its blocks as
// axes of their own, permuted.
struct Rearrangement {
  std::vector<int64_t> split, perm;
};
Rearrangement RearrangementOf(const KernelCall& call);

// y = x of `sizes` with its axes permuted: axis i of y is axis perm[i] of x.
BoundKernel BindPermutation(const std::vector<int64_t>& sizes, const std::vector<int64_t>& perm,
                            int64_t element, const BindOptions& options);

}  // namespace evoq
