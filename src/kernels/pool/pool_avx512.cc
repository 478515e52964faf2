#define EVOQ_ISA avx512
#include "kernels/pool/pool.inl.h"
