#define EVOQ_ISA avx2
#include "kernels/move/move.inl.h"
