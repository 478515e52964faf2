#define EVOQ_ISA avx2
#include "kernels/norm/norm.inl.h"
