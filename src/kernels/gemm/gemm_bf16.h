// Bfloat16 matrix multiplication for MatMul, Conv and ConvTranspose: the blocks, row sources and
// threads of gemm_f32.h over pairs of elements (gemm_bf16_tile.h), and an epilogue that rounds to
// bfloat16 once.
//
//   y[m, n] = round(activation(bias[n] + sum_k A[m, k] B[k, n] + residual[m, n]))      round: none
//   when y is float32
//
// with products and sums in float32. Sums of a K that is cut into segments wait on the task's stack
// as float32.
#pragma once

#include "kernels/bf16/bf16.h"
#include "kernels/gemm/gemm_bf16_tile.h"
#include "kernels/gemm/gemm_f32.h"

namespace evoq {

// As FillRowsF32, all sizes in pairs. `copy` has room for the tile's rows, kCopyStrideBf16 pairs
// each; a source whose rows are no whole pairs in memory (an odd depth) copies them there.
using FillRowsBf16 = void (*)(const void* source, int64_t first, int count,
                              const SegmentF32& segment, TileRowsF32& tile, float* copy);
inline constexpr int64_t kCopyStrideBf16 = kMaxDepthF32 + kPanelF32;

struct GemmPlanBf16 {
  GemmPlanF32 blocks;  // its kernels are not used
  const GemmKernelsBf16* kernels = nullptr;
  void (*narrow)(const float* x, uint16_t* y, int64_t n) = nullptr;
  bool y_bf16 = true, residual_bf16 = true;
  int64_t group_panels = 1;

  int64_t tasks() const { return blocks.tasks(); }
};

// One matrix product. Pointers to columns are to column 0, also where column_begin > 0.
struct GemmJobBf16 {
  const void* source;
  FillRowsBf16 fill;
  const float* b;  // panel 0
  int64_t column_begin, column_end;
  void* y;
  const float* bias;     // may be null
  const void* residual;  // may be null; same offsets as y
};

inline constexpr IsaRow<GemmKernelsBf16> kGemmRowsBf16[] = {
#if defined(__x86_64__)
    {Isa::kAvx512Bf16, &kGemmKernelsBf16Avx512},
    {Isa::kAvx2, &kGemmKernelsBf16Avx2},
#endif
    {Isa::kScalar, &kGemmKernelsBf16Scalar}};
inline const GemmKernelsBf16& KernelsBf16For(Isa isa) { return *RowFor(kGemmRowsBf16, isa).table; }

// `sizes` in pairs, depth rounded up. `copied`: the source copies its rows, so that no segment may
// be longer than the copy.
GemmPlanBf16 PlanGemmBf16(const GemmSizesF32& sizes, bool copied, const KernelCall& call,
                          const Activation& activation, Isa isa, int threads);

// Computes task `task` of plan.tasks() of one job.
void RunGemmTaskBf16(const GemmPlanBf16& plan, const GemmJobBf16& job, int64_t task);

// Input 0 and a constant or computed weight in bfloat16, bias float32, y and the residual bfloat16
// or float32.
std::optional<Rejection> RejectTypesBf16(const KernelCall& call);

inline int64_t BytesOfElement(bool bf16) { return bf16 ? 2 : 4; }
inline void* OffsetBf16(void* p, bool bf16, int64_t elements) {
  return static_cast<char*>(p) + elements * BytesOfElement(bf16);
}
inline const void* OffsetBf16(const void* p, bool bf16, int64_t elements) {
  return static_cast<const char*>(p) + elements * BytesOfElement(bf16);
}

}  // namespace evoq
