#define EVOQ_ISA scalar
#include "kernels/conv/winograd_f32.inl.h"
