// What the plain tiles of float32 and bfloat16 products share. Included inside instruction-set
// files only; TileT is GemmTileF32 or GemmTileBf16.
#include "kernels/gemm/gemm_f32_tile.h"

namespace evoq {
namespace {

template <typename TileT>
inline float Activate(const TileT& t, float v) {
  switch (t.activation) {
    case TileActivationF32::kNone: return v;
    case TileActivationF32::kRelu: return 0 > v ? 0 : v;
    case TileActivationF32::kClamp: v = t.low > v ? t.low : v; return t.high < v ? t.high : v;
    case TileActivationF32::kLeaky: return v < 0 ? v * t.low : v;
  }
  return v;
}

}  // namespace
}  // namespace evoq
