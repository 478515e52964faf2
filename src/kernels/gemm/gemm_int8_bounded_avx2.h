// The tiles of gemm_int8_bounded_avx2.cc, which stand in the row of gemm_int8_avx2.cc.
#pragma once

#include "kernels/gemm/gemm_int8_tile.h"

namespace evoq {

void RunBoundedTileAvx2(const Int8Tile& tile);
uint32_t UnsafePairsAvx2(const int8_t* w);

}  // namespace evoq
