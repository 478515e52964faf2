#define EVOQ_ISA avx512
#include "kernels/bf16/bf16_rows.inl.h"
