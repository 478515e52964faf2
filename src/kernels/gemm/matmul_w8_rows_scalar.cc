#define EVOQ_ISA scalar
#include "kernels/gemm/matmul_w8_rows.inl.h"
