#include "products/int8_product.h"

#include <algorithm>
#include <cstring>

#include "base/math.h"
#include "kernels/cpu_model.h"
#include "kernels/gemm/int8_block.h"
#include "kernels/gemm/int8_linear.h"
#include "kernels/gemm/pair_int8.h"
#include "kernels/parallel.h"
#include "products/copy_rows.h"

namespace evoq {
namespace {

constexpr int64_t kRows = 112;       // of a task: whole tiles of 16, 14, 8, 7, 4, 2 rows
constexpr int64_t kSumColumns = 64;  // of a task that adds to c, at once
constexpr int64_t kTasksPerThread = 4;

int64_t PanelBytes(int64_t k) { return 16 * RoundUp(k, 4); }
int64_t Panels(int64_t n) { return CeilDiv(n, 16); }

// Bytes of a buffer, cut one after the other on whole cache lines.
class Cut {
 public:
  int64_t Take(int64_t bytes) {
    const int64_t at = bytes_;
    bytes_ += RoundUp(bytes, int64_t{kAlignment});
    return at;
  }
  int64_t bytes() const { return bytes_; }

 private:
  int64_t bytes_ = 0;
};

// Panels as int8: the bytes of uint8 are stored less 128.
struct Panel {
  const ByteOperand& b;
  int64_t k, n;

  uint8_t flip() const { return b.is_signed ? 0 : 0x80; }
  // Modulo 2^32, as sums are.
  int32_t zero() const {
    return static_cast<int32_t>(static_cast<uint32_t>(b.zero) - (b.is_signed ? 0 : 128));
  }

  void Pack(const PairTable& table, int64_t panel, int8_t* to) const {
    const Strided<uint8_t>& x = b.bytes;
    if (x.column_stride == 1) return table.pack(x.data, x.row_stride, k, n, 16 * panel, flip(), to);
    const uint32_t flips = flip() * 0x01010101u;
    for (int64_t c = 0; c < 16; ++c) {
      const int64_t column = 16 * panel + c;
      const uint8_t* from = x.data + column * x.column_stride;
      for (int64_t l = 0; l < k; l += 4) {
        uint32_t word = 0;
        if (column < n) {
          word = flips;
          if (l + 4 > k) word &= (1u << 8 * (k - l)) - 1;
          uint32_t bytes = 0;
          std::memcpy(&bytes, from + l, static_cast<size_t>(std::min<int64_t>(4, k - l)));
          word ^= bytes;
        }
        std::memcpy(to + l * 16 + 4 * c, &word, 4);
      }
    }
  }
};

void PackPanels(const Panel& panel, Isa isa, ThreadPool& pool, const uint8_t* ones, int8_t* panels,
                int32_t* sums) {
  const PairTable& table = PairTableFor(isa);
  const Int8TileDef& tiles = Int8TileFor(isa);
  const int64_t count = Panels(panel.n), bytes = PanelBytes(panel.k);
  const int64_t grain = Grain(count, 0.05 * static_cast<double>(16 * panel.k) + 5, pool.threads());
  pool.ParallelFor(count, grain, [&](int64_t begin, int64_t end) {
    for (int64_t p = begin; p < end; ++p) {
      panel.Pack(table, p, panels + p * bytes);
      SumInt8Columns(tiles, panels + p * bytes, bytes, 1, ones, sums + 16 * p);
    }
  });
}

// Where a row of ones lies is written.
const uint8_t* Ones(std::byte* to, int64_t k) {
  std::memset(to, 1, static_cast<size_t>(RoundUp(k, 4)));
  return reinterpret_cast<const uint8_t*>(to);
}

class Product {
 public:
  Product(const ProductInt8& product, Isa isa, Workspace& workspace)
      : p_(product),
        isa_(isa),
        workspace_(workspace),
        depth_(RoundUp(p_.k, 4)),
        tiles_(*TilesFor(Int8TileFor(isa), {p_.m, depth_}).tiles) {}

