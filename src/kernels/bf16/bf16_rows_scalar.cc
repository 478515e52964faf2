#define EVOQ_ISA scalar
#include "kernels/bf16/bf16_rows.inl.h"
