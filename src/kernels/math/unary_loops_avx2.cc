#define EVOQ_ISA avx2
#include "kernels/math/unary_loops.inl.h"
