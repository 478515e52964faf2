#define EVOQ_ISA scalar
#include "kernels/pool/pool.inl.h"
