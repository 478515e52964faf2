#define EVOQ_ISA scalar
#include "kernels/elementwise/binary.inl.h"
