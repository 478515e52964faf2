// The sparse tiles that stand in the rows of dense ones (Int8TileDef::sparse).
#pragma once

#include "kernels/gemm/gemm_int8_tile.h"

namespace evoq {

extern const Int8TileDef kInt8SparseScalar;
#if defined(__x86_64__)
extern const Int8TileDef kInt8SparseAvx2, kInt8SparseAvx2Vnni, kInt8SparseAvx2VnniEvex,
    kInt8SparseAvx512;
#endif

}  // namespace evoq
