#define EVOQ_ISA scalar
#include "kernels/gemm/pair_int8.inl.h"
