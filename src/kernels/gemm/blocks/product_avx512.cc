#define EVOQ_ISA avx512
#define EVOQ_TABLE_NAME "avx512"
#include "kernels/gemm/blocks/product.inl.h"
