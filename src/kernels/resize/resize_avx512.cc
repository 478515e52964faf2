#define EVOQ_ISA avx512
#include "kernels/resize/resize.inl.h"
