// A product of rows that are rounded by blocks (block_data.h) with constant weights, bound to a
// number of rows and of threads: what matmul_blocks and the recurrent kernels run.
#pragma once

#include <algorithm>

#include "base/math.h"
#include "base/result.h"
#include "kernels/gemm/blocks/tiles.h"
#include "kernels/gemm/blocks/weights.h"
#include "kernels/gemm/share_out.h"
#include "kernels/kernel.h"

namespace evoq {

// Which rows of the data a product takes: row i is rows[i] / share; null: all in order.
struct TakenRows {
  const int32_t* rows = nullptr;
  int64_t share = 1;

  int64_t operator[](int64_t i) const { return rows == nullptr ? i : rows[i] / share; }
};

class BoundProduct {
 public:
  BoundProduct() = default;
  // Of a matrix that passed RejectBlocks. Errors: those of BindBlocks; kTooLarge.
  static Result<BoundProduct> Bind(const Tensor& weights, int64_t data_block, int64_t rows,
                                   const BindOptions& options);
  // The same weights with other rows. False where its sizes are too large to be computed; of fewer
  // rows it is not, nor is more scratch needed.
  bool SetRows(int64_t rows, const CpuModel& cpu, int threads);

  int64_t depth() const { return weights_.stream.cut.depth; }
  int64_t columns() const { return weights_.stream.columns; }
  int64_t scratch_bytes() const { return scratch_bytes_; }  // a multiple of 64
  KernelPlan Describe() const;

  // y = bias + a w + residual, a [rows, depth] and y [rows, columns]; `bias` [columns] and
  // `residual` [rows, columns] may be null. `finish(column, count, first, last)` follows for each
  // piece of y, rows [first, last) of `count` columns from `column` on, on the thread that computed
  // it.
  template <typename Finish>
  void Run(const float* a, const float* bias, const float* residual, float* y, std::byte* scratch,
           ThreadPool& pool, const Finish& finish, const TakenRows& taken = {}) const {
    const BlockRows operands = Round(a, taken, bias, residual, y, scratch, pool);
    auto* unpacked =
        reinterpret_cast<uint8_t*>(scratch) + q_bytes() + scale_bytes() + correction_bytes();
    pool.ParallelFor(groups_ * row_parts_, grain_, [&](int64_t begin, int64_t end, int thread) {
      for (int64_t task = begin; task < end; ++task)
        RunTask(operands, task / row_parts_, task % row_parts_,
                unpacked + thread * unpacked_bytes(), finish);
    });
  }
  void Run(const float* a, const float* bias, float* y, std::byte* scratch,
           ThreadPool& pool) const {
    Run(a, bias, nullptr, y, scratch, pool, [](int64_t, int64_t, int64_t, int64_t) {});
  }

 private:
  // Sets tile_rows_, unpacks_, steps_ and tiled_. tall: CpuModel::one_set_of_ports.
  void CutRows(bool tall);
  // Whether tiles_ take these weights, of any number of rows.
  bool TakesTiles() const;
  // Sets groups_: of as many units as the L2 cache keeps unpacked.
  void GroupUnits(const CpuModel& cpu, int threads);
  // Of tiles nearly equal in height; parts are of whole tiles.
  int64_t tiles() const { return CeilDiv(rows_, tile_rows_); }
  // But for those of tiles_, which are as high as they can be.
  int64_t RowOfTile(int64_t i) const {
    if (tiled_) return std::min(i * tile_rows_, rows_);
    return rows_ == 0 ? 0 : PartBegin(rows_, tiles(), i);
  }
  int64_t TileOfRow(int64_t row) const {
    return tiled_ ? row / tile_rows_ : PartOf(rows_, tiles(), row);
  }
  int32_t factor() const;
  // What is multiplied: the stream, or what it is unpacked to.
  const BlockStream& stream() const { return steps_ ? *weights_.unpacked : weights_.stream; }
  // An odd number of cache lines: rows of q a multiple of 4 KiB apart would evict one another from
  // the L1 cache.
  int64_t stride() const { return RoundUp(depth(), 64) | 64; }
  int64_t units() const { return CeilDiv(columns(), int64_t{kUnitColumns}); }
  // Groups of units are multiplied together, of nearly equal size: rows meet all of a group in
  // turn, so that what is written of a row of y lies together.
  int64_t FirstUnit(int64_t group) const { return PartBegin(units(), groups_, group); }
  const uint8_t* GroupBytes(int64_t group) const {
    return weights_.bytes() + FirstUnit(group) * weights_.unit_bytes;
  }
  int64_t most_units() const { return groups_ == 0 ? 0 : CeilDiv(units(), groups_); }
  int64_t unpacked_unit_bytes() const {
    return tiled_ ? BlockTileBytes(stream().cut) : weights_.groups * weights_.unit_bytes;
  }
  // Of a thread, for an unpacked group.
  int64_t unpacked_bytes() const { return unpacks_ ? most_units() * unpacked_unit_bytes() : 0; }

