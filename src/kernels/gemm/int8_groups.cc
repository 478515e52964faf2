#include "kernels/gemm/int8_groups.h"

#include <algorithm>

#include "kernels/gemm/int8_block.h"
#include "kernels/gemm/layout_k4n16.h"

namespace evoq {
namespace {

// Plain weights [M, C/group, k...] as those of group / join groups.
Tensor Joined(const Int8LinearSpec& spec, const Tensor& plain, int64_t join) {
  const Int8Geometry& g = spec.geometry;
  const int64_t columns = g.group_columns(), channels = g.group_channels(), taps = g.taps();
  std::vector<int64_t> sizes = plain.sizes();
  sizes[1] = channels * join;
  Tensor joined = Tensor::Allocate(TensorType(plain.dtype(), Shape(sizes)));
  const auto* from = reinterpret_cast<const uint8_t*>(plain.raw());
  auto* to = reinterpret_cast<uint8_t*>(joined.mutable_raw());
  for (int64_t m = 0; m < g.out_channels; ++m, from += channels * taps) {
    const auto& zeros = spec.w_zero;
    const int32_t zero = zeros.empty()       ? 0
                         : zeros.size() == 1 ? zeros[0]
                                             : zeros[static_cast<size_t>(m)];
    const int64_t own = m / columns % join;
    to = std::fill_n(to, own * channels * taps, static_cast<uint8_t>(zero));
    to = std::copy_n(from, channels * taps, to);
    to = std::fill_n(to, (join - 1 - own) * channels * taps, static_cast<uint8_t>(zero));
  }
  return joined;
}

}  // namespace

int64_t GroupsToJoin(const Int8Geometry& geometry, bool lanes) {
  constexpr int64_t kColumns = 16, kWord = 4;
  const int64_t columns = geometry.group_columns(), channels = geometry.group_channels();
  if (columns == 1 && channels == 1) return 1;  // depthwise
  int64_t join = 1;
  for (int64_t n = 2; n <= std::min(geometry.group, kColumns); ++n) {
    if (geometry.group % n != 0) continue;
    const bool whole = join * channels % kWord == 0;
    if (lanes && whole) break;
    // Wider is better, but for rows that would have to be copied.
    const bool fits = n * columns <= kColumns && (!whole || n * channels % kWord == 0);
    if (fits || join * channels < kWord) join = n;
  }
  return join;
}

Status JoinNarrowGroups(Int8LinearSpec& spec, const BindOptions& options) {
  const Int8Use use = {.rows = spec.geometry.rows(), .depth = 64, .lanes = true};
  const bool lanes = TilesFor(Int8TileFor(options.isa), use).tiles->takes_lanes &&
                     spec.weights.dtype() == DType::kInt8 &&
                     std::ranges::all_of(spec.w_zero, [](int32_t zero) { return zero == 0; });
  const int64_t join = GroupsToJoin(spec.geometry, lanes);
  if (join == 1) return {};
  EVOQ_ASSIGN(const Tensor plain, ToPlain(spec.weights));
  EVOQ_ASSIGN(spec.weights, kLayoutK4N16Conv.pack(Joined(spec, plain, join)));
  spec.geometry.group /= join;
  return {};
}

}  // namespace evoq
