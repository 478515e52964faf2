#define EVOQ_ISA scalar
#include "kernels/math/unary_loops.inl.h"