  void Run() {
    const bool packs = p_.packed == nullptr, copies = CopiesA();
    const int64_t padded = 16 * Panels(p_.n);
    Cut cut;
    const int64_t bias_at = cut.Take(4 * padded), zeros_at = cut.Take(4 * padded);
    const int64_t sums_at = cut.Take(packs ? 4 * padded : 0),
                  ones_at = cut.Take(packs ? depth_ : 0);
    const int64_t panels_at = cut.Take(packs ? Panels(p_.n) * PanelBytes(p_.k) : 0);
    const int64_t a_at = cut.Take(copies ? p_.m * depth_ : 0);
    std::byte* const scratch = workspace_.Scratch(cut.bytes());
    const auto ints = [&](int64_t at) { return reinterpret_cast<int32_t*>(scratch + at); };
    const int32_t* sums = packs ? ints(sums_at) : Data<int32_t>(p_.packed->sums);
    panels_ =
        packs ? reinterpret_cast<int8_t*>(scratch + panels_at) : Data<int8_t>(p_.packed->panels);
    int32_t b_zero = packs ? 0 : p_.packed->zero;
    if (packs) {
      const Panel panel = {p_.b, p_.k, p_.n};
      b_zero = panel.zero();
      PackPanels(panel, isa_, workspace_.pool, Ones(scratch + ones_at, p_.k),
                 reinterpret_cast<int8_t*>(scratch + panels_at), ints(sums_at));
    }
    bias_ = ints(bias_at);
    FoldZeros(sums, padded, b_zero, ints(bias_at));
    if (b_zero != 0) std::fill_n(ints(zeros_at), padded, b_zero);
    zeros_ = b_zero != 0 ? ints(zeros_at) : nullptr;
    a_ = p_.a.bytes.data, a_stride_ = p_.a.bytes.row_stride;
    if (copies) {
      auto* const copy = reinterpret_cast<uint8_t*>(scratch + a_at);
      CopyA(copy);
      a_ = copy, a_stride_ = depth_;
    }
    Compute();
  }

 private:
  template <typename T>
  static const T* Data(const AlignedBuffer& buffer) {
    return reinterpret_cast<const T*>(buffer.data());
  }

  // Rows are read as whole words of uint8.
  bool CopiesA() const { return p_.a.bytes.column_stride != 1 || p_.a.is_signed || p_.k != depth_; }
  uint32_t a_zero() const { return static_cast<uint32_t>(p_.a.zero) + (p_.a.is_signed ? 128 : 0); }

  // bias[n] = -a_zero * sum over l of (b[l, n] - b_zero)
  void FoldZeros(const int32_t* sums, int64_t padded, int32_t b_zero, int32_t* bias) const {
    const uint32_t all = static_cast<uint32_t>(b_zero) * static_cast<uint32_t>(p_.k);
    for (int64_t n = 0; n < padded; ++n)
      bias[n] = static_cast<int32_t>(a_zero() * (all - static_cast<uint32_t>(sums[n])));
  }

  void CopyA(uint8_t* to) {
    const uint8_t flip = p_.a.is_signed ? 0x80 : 0;
    CopyRows(p_.a.bytes, p_.m, p_.k, depth_, isa_, workspace_.pool, to,
             [&](uint8_t* y, int64_t count) {
               for (int64_t at = 0; flip != 0 && at < count * depth_; ++at) y[at] ^= flip;
             });
  }

  void Compute() {
    panels_of_tile_ = Int8BlockPanels(tiles_, p_.m, Panels(p_.n));
    const int64_t row_blocks = CeilDiv(p_.m, kRows),
                  units = CeilDiv(Panels(p_.n), int64_t{panels_of_tile_}),
                  threads = workspace_.pool.threads();
    const double ns = static_cast<double>(p_.m) * static_cast<double>(p_.n) *
                      static_cast<double>(p_.k) / kCpuModel.int8.macs_per_ns;
    const int64_t wanted = threads == 1 ? 1 : CeilDiv(kTasksPerThread * threads, row_blocks);
    const int64_t blocks = std::min(wanted, units), tasks = row_blocks * blocks;
    const int64_t grain =
        Grain(tasks, ns / static_cast<double>(tasks) + 20, workspace_.pool.threads());
    workspace_.pool.ParallelFor(tasks, grain, [&](int64_t begin, int64_t end) {
      for (int64_t task = begin; task < end; ++task) {
        const int64_t block = task % blocks, wide = 16 * panels_of_tile_;
        Rows(task / blocks * kRows, block * units / blocks * wide,
             std::min(p_.n, (block + 1) * units / blocks * wide));
      }
    });
  }

