#define EVOQ_ISA avx512
#include "kernels/conv/winograd_f32.inl.h"
