// Sparse AVX-VNNI tiles as processors without AVX-512 run them.
#define EVOQ_DPBUSD _mm256_dpbusd_avx_epi32
#define EVOQ_TABLE kInt8SparseAvx2Vnni
#define EVOQ_TABLE_NAME "avx2_vnni sparse"
#include "kernels/gemm/gemm_int8_sparse_avx2_vnni.inl.h"
