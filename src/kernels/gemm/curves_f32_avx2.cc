#define EVOQ_ISA avx2
#include "kernels/gemm/curves_f32.inl.h"
