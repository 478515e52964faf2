#include "kernels/amx/hardware.h"
#include "kernels/gemm/gemm_int8_amx.inl.h"

namespace evoq {

const Int8TileDef kInt8TileAmx = DefOf<AmxHardware>("amx");

}  // namespace evoq
