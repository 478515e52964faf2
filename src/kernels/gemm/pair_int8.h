// What integer MatMul of two computed operands does before the tiles of gemm_int8_tile.h.
#pragma once

#include <cstdint>

#include "kernels/isa_table.h"

namespace evoq {

struct PairTable {
  // One panel of b [k, n], whose rows are `stride` bytes apart, as layout k4n16: columns [column,
  // column + 16) of which those below n are read; to[q][c][i] = b[4 q + i, column + c] xor flip,
  // zeros where there is none.
  void (*pack)(const uint8_t* b, int64_t stride, int64_t k, int64_t n, int64_t column, uint8_t flip,
               int8_t* to);
};
EVOQ_ISA_TABLE(PairTable)

}  // namespace evoq
