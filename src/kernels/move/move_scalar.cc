#define EVOQ_ISA scalar
#include "kernels/move/move.inl.h"
