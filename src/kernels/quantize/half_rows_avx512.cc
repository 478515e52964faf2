#define EVOQ_ISA avx512
#include "kernels/quantize/half_rows.inl.h"
