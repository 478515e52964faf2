#define EVOQ_ISA avx2
#include "kernels/elementwise/logic.inl.h"
