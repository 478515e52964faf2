#define EVOQ_ISA avx512
#include "kernels/elementwise/binary.inl.h"
