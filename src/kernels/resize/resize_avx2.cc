#define EVOQ_ISA avx2
#include "kernels/resize/resize.inl.h"
