#define EVOQ_DPBUSD _mm256_dpbusd_epi32
#define EVOQ_LOOPS Avx2VnniEvexPeakLoops
#include "profile/limits_avx2_vnni.inl.h"
