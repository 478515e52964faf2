#define EVOQ_ISA avx512
#include "kernels/norm/norm.inl.h"
