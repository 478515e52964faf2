#define EVOQ_ISA avx2
#define EVOQ_TABLE_NAME "avx2"
#include "kernels/gemm/blocks/product.inl.h"
