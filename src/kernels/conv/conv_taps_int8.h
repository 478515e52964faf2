// Convolutions of bytes by tap_sums.h: their int32 sums are added up, and end as those of
// gemm_int8_tile.h.
#pragma once

#include "kernels/conv/tap_sums.h"
#include "kernels/gemm/int8_linear.h"

namespace evoq {

// Whether a kernel of this variant goes that way, as ChooseTapsF32 says.
bool ChooseTapsInt8(const ConvShapeF32& shape, bool transposed, std::string_view variant);

// `spec`: of the whole convolution but its weights and geometry; `weight`: in any layout.
Result<BoundKernel> BindTapsInt8(const ConvShapeF32& shape, bool transposed, Int8LinearSpec spec,
                                 const Tensor& weight, const BindOptions& options);

}  // namespace evoq
