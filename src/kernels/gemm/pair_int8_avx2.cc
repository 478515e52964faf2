#define EVOQ_ISA avx2
#include "kernels/gemm/pair_int8.inl.h"
