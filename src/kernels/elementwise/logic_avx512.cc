#define EVOQ_ISA avx512
#include "kernels/elementwise/logic.inl.h"
