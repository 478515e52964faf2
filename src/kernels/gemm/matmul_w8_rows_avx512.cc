#define EVOQ_ISA avx512
#include "kernels/gemm/matmul_w8_rows.inl.h"
