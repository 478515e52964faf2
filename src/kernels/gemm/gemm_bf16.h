// What products of bfloat16 add to gemm_float.h, whose units are pairs here.
#pragma once

#include "kernels/bf16/bf16.h"
#include "kernels/gemm/gemm_float.h"

namespace evoq {

// With float32 for y and the residual, as GemmTypesF32.
GemmTypes GemmTypesBf16(Isa isa);
// Of a call with bfloat16 or float32 for y and the residual. `copied`: as GemmTypes.
GemmTypes GemmTypesBf16(const KernelCall& call, bool copied, Isa isa);

// Input 0 and a constant or computed weight in bfloat16, bias float32, y and the residual bfloat16
// or float32.
std::optional<Reason> RejectTypesBf16(const KernelCall& call);

inline int64_t BytesOfElement(bool bf16) { return bf16 ? 2 : 4; }
inline void* OffsetBf16(void* p, bool bf16, int64_t elements) {
  return static_cast<char*>(p) + elements * BytesOfElement(bf16);
}
inline const void* OffsetBf16(const void* p, bool bf16, int64_t elements) {
  return static_cast<const char*>(p) + elements * BytesOfElement(bf16);
}

}  // namespace evoq
