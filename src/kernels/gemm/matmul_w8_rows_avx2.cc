#define EVOQ_ISA avx2
#include "kernels/gemm/matmul_w8_rows.inl.h"
