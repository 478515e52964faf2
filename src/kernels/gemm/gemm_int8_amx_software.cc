#include "kernels/amx/software.h"
#include "kernels/gemm/gemm_int8_amx.inl.h"

namespace evoq {

const Int8TileDef kInt8TileAmxSoftware = DefOf<AmxSoftware>("amx software");

}  // namespace evoq
