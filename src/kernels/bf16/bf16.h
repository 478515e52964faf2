// bfloat16 rows: the upper half of a float32. Every bf16 kernel but the matrix product is defined
// by the float32 one: widen (exact), compute in float32, narrow (to nearest, ties to even; a NaN
// stays a quiet NaN; denormals are kept). So it gives the same bits on every instruction set.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "kernels/isa_table.h"
#include "kernels/kernel.h"

namespace evoq {

struct Bf16Table {
  void (*widen)(const uint16_t* x, float* y, int64_t n);
  void (*narrow)(const float* x, uint16_t* y, int64_t n);
};
EVOQ_ISA_TABLE(Bf16Table)

// A call with every bfloat16 type written as float32: what the float32 functions that read shapes
// and attributes take. Constants are not converted.
struct WideCall {
  std::vector<TensorType> inputs, outputs;
  KernelCall call;

  explicit WideCall(const KernelCall& narrow);
  WideCall(const WideCall&) = delete;
  WideCall& operator=(const WideCall&) = delete;
};

inline bool PlainBf16(const TensorType& type) {
  return type.dtype == DType::kBfloat16 && !type.quantized();
}

// Nothing when inputs [0, count) that are there and output 0 are bfloat16.
std::optional<Reason> RejectUnlessBf16(const KernelCall& call, size_t count);

}  // namespace evoq
