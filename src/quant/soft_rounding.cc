#include "quant/soft_rounding.h"

namespace evoq {

NumbersAround Around(const WeightGrid& grid, std::span<const float> w,
                     const RoundedMatrix& rounded) {
  const LayerMatrices& m = grid.matrices();
  NumbersAround around{std::vector<float>(w.size()), std::vector<float>(w.size())};
  std::vector<float> v(static_cast<size_t>(m.columns));
  for (int64_t k = 0; k < m.depth; ++k) {
    const float* s = &rounded.scales[k / grid.block() * m.columns];
    const float* z = &rounded.zeros[k / grid.block() * m.columns];
    for (const auto& [to, more] : {std::pair(&around.low, 0), std::pair(&around.high, 1)}) {
      for (int64_t n = 0; n < m.columns; ++n)
        v[n] = (std::floor(w[k * m.columns + n] / s[n]) + static_cast<float>(more)) * s[n];
      grid.Nearest(v.data(), s, z, m.columns, &(*to)[k * m.columns]);
    }
  }
  return around;
}

}  // namespace evoq
