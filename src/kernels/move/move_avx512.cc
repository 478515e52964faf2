#define EVOQ_ISA avx512
#include "kernels/move/move.inl.h"