  // Scratch: q, its scales, the corrections, the groups of the threads.
  int64_t q_bytes() const {
    return (tiled_ ? RoundUp(rows_, int64_t{kBlockTileRows}) : rows_) * stride();
  }
  int64_t scale_bytes() const { return RoundUp(rows_ * stream().cut.data_blocks() * 4, 64); }
  int64_t correction_bytes() const { return RoundUp(rows_ * stream().cut.blocks() * 4, 64); }

  BlockRows Round(const float* a, const TakenRows& taken, const float* bias, const float* residual,
                  float* y, std::byte* scratch, ThreadPool& pool) const;
  // Units of a group, and how their lines lie from `bytes` on, so many bytes from one to the next.
  struct Group {
    int64_t first, last;
    BlockLines kind;
    const BlockStream* stream;
    const uint8_t* bytes;
    int64_t unit_bytes;
  };
  // Unpacks them to `unpacked` where units are.
  Group Take(int64_t group, uint8_t* unpacked) const;
  // Weights of this group, if there is one, are what comes next.
  void AskForGroup(int64_t index, BlockAhead& ahead) const;
  // One tile's rows of all columns of the group; the rows of `next` follow.
  void Multiply(const BlockRows& operands, const Group& group, int64_t tile, int64_t next,
                BlockAhead& ahead) const;

  template <typename Finish>
  void RunTask(const BlockRows& operands, int64_t index, int64_t part, uint8_t* unpacked,
               const Finish& finish) const {
    const Group group = Take(index, unpacked);
    const int64_t column = group.first * kUnitColumns,
                  count = std::min(group.last * kUnitColumns, columns()) - column;
    const int64_t first = PartBegin(tiles(), row_parts_, part),
                  last = PartBegin(tiles(), row_parts_, part + 1);
    const BlockTileTask task(tiled_ ? tiles_ : nullptr, stream().cut);
    BlockAhead ahead;
    if (unpacks_ && part + 1 == row_parts_) AskForGroup(index + 1, ahead);
    for (int64_t tile = first; tile < last; ++tile) {
      Multiply(operands, group, tile, tile + 1 < last ? tile + 1 : first, ahead);
      finish(column, count, RowOfTile(tile), RowOfTile(tile + 1));
    }
  }

  BoundBlocks weights_;
  const BlockTable* table_ = nullptr;
  bool asks_ahead_ = false, unpacks_ = false;
  bool steps_ = false;  // unpacks by BlockTable::unpack_steps
  // Null where there are none; whether they multiply, which unpacks, steps as well.
  const BlockTiles* tiles_ = nullptr;
  bool tiled_ = false;
  int64_t rows_ = 0, tile_rows_ = 1, groups_ = 0, row_parts_ = 1, quantize_grain_ = 1, grain_ = 1,
          scratch_bytes_ = 0;
};

}  // namespace evoq
