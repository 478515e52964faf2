#include "kernels/amx/software.h"
#include "kernels/gemm/gemm_bf16_amx.inl.h"

namespace evoq {

// With the small kernels of AVX-512 without products of bfloat16.
const GemmKernels kGemmKernelsBf16AmxSoftware =
    KernelsOf<AmxSoftware>("amx software", &kGemmKernelsBf16WideAvx512);

}  // namespace evoq
