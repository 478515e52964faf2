#define EVOQ_ISA avx512
#include "kernels/math/unary_loops.inl.h"
