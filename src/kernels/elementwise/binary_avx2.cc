#define EVOQ_ISA avx2
#include "kernels/elementwise/binary.inl.h"
