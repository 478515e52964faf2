#include "products/double_product.h"

#include <algorithm>

#include "base/math.h"
#include "kernels/cpu_model.h"
#include "kernels/gemm/gemm_f64.h"
#include "kernels/gemm/share_out.h"
#include "kernels/move/move.h"
#include "products/copy_rows.h"

namespace evoq {
namespace {

constexpr int64_t kDepth = 256;      // of K at once: a tile's rows stay in the L1 cache
constexpr int64_t kInPlaceRows = 4;  // with more, packing b pays
constexpr int64_t kBlockRows = 224;  // of a task: their part of K stays in the L2 cache
constexpr int64_t kPackPanels = 4;   // of b, packed by one thread at once
// A tile's rows are copied for so many panels; they lie a cache line more than kDepth apart.
constexpr int64_t kManyPanels = 4, kRowStride = kDepth + 8;

class Product {
 public:
  Product(const ProductF64& product, Isa isa, Workspace& workspace)
      : p_(product),
        isa_(isa),
        workspace_(workspace),
        tiles_(GemmTableF64For(isa)),
        move_(MoveTableFor(isa)) {}

  // Whatever may throw comes before the first element of c.
  void Run() {
    const bool in_place = p_.m <= kInPlaceRows && p_.b.column_stride == 1;
    whole_ = in_place ? p_.n / kPanelF64 * kPanelF64 : 0;  // columns read as they are
    const bool copies_a = p_.a.column_stride != 1 || (in_place && p_.alpha != 1);
    const int64_t a_elements = copies_a ? RoundUp(p_.m * p_.k, kPanelF64) : 0;
    const int64_t b_elements = RoundUp(p_.n - whole_, int64_t{kPanelF64}) * std::min(p_.k, kDepth);
    auto* const scratch =
        reinterpret_cast<double*>(workspace_.Scratch((a_elements + b_elements) * 8));
    a_ = p_.a.data, a_stride_ = p_.a.row_stride;
    if (copies_a) {
      CopyA(in_place ? p_.alpha : 1, scratch);
      a_ = scratch, a_stride_ = p_.k;
    }
    panels_ = scratch + a_elements;
    if (p_.beta != 0 && p_.beta != 1) ScaleInParts();
    Share();
    for (k_ = 0; k_ < p_.k; k_ += kDepth) {
      PackB(in_place ? 1 : p_.alpha, scratch + a_elements);
      workspace_.pool.ParallelFor(row_blocks_ * column_blocks_, 1, [&](int64_t begin, int64_t end) {
        for (int64_t task = begin; task < end; ++task)
          Block(task / column_blocks_, task % column_blocks_);
      });
    }
  }

 private:
  int64_t panels() const { return CeilDiv(p_.n, int64_t{kPanelF64}); }
  int64_t depth() const { return std::min(kDepth, p_.k - k_); }

  void CopyA(double factor, double* to) {
    CopyRows(p_.a, p_.m, p_.k, p_.k, isa_, workspace_.pool, to, [&](double* y, int64_t count) {
      for (int64_t at = 0; factor != 1 && at < count * p_.k; ++at) y[at] *= factor;
    });
  }

  // Of this part of K, the columns behind those that are read as they are: [panel][k][16], zeros
  // behind the last one.
  void PackB(double factor, double* to) {
    const int64_t count = CeilDiv(panels() - whole_ / kPanelF64, kPackPanels);
    workspace_.pool.ParallelFor(count, 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t column = whole_ + i * kPackPanels * kPanelF64,
                      columns = std::min(p_.n - column, kPackPanels * kPanelF64);
        double* const y = to + i * kPackPanels * kPanelF64 * depth();
        const double* const from = p_.b.data + column * p_.b.column_stride + k_ * p_.b.row_stride;
        if (p_.b.row_stride == 1) {
          for (int64_t n = 0; n < columns; n += kPanelF64)
            PackColumns(from + n * p_.b.column_stride, columns - n, y + n * depth());
        } else {
          PackRows(from, columns, y);
        }
        const int64_t packed = RoundUp(columns, int64_t{kPanelF64}) * depth();
        for (int64_t at = 0; factor != 1 && at < packed; ++at) y[at] *= factor;
      }
    });
  }

  // A panel of columns that lie one behind the other.
  void PackColumns(const double* from, int64_t columns, double* y) const {
    const int64_t stride = p_.b.column_stride;
    if (columns >= kPanelF64)
      return move_.transpose(from, y, kPanelF64, depth(), stride, kPanelF64, sizeof(double));
    for (int64_t k = 0; k < depth(); ++k) {
      for (int64_t n = 0; n < kPanelF64; ++n)
        y[k * kPanelF64 + n] = n < columns ? from[n * stride + k] : 0;
    }
  }

