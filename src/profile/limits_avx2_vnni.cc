#define EVOQ_DPBUSD _mm256_dpbusd_avx_epi32
#define EVOQ_LOOPS Avx2VnniPeakLoops
#include "profile/limits_avx2_vnni.inl.h"
