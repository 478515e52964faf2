// Sparse AVX-VNNI tiles in the encoding of AVX-512.
#define EVOQ_DPBUSD _mm256_dpbusd_epi32
#define EVOQ_TABLE kInt8SparseAvx2VnniEvex
#define EVOQ_TABLE_NAME "avx2_vnni_evex sparse"
#include "kernels/gemm/gemm_int8_sparse_avx2_vnni.inl.h"
