#include "kernels/gemm/int8_excess.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace evoq {
namespace {

constexpr int kLargestPair = 128;  // 255 * 128 is an int16
constexpr size_t kMostPerGroup =
    2;  // groups of 16 columns: each costs about a tenth of what safe weights save

// Takes from the larger of two weights, and then from the other, until their positive and negative
// parts are safe.
void Bound(int8_t* pair, int8_t* delta) {
  for (const int sign : {1, -1}) {
    const int parts[2] = {std::max(sign * pair[0], 0), std::max(sign * pair[1], 0)};
    int rest = parts[0] + parts[1] - kLargestPair;
    if (rest <= 0) continue;
    const int larger = parts[1] > parts[0] ? 1 : 0;
    for (const int i : {larger, 1 - larger}) {
      const int taken = std::min(rest, parts[i]);
      pair[i] = static_cast<int8_t>(pair[i] - sign * taken);
      delta[i] = static_cast<int8_t>(delta[i] + sign * taken);
      rest -= taken;
    }
  }
}

}  // namespace

BoundedInt8 BoundInt8Weights(const int8_t* packed, const K4N16& sizes, const Int8TileDef& isa) {
  const int64_t groups = sizes.panel_bytes / 64;
  BoundedInt8 bounded;
  const auto bytes = static_cast<size_t>(sizes.panels * sizes.panel_bytes);
  bounded.weights = AlignedBuffer(bytes);
  auto* weights = reinterpret_cast<int8_t*>(bounded.weights.data());
  std::memcpy(weights, packed, bytes);
  const size_t most = kMostPerGroup * static_cast<size_t>(sizes.panels * groups);
  std::vector<Int8Excess> columns[16];
  for (int64_t panel = 0; panel < sizes.panels; ++panel) {
    for (auto& column : columns) column.clear();
    for (int64_t group = 0; group < groups; ++group, weights += 64) {
      for (uint32_t unsafe = isa.unsafe_pairs(weights); unsafe != 0; unsafe &= unsafe - 1) {
        const int pair = std::countr_zero(unsafe);
        auto& column = columns[pair / 2];
        if (column.empty() || column.back().group != group)
          column.push_back({static_cast<int32_t>(group), {}});
        Bound(weights + 2 * pair, column.back().delta + pair % 2 * 2);
      }
    }
    for (const auto& column : columns) {
      bounded.begin.push_back(static_cast<uint32_t>(bounded.excess.size()));
      bounded.excess.insert(bounded.excess.end(), column.begin(), column.end());
    }
    bounded.begin.push_back(static_cast<uint32_t>(bounded.excess.size()));
    if (bounded.excess.size() > most) return {};
  }
  bounded.excess.shrink_to_fit();
  return bounded;
}

}  // namespace evoq