  // Rows from `first` on, columns [begin, end).
  void Rows(int64_t first, int64_t begin, int64_t end) const {
    const int64_t count = std::min(kRows, p_.m - first);
    const uint8_t* rows[kRows];
    int32_t row_sums[kRows];
    for (int64_t r = 0; r < count; ++r) rows[r] = a_ + (first + r) * a_stride_;
    if (zeros_ != nullptr) tiles_.rows->sum_rows(rows, 0, 1, 0, p_.k, count, row_sums);
    Int8Tile tile = {};
    tile.output = Int8Output::kInt32;
    tile.taps = 1;
    tile.groups_of_4 = depth_ / 4;
    tile.panel_bytes = PanelBytes(p_.k);
    tile.weights = panels_;
    tile.bias = bias_;
    tile.w_zero = zeros_;
    int32_t* const c = p_.c + first * p_.c_stride;
    if (!p_.accumulate) {
      tile.y = reinterpret_cast<uint8_t*>(c);
      tile.y_stride = 4 * p_.c_stride;
      return RunInt8Block(tiles_, {rows, row_sums, count, begin, end, panels_of_tile_}, tile);
    }
    int32_t sums[kRows * kSumColumns];
    tile.y = reinterpret_cast<uint8_t*>(sums);
    tile.y_stride = 4 * kSumColumns;
    for (int64_t column = begin; column < end; column += kSumColumns) {
      const int64_t width = std::min(end - column, kSumColumns);
      tile.weights = panels_ + column / 16 * tile.panel_bytes;
      tile.bias = bias_ + column;
      if (zeros_ != nullptr) tile.w_zero = zeros_ + column;
      RunInt8Block(tiles_, {rows, row_sums, count, 0, width, panels_of_tile_}, tile);
      for (int64_t r = 0; r < count; ++r) {
        for (int64_t n = 0; n < width; ++n) {
          int32_t& y = c[r * p_.c_stride + column + n];
          y = static_cast<int32_t>(static_cast<uint32_t>(y) +
                                   static_cast<uint32_t>(sums[r * kSumColumns + n]));
        }
      }
    }
  }

  const ProductInt8& p_;
  const Isa isa_;
  Workspace& workspace_;
  const int64_t depth_;
  const Int8TileDef& tiles_;
  int panels_of_tile_ = 1;
  const int8_t* panels_ = nullptr;
  const int32_t *bias_ = nullptr, *zeros_ = nullptr;
  const uint8_t* a_ = nullptr;
  int64_t a_stride_ = 0;
};

}  // namespace

PackedInt8 Pack(const ByteOperand& b, int64_t k, int64_t n, Isa isa, Workspace& workspace) {
  const Panel panel = {b, k, n};
  PackedInt8 packed;
  packed.zero = panel.zero();
  packed.panels = AlignedBuffer(static_cast<size_t>(Panels(n) * PanelBytes(k)));
  packed.sums = AlignedBuffer(static_cast<size_t>(64 * Panels(n)));
  if (k == 0) return packed;  // b may be null
  PackPanels(panel, isa, workspace.pool, Ones(workspace.Scratch(RoundUp(k, 4)), k),
             reinterpret_cast<int8_t*>(packed.panels.data()),
             reinterpret_cast<int32_t*>(packed.sums.data()));
  return packed;
}

void Multiply(const ProductInt8& product, Isa isa, Workspace& workspace) {
  if (product.k > 0) return Product(product, isa, workspace).Run();
  for (int64_t i = 0; !product.accumulate && i < product.m; ++i)
    std::fill_n(product.c + i * product.c_stride, product.n, 0);
}

}  // namespace evoq
