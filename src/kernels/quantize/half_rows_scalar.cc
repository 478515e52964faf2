#define EVOQ_ISA scalar
#include "kernels/quantize/half_rows.inl.h"
