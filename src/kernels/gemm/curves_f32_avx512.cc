#define EVOQ_ISA avx512
#include "kernels/gemm/curves_f32.inl.h"
