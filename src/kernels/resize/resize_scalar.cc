#define EVOQ_ISA scalar
#include "kernels/resize/resize.inl.h"
