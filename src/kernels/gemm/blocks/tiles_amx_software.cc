#define EVOQ_ISA amx_software
#include "kernels/amx/software.h"
#include "kernels/gemm/blocks/tiles_amx.inl.h"

namespace evoq {

const BlockTiles kBlockTilesAmxSoftware = amx_software::BlockTilesOf<AmxSoftware>("amx software");

}  // namespace evoq
