#include "prune/pattern.h"

namespace evoq {

extern const PrunePattern kPruneBlock1x16;
const PrunePattern kPruneBlock1x16 = {
    .name = "block-1x16",
    .doc = "blocks of 1 output channel x 16 input channels",
    .columns = 1,
    .depth = 16,
    .kernels = "the int8 products of Conv, Gemm and MatMul",
};

}  // namespace evoq
