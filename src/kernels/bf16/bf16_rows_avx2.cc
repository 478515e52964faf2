#define EVOQ_ISA avx2
#include "kernels/bf16/bf16_rows.inl.h"
