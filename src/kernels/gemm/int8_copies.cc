#include "kernels/gemm/int8_copies.h"

#include <algorithm>

namespace evoq {

Int8Copies::Int8Copies(const Int8TileDef& isa, const Int8Rows& rows, int64_t groups, int64_t panels)
    : step_(isa.row_step), padded_(isa.copy_rows != nullptr) {
  if (!padded_) return;
  constexpr int64_t kCrowdedBytes = 2048, kManyPanels = 16;
  const int64_t bytes = rows.taps() * rows.tap_bytes();
  const bool crowded = bytes % kCrowdedBytes == 0 && panels >= kManyPanels;
  ends_only_ = rows.dense() && groups == 1 && !crowded;
  if (ends_only_ && rows.count() % step_ == 0 && bytes % 64 == 0) return;
  stride_ = RoundUp(bytes, 64) | 64;
}

const uint8_t* const* Int8Copies::Copy(const Int8TileDef& isa, const Int8Rows& rows, int64_t group,
                                       int64_t count, int64_t tile_rows, int64_t block_rows,
                                       const uint8_t** pointers, std::byte* room) const {
  if (stride_ == 0) return pointers;
  Int8Tile tile = {};
  tile.taps = rows.taps();
  tile.tap_offsets = rows.tap_offsets();
  tile.groups_of_4 = rows.tap_bytes() / 4;
  tile.row_stride = rows.tap_offsets() != nullptr ? 0 : tile_rows;
  tile.x_offset = group * rows.group_bytes();
  auto* const to = reinterpret_cast<uint8_t*>(room);
  const int64_t first = ends_only_ ? (count - 1) / step_ * step_ : 0;
  for (int64_t row = first; row < count; row += tile.row_count) {
    tile.row_count = static_cast<int32_t>(std::min(tile_rows, count - row));
    tile.rows = pointers + row * rows.pointers_per_row();
    isa.copy_rows(tile, to + (row - first) * stride_, stride_);
  }
  // Behind the copies: what copy_rows may write behind the last one is overwritten.
  const uint8_t** const copied =
      ends_only_ ? pointers
                 : reinterpret_cast<const uint8_t**>(room + this->rows(block_rows) * stride_);
  for (int64_t row = first; row < RoundUp(count, step_); ++row)
    copied[row] = to + (row - first) * stride_;
  return copied;
}

}  // namespace evoq
