#include "kernels/amx/hardware.h"
#include "kernels/gemm/gemm_bf16_amx.inl.h"

namespace evoq {

const GemmKernels kGemmKernelsBf16Amx = KernelsOf<AmxHardware>("amx", &kGemmKernelsBf16Avx512);

}  // namespace evoq
