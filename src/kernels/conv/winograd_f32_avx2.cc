#define EVOQ_ISA avx2
#include "kernels/conv/winograd_f32.inl.h"
