#define EVOQ_ISA scalar
#include "kernels/norm/norm.inl.h"
