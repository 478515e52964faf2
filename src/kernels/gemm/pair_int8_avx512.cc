#define EVOQ_ISA avx512
#include "kernels/gemm/pair_int8.inl.h"
