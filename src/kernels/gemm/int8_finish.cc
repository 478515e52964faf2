#include "kernels/gemm/int8_finish.h"

#include <algorithm>

#include "kernels/math/unary_loops.h"
#include "kernels/quantize/quantize.h"

namespace evoq {

void Int8Finish::Rows(uint8_t* y, int64_t rows, int64_t columns, int64_t stride,
                      float* range_out) const {
  const QuantizeTable& bytes = QuantizeTableFor(isa);
  if (stride == columns * (table.empty() ? 4 : 1)) {  // the rows touch: one long one
    columns *= rows;
    rows = 1;
  }
  for (int64_t row = 0; row < rows; ++row, y += stride) {
    if (!table.empty()) {
      bytes.lookup(table.data(), y, y, columns);
      continue;
    }
    auto* reals = reinterpret_cast<float*>(y);
    if (curve) UnaryTableFor(isa).apply(*curve, reals, reals, columns);
    if (!range) continue;
    float low, high;
    bytes.range(reals, columns, &low, &high);
    range_out[0] = std::min(range_out[0], low);
    range_out[16] = std::max(range_out[16], high);
  }
}

void JoinRanges(const std::byte* pieces, size_t bytes, int64_t count, float* range) {
  range[0] = range[1] = 0;
  for (int64_t i = 0; i < count; ++i) {
    const auto* found =
        reinterpret_cast<const float*>(pieces + static_cast<size_t>(i + 1) * bytes - kRangeBytes);
    range[0] = std::min(range[0], *std::min_element(found, found + 16));
    range[1] = std::max(range[1], *std::max_element(found + 16, found + 32));
  }
}

}  // namespace evoq
