#define EVOQ_ISA scalar
#define EVOQ_TABLE_NAME "scalar"
#include "kernels/gemm/blocks/product.inl.h"
