#include "kernels/amx/software.h"
#include "kernels/gemm/gemm_bf16_amx.inl.h"

namespace evoq {

// AVX-512 without products of bfloat16 takes AVX2's, here too.
const GemmKernels kGemmKernelsBf16AmxSoftware =
    KernelsOf<AmxSoftware>("amx software", &kGemmKernelsBf16Avx2);

}  // namespace evoq
