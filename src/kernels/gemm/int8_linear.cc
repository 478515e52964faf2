#include "kernels/gemm/int8_linear.h"

#include <algorithm>
#include <cstring>

#include "base/math.h"
#include "kernels/gemm/layout_k4n16.h"

namespace evoq {
namespace {

constexpr int64_t kCacheBytes = 256 << 10;   // activations and outputs of one block of rows: a share of the L2 cache
constexpr int64_t kPointerBytes = 64 << 10;  // pointers of one block of rows
constexpr int64_t kTilesPerWeights = 24;
constexpr int64_t kL1Set = 4096;  // rows this far apart compete for the same lines of the L1 cache,
constexpr int64_t kL1Ways = 12;   // which holds so many of them

struct Int8Linear {
  Int8LinearSpec spec;
  Int8Rows rows;
  K4N16 weights;
  const Int8TileDef* isa;
  std::vector<int32_t> bias;  // per padded column: spec.bias - x_zero * weight_sum, without x_zero when it comes at run
  std::vector<int32_t> w_zero;      // per padded column, of the stored bytes; empty when all are 0
  std::vector<int32_t> weight_sum;  // per padded column: sum of w - w_zero
  std::vector<float> multiplier;
  std::vector<int32_t> lanes;  // of the tile, when several groups share a panel; empty otherwise
  int tile_rows = 1, tile_panels = 1;
  int64_t block_rows = 1, blocks = 1;  // rows are cut into blocks,
  int64_t splits = 1;                  // and the panels of a group into splits
  int64_t parts = 1;                   // parallel pieces of blocks x groups x splits, each with its own scratch
  size_t part_bytes = 0;

  // Groups that are worked on one by one.
  int64_t groups() const { return lanes.empty() ? spec.geometry.group : 1; }
  int64_t group_columns() const { return spec.geometry.out_channels / groups(); }
  int64_t items() const { return blocks * groups() * splits; }
  size_t scratch_bytes() const {
    return rows.scratch_bytes() + RoundUp(static_cast<int64_t>(4 * bias.size()), 64) + parts * part_bytes;
  }

