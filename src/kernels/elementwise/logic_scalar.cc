#define EVOQ_ISA scalar
#include "kernels/elementwise/logic.inl.h"
