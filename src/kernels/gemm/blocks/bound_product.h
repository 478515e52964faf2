// A product of rows that are rounded by blocks (block_data.h) with constant weights, bound to a
// number of rows and of threads: what matmul_blocks and the recurrent kernels run.
#pragma once

#include <algorithm>

#include "base/math.h"
#include "base/result.h"
#include "kernels/gemm/blocks/weights.h"
#include "kernels/gemm/share_out.h"
#include "kernels/kernel.h"

namespace evoq {

class BoundProduct {
 public:
  BoundProduct() = default;
  // Of a matrix that passed RejectBlocks. Errors: those of BindBlocks; kTooLarge.
  static Result<BoundProduct> Bind(const Tensor& weights, int64_t data_block, int64_t rows,
                                   const BindOptions& options);

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
           ThreadPool& pool, const Finish& finish) const {
    const BlockRows operands = Round(a, bias, residual, y, scratch, pool);
    auto* units =
        reinterpret_cast<uint8_t*>(scratch) + q_bytes() + scale_bytes() + correction_bytes();
    pool.ParallelFor(this->units() * row_parts_, grain_,
                     [&](int64_t begin, int64_t end, int thread) {
                       for (int64_t task = begin; task < end; ++task)
                         RunTask(operands, task / row_parts_, task % row_parts_,
                                 units + thread * unit_bytes(), finish);
                     });
  }
  void Run(const float* a, const float* bias, float* y, std::byte* scratch,
           ThreadPool& pool) const {
    Run(a, bias, nullptr, y, scratch, pool, [](int64_t, int64_t, int64_t, int64_t) {});
  }

 private:
  // Sets tile_rows_ and unpacks_. tall: CpuModel::one_set_of_ports.
  void CutRows(bool tall);
  // Of tiles nearly equal in height; parts are of whole tiles.
  int64_t tiles() const { return CeilDiv(rows_, tile_rows_); }
  int64_t RowOfTile(int64_t i) const { return rows_ == 0 ? 0 : PartBegin(rows_, tiles(), i); }
  int32_t factor() const;
  // An odd number of cache lines: rows of q a multiple of 4 KiB apart would evict one another from
  // the L1 cache.
  int64_t stride() const { return RoundUp(depth(), 64) | 64; }
  int64_t units() const { return CeilDiv(columns(), int64_t{kUnitColumns}); }
  // Of a thread, for an unpacked unit.
  int64_t unit_bytes() const { return unpacks_ ? weights_.groups * weights_.unit_bytes : 0; }

  // Scratch: q, its scales, the corrections, the units of the threads.
  int64_t q_bytes() const { return rows_ * stride(); }
  int64_t scale_bytes() const { return RoundUp(rows_ * weights_.stream.cut.data_blocks() * 4, 64); }
  int64_t correction_bytes() const { return RoundUp(rows_ * weights_.stream.cut.blocks() * 4, 64); }

  BlockRows Round(const float* a, const float* bias, const float* residual, float* y,
                  std::byte* scratch, ThreadPool& pool) const;
  // Columns of one unit of tiles [first, last); gives how many there are.
  int64_t Multiply(const BlockRows& operands, int64_t unit, int64_t first, int64_t last,
                   uint8_t* unpacked) const;

  template <typename Finish>
  void RunTask(const BlockRows& operands, int64_t unit, int64_t part, uint8_t* unpacked,
               const Finish& finish) const {
    const int64_t first = PartBegin(tiles(), row_parts_, part),
                  last = PartBegin(tiles(), row_parts_, part + 1);
    const int64_t count = Multiply(operands, unit, first, last, unpacked);
    finish(unit * kUnitColumns, count, RowOfTile(first), RowOfTile(last));
  }

  BoundBlocks weights_;
  const BlockTable* table_ = nullptr;
  bool asks_ahead_ = false, unpacks_ = false;
  int64_t rows_ = 0, tile_rows_ = 1, row_parts_ = 1, quantize_grain_ = 1, grain_ = 1,
          scratch_bytes_ = 0;
};

}  // namespace evoq
