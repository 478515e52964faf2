#define EVOQ_ISA avx2_vnni_evex
#define EVOQ_TABLE_NAME "avx2_vnni_evex"
#define EVOQ_DPBUSD _mm256_dpbusd_epi32
#include "kernels/gemm/blocks/product.inl.h"
