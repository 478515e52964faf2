// Rows of an integer product as tiles with Int8TileDef::copy_rows want them (Int8Tile::padded):
// those that do not lie so are copied for a block of rows at a time, before all panels meet them.
#pragma once

#include "base/math.h"
#include "kernels/gemm/int8_rows.h"

namespace evoq {

class Int8Copies {
 public:
  Int8Copies() = default;  // of tiles that take rows wherever they lie
  // Rows of several taps, of several groups, or so far apart that they fall on the same lines of
  // the caches, which is worth it for many panels, are copied as a whole; of others the last ones
  // of a block, which do not fill a register.
  Int8Copies(const Int8TileDef& isa, const Int8Rows& rows, int64_t groups, int64_t panels);

  bool padded() const { return padded_; }                  // Int8Tile::padded
  bool all() const { return stride_ > 0 && !ends_only_; }  // all taps are one then
  int64_t stride() const { return stride_; }               // of copied rows; 0: there are none
  // Of a block's copies.
  int64_t bytes(int64_t block_rows) const { return rows(block_rows) * (stride_ + 8); }

  // Copies what is to be copied of a block of `count` rows, whose `pointers` are those of Int8Rows
  // with tiles of tile_rows, into bytes(block_rows) at `room`: gives the pointers of all rows,
  // which may be the same ones.
  const uint8_t* const* Copy(const Int8TileDef& isa, const Int8Rows& rows, int64_t group,
                             int64_t count, int64_t tile_rows, int64_t block_rows,
                             const uint8_t** pointers, std::byte* room) const;

 private:
  // Copied rows of a block.
  int64_t rows(int64_t block_rows) const {
    return stride_ == 0 ? 0 : ends_only_ ? step_ : RoundUp(block_rows, step_);
  }

  int64_t stride_ = 0, step_ = 1;
  bool padded_ = false, ends_only_ = false;
};

}  // namespace evoq
