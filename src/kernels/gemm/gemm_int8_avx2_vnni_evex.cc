// AVX-VNNI tiles in the encoding of AVX-512.
#define EVOQ_DPBUSD _mm256_dpbusd_epi32
#define EVOQ_TABLE kInt8TileAvx2VnniEvex
#define EVOQ_SPARSE_TABLE kInt8SparseAvx2VnniEvex
#define EVOQ_TABLE_NAME "avx2_vnni_evex"
#include "kernels/gemm/gemm_int8_avx2_vnni.inl.h"
