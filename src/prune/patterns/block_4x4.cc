#include "prune/pattern.h"

namespace evoq {

extern const PrunePattern kPruneBlock4x4;
const PrunePattern kPruneBlock4x4 = {
    .name = "block-4x4",
    .doc = "blocks of 4 output channels x 4 input channels",
    .columns = 4,
    .depth = 4,
    .kernels = "the int8 products of Conv, Gemm and MatMul",
};

}  // namespace evoq
