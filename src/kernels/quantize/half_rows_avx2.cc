#define EVOQ_ISA avx2
#include "kernels/quantize/half_rows.inl.h"