  void SumWeights();
  void PrepareColumns();
  void PrepareLanes();
  void ChooseTile();
  void ChooseBlocks(int threads);
  void Run(const void* const* in, void* const* out, const RunContext& context) const;
  void RunPart(const Int8Tile& base, const Int8Rows::Input& input, int64_t begin, int64_t end,
               std::byte* scratch) const;
  void RunItem(Int8Tile tile, int64_t block, int64_t group, int64_t split, const uint8_t* const* pointers,
               int32_t* row_sums) const;
  void SumRows(int64_t group, int64_t count, const uint8_t* const* pointers, int32_t* row_sums) const;
};

// The sums of the stored weights of each column: a product with a row of ones.
void Int8Linear::SumWeights() {
  const std::vector<uint8_t> ones(static_cast<size_t>(weights.panel_bytes / 16), 1);
  const uint8_t* row = ones.data();
  const int32_t no_bias[16] = {};
  Int8Tile tile = {};
  tile.rows = &row;
  tile.taps = 1;
  tile.groups_of_4 = weights.panel_bytes / 64;
  tile.row_count = tile.panel_count = 1;
  tile.first_mask = tile.last_mask = 0xffff;
  tile.bias = no_bias;
  tile.output = Int8Output::kInt32;
  for (int64_t panel = 0; panel < weights.panels; ++panel) {
    tile.weights = reinterpret_cast<const int8_t*>(spec.weights.raw()) + panel * weights.panel_bytes;
    tile.y = reinterpret_cast<uint8_t*>(weight_sum.data() + 16 * panel);
    isa->run(tile);
  }
}

// Folds everything that depends on the output channel only.
void Int8Linear::PrepareColumns() {
  const size_t padded = static_cast<size_t>(weights.panels * 16);
  const bool flipped = spec.weights.dtype() == DType::kUint8;
  bias.assign(padded, 0);
  weight_sum.assign(padded, 0);
  multiplier.assign(padded, 0);
  w_zero.assign(padded, 0);
  SumWeights();
  bool any_zero = false;
  for (int64_t n = 0; n < weights.columns; ++n) {
    const auto& zeros = spec.w_zero;
    const int32_t zero = zeros.empty() ? 0 : zeros.size() == 1 ? zeros[0] : zeros[static_cast<size_t>(n)];
    w_zero[n] = zero - (flipped ? 128 : 0);
    any_zero |= w_zero[n] != 0;
    weight_sum[n] -= static_cast<int32_t>(weights.taps * weights.channels * w_zero[n]);
    if (!spec.bias.empty()) bias[n] = spec.bias[n];
    if (!spec.epilogue.multiplier.empty()) multiplier[n] = spec.epilogue.multiplier[n];
  }
  if (!any_zero) w_zero.clear();
}

void AddZeroTerm(std::span<const int32_t> weight_sum, int32_t x_zero, const int32_t* from, int32_t* to) {
  for (size_t n = 0; n < weight_sum.size(); ++n)
    to[n] = static_cast<int32_t>(static_cast<uint32_t>(from[n]) -
                                 static_cast<uint32_t>(x_zero) * static_cast<uint32_t>(weight_sum[n]));
}

// Groups of at most eight output channels, whole ones to a panel, whose channels fit one register.
void Int8Linear::PrepareLanes() {
  const Int8Geometry& g = spec.geometry;
  const int64_t columns = g.group_columns();
  if (!isa->takes_lanes || g.group == 1 || columns > 8 || 16 % columns != 0 || !w_zero.empty()) return;
  if (16 / columns * weights.groups_of_4 > 16) return;
  for (int64_t n = 0; n < 16; ++n) lanes.push_back(static_cast<int32_t>(n / columns * weights.groups_of_4));
}

// Tall tiles for many rows; wide ones for few rows, and where rows would evict one another from the L1 cache.
void Int8Linear::ChooseTile() {
  const int64_t stride = rows.pixel_bytes() * spec.geometry.stride[2];
  const bool crowded = stride % kL1Set == 0 || (stride % (kL1Set / 2) == 0 && rows.tap_bytes() > 64);
  const int64_t panels = lanes.empty() ? CeilDiv(group_columns(), 16) : 1;
  tile_panels = static_cast<int>(std::min<int64_t>(panels >= 2 ? 2 : 1, isa->max_panels));
  const int64_t count = std::max<int64_t>(1, rows.count());
  const bool few = count <= isa->max_rows[4] || (crowded && count > kL1Ways - 2);
  if (isa->max_panels >= 4 && panels >= 4 && few) tile_panels = 4;
  tile_rows =
      static_cast<int>(CeilDiv(count, CeilDiv(count, isa->max_rows[tile_panels])));  // tiles of nearly equal height
}

void Int8Linear::ChooseBlocks(int threads) {
  const Int8Geometry& g = spec.geometry;
  const int64_t count = std::max<int64_t>(1, rows.count()), panels = CeilDiv(group_columns(), 16);
  const int64_t row_bytes =
      g.stride[0] * g.stride[1] * g.stride[2] * rows.pixel_bytes() + g.out_channels * spec.epilogue.y_bytes();
  const int64_t wanted = std::min(kCacheBytes / row_bytes, kPointerBytes / (8 * rows.taps()));
  const int64_t weight_bytes = weights.panels * weights.panel_bytes;
  const int64_t max_splits = CeilDiv(panels, tile_panels);
  const auto set_blocks = [&](int64_t size) {
    size = std::clamp<int64_t>(size, 1, count);
    block_rows = RoundUp(CeilDiv(count, CeilDiv(count, size)), tile_rows);
    blocks = CeilDiv(count, block_rows);
  };
  // Weights that do not stay in the cache are read once per block: for many tiles.
  const bool weights_stay = weight_bytes <= 2 * kCacheBytes;
  set_blocks(std::max(wanted, weights_stay ? 1 : kTilesPerWeights * tile_rows));
  // Pieces shorter than what waking a thread costs are not worth cutting.
  const double work_ns =
      static_cast<double>(count) * g.out_channels * g.group_channels() * g.taps() / 400 + weight_bytes / 40;
  const int64_t enough = threads == 1 ? 1 : std::clamp<int64_t>(static_cast<int64_t>(work_ns / 2000), 1, 4 * threads);
  if (blocks * groups() < enough) {
    // Weights larger than the activations are worth reading once: cut columns first.
    const bool columns_first = weight_bytes > count * row_bytes;
    if (!columns_first) set_blocks(count * groups() / enough);
    splits = std::clamp<int64_t>(CeilDiv(enough, std::max<int64_t>(1, blocks * groups())), 1, max_splits);
    if (columns_first && blocks * groups() * splits < enough) set_blocks(count * groups() * splits / enough);
  }
  parts = std::min(items(), enough);
  part_bytes = static_cast<size_t>(RoundUp(8 * block_rows * rows.taps(), 64) + RoundUp(4 * block_rows, 64));
}

void Int8Linear::SumRows(int64_t group, int64_t count, const uint8_t* const* pointers, int32_t* row_sums) const {
  const int64_t taps = rows.taps(), offset = group * rows.group_bytes();
  for (int64_t i = 0; i < count; ++i) {
    uint32_t sum = 0;
    for (int64_t tap = 0; tap < taps; ++tap) {
      const uint8_t* x = pointers[(i / tile_rows * taps + tap) * tile_rows + i % tile_rows] + offset;
      for (int64_t c = 0; c < rows.tap_bytes(); ++c) sum += x[c];
    }
    row_sums[i] = static_cast<int32_t>(sum);
  }
}

void Int8Linear::RunItem(Int8Tile tile, int64_t block, int64_t group, int64_t split, const uint8_t* const* pointers,
                         int32_t* row_sums) const {
  const int64_t first_row = block * block_rows, count = std::min(block_rows, rows.count() - first_row);
  if (tile.w_zero != nullptr) SumRows(group, count, pointers, row_sums);
  const int64_t first_column = group * group_columns(), last_column = first_column + group_columns();
  const int64_t first_panel = first_column / 16, panels = CeilDiv(last_column, 16) - first_panel;
  const int64_t chunks = CeilDiv(panels, tile_panels);
  const int64_t end = first_panel + std::min(panels, (split + 1) * chunks / splits * tile_panels);
  const Int8Tile base = tile;
  tile.x_offset = group * rows.group_bytes();
  tile.row_stride = tile_rows;
  for (int64_t panel = first_panel + split * chunks / splits * tile_panels; panel < end; panel += tile.panel_count) {
    const int64_t left = std::min<int64_t>(end - panel, tile_panels), column = 16 * panel;
    tile.panel_count = static_cast<int32_t>(left >= 4 ? 4 : left >= 2 ? 2 : 1);
    const int64_t after = column + 16 * tile.panel_count;
    tile.first_mask = column < first_column ? 0xffffu << (first_column - column) : 0xffffu;
    tile.last_mask = after > last_column ? 0xffffu >> (after - last_column) : 0xffffu;
    if (!lanes.empty()) {
      const int64_t group_words = weights.groups_of_4, first = column / spec.geometry.group_columns();
      tile.lanes = lanes.data();
      tile.x_offset = first * rows.group_bytes();
      tile.lane_words =
          static_cast<int32_t>(std::min(16 / spec.geometry.group_columns(), spec.geometry.group - first) * group_words);
    }
    tile.weights = base.weights + panel * weights.panel_bytes;
    tile.bias = base.bias + column;
    tile.multiplier = base.multiplier + column;
    if (tile.w_zero != nullptr) tile.w_zero = base.w_zero + column;
    for (int64_t row = 0; row < count; row += tile_rows) {
      tile.row_count = static_cast<int32_t>(std::min<int64_t>(tile_rows, count - row));
      // Each tile fetches one of the panels that come next.
      const int64_t next = tile.panel_count + row / tile_rows;
      tile.prefetch = next < 2 * tile_panels && panel + next < end ? next * weights.panel_bytes : 0;
      tile.rows = pointers + row * tile.taps;
      tile.row_sums = row_sums + row;
      tile.y = base.y + (first_row + row) * tile.y_stride + column * spec.epilogue.y_bytes();
      if (base.residual != nullptr) {
        const int64_t size = tile.residual_type == Int8Residual::kFloat32 ? 4 : 1;
        tile.residual = base.residual + (first_row + row) * tile.residual_stride + column * size;
      }
      isa->run(tile);
    }
  }
}

void Int8Linear::RunPart(const Int8Tile& base, const Int8Rows::Input& input, int64_t begin, int64_t end,
                         std::byte* scratch) const {
  auto* pointers = reinterpret_cast<const uint8_t**>(scratch);
  auto* row_sums = reinterpret_cast<int32_t*>(scratch + RoundUp(8 * block_rows * rows.taps(), 64));
  const int64_t per_block = groups() * splits;
  int64_t ready = -1;
  for (int64_t item = begin; item < end; ++item) {
    const int64_t block = item / per_block;
    if (block != ready) {
      const int64_t first = block * block_rows;
      rows.Pointers(*isa, input, first, std::min(block_rows, rows.count() - first), tile_rows, pointers);
      ready = block;
    }
    RunItem(base, block, item % per_block / splits, item % splits, pointers, row_sums);
  }
}

void Int8Linear::Run(const void* const* in, void* const* out, const RunContext& context) const {
  if (rows.count() == 0) return;
  std::byte* scratch = context.scratch;
  const int32_t zero = RunZero(spec, in);
  const Int8Rows::Input input = rows.Prepare(*isa, in[0], zero, scratch, context.pool);
  scratch += rows.scratch_bytes();
  Int8Tile tile = {};
  spec.epilogue.Fill(tile);
  tile.bias = bias.data();
  if (spec.x_zero_input >= 0) {
    auto* folded = reinterpret_cast<int32_t*>(scratch);
    AddZeroTerm(weight_sum, zero + (spec.x_signed ? 128 : 0), bias.data(), folded);
    tile.bias = folded;
  }
  scratch += RoundUp(static_cast<int64_t>(4 * bias.size()), 64);
  tile.taps = rows.taps();
  tile.groups_of_4 = rows.tap_bytes() / 4;
  tile.weights = reinterpret_cast<const int8_t*>(spec.weights.raw());
  tile.panel_bytes = weights.panel_bytes;
  tile.multiplier = multiplier.data();
  tile.w_zero = w_zero.empty() ? nullptr : w_zero.data();
  tile.y = static_cast<uint8_t*>(out[0]);
  tile.y_stride = spec.geometry.out_channels * spec.epilogue.y_bytes();
  if (tile.residual_type != Int8Residual::kNone) {
    tile.residual = static_cast<const uint8_t*>(in[spec.epilogue.residual_input]);
    tile.residual_stride = spec.geometry.out_channels * (tile.residual_type == Int8Residual::kFloat32 ? 4 : 1);
  }
  context.pool.ParallelFor(parts, 1, [&](int64_t begin, int64_t end) {
    for (int64_t part = begin; part < end; ++part)
      RunPart(tile, input, part * items() / parts, (part + 1) * items() / parts, scratch + part * part_bytes);
  });
}

}  // namespace

const Int8TileDef& Int8TileFor(Isa isa) {
#if defined(__x86_64__)
  if (isa == Isa::kAvx512) return kInt8TileAvx512;
  if (isa == Isa::kAvx2) return kInt8TileAvx2;
#endif
  (void)isa;
  return kInt8TileScalar;
}

int32_t RunZero(const Int8LinearSpec& spec, const void* const* in) {
  if (spec.x_zero_input < 0) return spec.x_zero;
  return spec.x_signed ? *static_cast<const int8_t*>(in[spec.x_zero_input])
                       : *static_cast<const uint8_t*>(in[spec.x_zero_input]);
}

Result<BoundKernel> BindInt8Linear(Int8LinearSpec spec, const BindOptions& options) {
  const bool conv = spec.weights.layout() == kK4N16Conv;
  if (!conv && spec.weights.layout() != kK4N16MatMul)
    return InvalidInput("weights have layout '{}', expected k4n16", spec.weights.layout());
  EVOQ_ASSIGN(const K4N16 weights, conv ? K4N16OfConv(spec.weights.type()) : K4N16OfMatMul(spec.weights.type()));
  if (spec.weights.bytes() != static_cast<size_t>(weights.panels * weights.panel_bytes))
    return InvalidInput("packed weights have {} bytes, expected {}", spec.weights.bytes(),
                        weights.panels * weights.panel_bytes);
  if (reinterpret_cast<uintptr_t>(spec.weights.raw()) % 64 != 0)
    return InvalidInput("packed weights are not aligned to 64 bytes");
  Int8Rows rows(spec.geometry, 4 * weights.groups_of_4, spec.x_signed, true);
  Int8Linear linear{std::move(spec), std::move(rows), weights, &Int8TileFor(options.isa)};
  linear.PrepareColumns();
  if (linear.spec.x_zero_input < 0) {
    const int32_t zero = linear.spec.x_zero + (linear.spec.x_signed ? 128 : 0);
    AddZeroTerm(linear.weight_sum, zero, linear.bias.data(), linear.bias.data());
  }
  linear.PrepareLanes();
  linear.ChooseTile();
  linear.ChooseBlocks(options.threads);
  std::string variant = fmt::format("{} {}x{}", linear.isa->name, linear.tile_rows, 16 * linear.tile_panels);
  const size_t scratch = linear.scratch_bytes();
  return BoundKernel::Of(std::move(linear), scratch, std::move(variant));
}

}  // namespace evoq
