#define EVOQ_ISA avx2
#include "kernels/pool/pool.inl.h"
