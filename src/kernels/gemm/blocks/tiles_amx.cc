#define EVOQ_ISA amx
#include "kernels/amx/hardware.h"
#include "kernels/gemm/blocks/tiles_amx.inl.h"

namespace evoq {

const BlockTiles kBlockTilesAmx = amx::BlockTilesOf<AmxHardware>("amx");

}  // namespace evoq