  // Panels of rows that lie one behind the other, and may be a page apart: a few rows at a time,
  // since panels that are written side by side evict each other from the L1 cache.
  void PackRows(const double* from, int64_t columns, double* y) const {
    constexpr int64_t kFew = 8;
    const int64_t stride = p_.b.row_stride;
    for (int64_t first = 0; first < depth(); first += kFew) {
      for (int64_t n = 0; n < columns; n += kPanelF64) {
        const int64_t count = std::min<int64_t>(columns - n, kPanelF64);
        for (int64_t k = first; k < std::min(first + kFew, depth()); ++k) {
          double* const to = y + n * depth() + k * kPanelF64;
          const double* const x = from + k * stride + n;
          if (count == kPanelF64) {
            std::copy_n(x, kPanelF64, to);
          } else {
            for (int64_t i = 0; i < kPanelF64; ++i) to[i] = i < count ? x[i] : 0;
          }
        }
      }
    }
  }

  void ScaleInParts() {
    const int64_t grain = std::max<int64_t>(1, (32 << 10) / p_.n);
    workspace_.pool.ParallelFor(p_.m, grain, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) ScaleRow(p_.beta, p_.n, p_.c + i * p_.c_stride);
    });
  }

  // Blocks of rows and of columns, of nearly equal size.
  void Share() {
    const ProductRates& rates = kCpuModel.float32;  // half of the products, twice the bytes
    const double depth = static_cast<double>(p_.k);
    SharedWork work;
    work.tiles = CeilDiv(p_.m, int64_t{tiles_.rows});
    work.units = panels();
    work.least_row_blocks = CeilDiv(p_.m, kBlockRows);
    work.tile_ns = tiles_.rows * kPanelF64 * depth / rates.macs_per_ns * 2;
    work.rows_ns = 8 * tiles_.rows * depth / rates.bytes_per_ns;
    work.columns_ns = 8 * kPanelF64 * depth / rates.bytes_per_ns;
    work.task_ns = rates.task_ns;
    row_blocks_ = work.least_row_blocks;
    column_blocks_ = 1;
    if (workspace_.pool.threads() == 1) return;
    const SharedOut shared = ShareOut(work, ShareRule{}, workspace_.pool.threads(), kCpuModel);
    row_blocks_ = shared.row_blocks;
    column_blocks_ = shared.column_blocks;
  }

  // Groups of columns whose b stays in the L2 cache.
  void Block(int64_t row_block, int64_t column_block) const {
    const int64_t tiles = CeilDiv(p_.m, int64_t{tiles_.rows});
    const int64_t first = tiles * row_block / row_blocks_ * tiles_.rows,
                  last = std::min(p_.m, tiles * (row_block + 1) / row_blocks_ * tiles_.rows);
    const int64_t begin = panels() * column_block / column_blocks_,
                  end = panels() * (column_block + 1) / column_blocks_;
    const int64_t panel_bytes = int64_t{8} * kPanelF64 * depth();
    const int64_t group = std::max<int64_t>(1, kCpuModel.l2_share() / panel_bytes);
    for (int64_t panel = begin; panel < end; panel += group)
      Group(first, last, panel, std::min(end, panel + group));
  }

  void Group(int64_t first, int64_t last, int64_t begin, int64_t end) const {
    TileF64 tile = {};
    tile.y_stride = p_.c_stride;
    tile.depth = depth();
    tile.accumulate = k_ > 0 || p_.beta != 0;
    double rows_of_tile[kMaxTileRowsF64 * kRowStride];
    const int64_t rows = last - first, height = CeilDiv(rows, CeilDiv(rows, int64_t{tiles_.rows}));
    for (int64_t row = first; row < last; row += tile.rows) {
      tile.rows = static_cast<int>(std::min(height, last - row));
      tile.a = a_ + row * a_stride_ + k_;
      tile.a_stride = a_stride_;
      if (end - begin >= kManyPanels) CopyTile(tile, rows_of_tile);
      for (int64_t panel = begin; panel < end; ++panel) Panel(tile, row, panel);
    }
  }

  // Rows that lie a power of two apart would evict each other from the L1 cache.
  static void CopyTile(TileF64& tile, double* to) {
    for (int r = 0; r < tile.rows; ++r)
      std::copy_n(tile.a + r * tile.a_stride, tile.depth, to + r * kRowStride);
    tile.a = to;
    tile.a_stride = kRowStride;
  }

  void Panel(TileF64& tile, int64_t row, int64_t panel) const {
    const int64_t column = panel * kPanelF64;
    const bool as_it_is = column < whole_;
    tile.columns = static_cast<int>(std::min<int64_t>(kPanelF64, p_.n - column));
    tile.b = as_it_is ? p_.b.data + k_ * p_.b.row_stride + column
                      : panels_ + (column - whole_) * depth();
    tile.b_step = as_it_is ? p_.b.row_stride : kPanelF64;
    tile.y = p_.c + row * p_.c_stride + column;
    tiles_.run(tile);
  }

  const ProductF64& p_;
  const Isa isa_;
  Workspace& workspace_;
  const GemmTableF64& tiles_;
  const MoveTable& move_;
  int64_t k_ = 0;  // where this part of K begins
  int64_t whole_ = 0, row_blocks_ = 1, column_blocks_ = 1;
  const double *a_ = nullptr, *panels_ = nullptr;
  int64_t a_stride_ = 0;
};

}  // namespace

void Multiply(const ProductF64& product, Isa isa, Workspace& workspace) {
  if (product.k > 0 && product.alpha != 0) return Product(product, isa, workspace).Run();
  ScaleC(product);
}

}  // namespace evoq
