#include "kernels/gemm/int8_linear.h"

#include <algorithm>
#include <cstring>

#include "base/math.h"
#include "base/small_code.h"
#include "kernels/derived.h"
#include "kernels/gemm/int8_block.h"
#include "kernels/gemm/int8_copies.h"
#include "kernels/gemm/int8_excess.h"
#include "kernels/gemm/int8_sparse.h"
#include "kernels/gemm/int8_variants.h"
#include "kernels/gemm/walk.h"
#include "kernels/ways.h"

namespace evoq {
namespace {

constexpr int64_t kPointerBytes = 64 << 10;  // pointers of one block of rows
constexpr int64_t kTilesPerWeights = 24;
constexpr int64_t kPaddedRowsPerWeights = 192;  // as long as a line of weights comes from L3
constexpr int64_t kMaxTileRows = 64;

struct Int8Linear {
  Int8LinearSpec spec;
  Int8Rows rows;
  K4N16 weights;
  const Int8TileDef* isa;
  std::vector<int32_t> bias;  // per padded column: spec.bias - x_zero * weight_sum, without x_zero
                              // when it comes at run
  std::vector<int32_t> w_zero;  // per padded column, of the stored bytes; empty when all are 0
  std::vector<int32_t>
      weight_sum;  // per padded column: sum of w - w_zero; not computed where nothing uses it
  std::vector<float> multiplier, offset, slopes;  // the last two may be empty
  std::shared_ptr<const SparseInt8> sparse;       // null: spec.weights are k4n16
  std::shared_ptr<const BoundedInt8> bounded;     // of the instruction set's bounded tiles; or null
  std::vector<int32_t> lanes;  // of the tile, when several groups share a panel; empty otherwise
  int tile_rows = 1, tile_panels = 1;
  int64_t block_rows = 1, blocks = 1;  // rows are cut into blocks,
  int64_t splits = 1;                  // and the panels of a group into splits
  int64_t parts = 1;  // parallel pieces of blocks x groups x splits, each with its own scratch
  size_t part_bytes = 0;
  Int8Copies copies;

  // Groups that are worked on one by one.
  int64_t groups() const { return lanes.empty() ? spec.geometry.group : 1; }
  int64_t group_columns() const { return spec.geometry.out_channels / groups(); }
  int64_t items() const { return blocks * groups() * splits; }
  bool writes_range = false, range_in_tile = false;  // by the tiles, or else by FinishItem
  int64_t column_bytes() const { return RoundUp(static_cast<int64_t>(4 * bias.size()), 64); }
  size_t scratch_bytes() const {
    return rows.scratch_bytes() + 2 * column_bytes() + parts * part_bytes;
  }

  // Runs do not read what PrepareColumns copied, nor sums that are folded into the bias.
  void DropWhatIsFolded() {
    spec.bias = {};
    spec.w_zero = {};
    spec.offset = {};
    spec.epilogue.multiplier = {};
    spec.epilogue.slopes = {};
    if (spec.x_zero_input < 0) weight_sum = {};
  }
  // Whether the input has, or may have at run time, a zero point other than 0.
  bool UsesWeightSums() const { return spec.x_zero_input >= 0 || stored_zero() != 0; }
  int32_t stored_zero() const { return spec.x_zero + (spec.x_signed ? 128 : 0); }
  std::vector<int32_t> SumWeights() const;
  void PrepareColumns();
  void PrepareLanes();
  void PrepareBounded();
  void ChooseTile(const CpuModel& cpu, int panels_wanted);
  void ChooseBlocks(const BindOptions& options, const Int8Variant& variant);
  void CutForThreads(const BindOptions& options, double row_bytes, ShareBy cut);
  // What a part's scratch holds: pointers, row sums, copied rows, and the range.
  int64_t pointer_bytes() const { return RoundUp(8 * block_rows * rows.pointers_per_row(), 64); }
  int64_t sum_bytes() const { return RoundUp(4 * block_rows, 64); }
  void Run(const void* const* in, void* const* out, const RunContext& context) const;
  void RunPart(Int8Tile base, const Int8Rows::Input& input, int64_t begin, int64_t end,
               std::byte* scratch) const;
  float* RangeOf(std::byte* part) const {
    return reinterpret_cast<float*>(part + part_bytes - kRangeBytes);
  }
  void FinishItem(const Int8Tile& base, int64_t block, int64_t group, int64_t split,
                  float* range) const;
  void RunItem(Int8Tile tile, int64_t block, int64_t group, int64_t split,
               const uint8_t* const* pointers, int32_t* row_sums) const;
  void SumRows(int64_t group, int64_t count, const uint8_t* const* pointers,
               int32_t* row_sums) const;
};

// The sums of the stored weights of each column.
std::vector<int32_t> Int8Linear::SumWeights() const {
  std::vector<int32_t> sums(static_cast<size_t>(weights.panels * 16), 0);
  if (sparse != nullptr) {
    SumSparseColumns(*ReadBlocks(spec.weights), sums);
    return sums;
  }
  const std::vector<uint8_t> ones(static_cast<size_t>(weights.panel_bytes / 16), 1);
  SumInt8Columns(*isa, reinterpret_cast<const int8_t*>(spec.weights.raw()), weights.panel_bytes,
                 weights.panels, ones.data(), sums.data());
  return sums;
}

// Folds everything that depends on the output channel only.
void Int8Linear::PrepareColumns() {
  const size_t padded = static_cast<size_t>(weights.panels * 16);
  const bool flipped = spec.weights.dtype() == DType::kUint8;
  bias.assign(padded, 0);
  multiplier.assign(padded, 0);
  if (!spec.offset.empty()) offset.assign(padded, 0);
  const auto stored_zero_of = [&](int64_t n) {
    const auto& zeros = spec.w_zero;
    return (zeros.empty()       ? 0
            : zeros.size() == 1 ? zeros[0]
                                : zeros[static_cast<size_t>(n)]) -
           (flipped ? 128 : 0);
  };
  bool any_zero = false;
  for (int64_t n = 0; n < weights.columns; ++n) any_zero |= stored_zero_of(n) != 0;
  if (any_zero) w_zero.assign(padded, 0);
  if (UsesWeightSums()) {
    weight_sum = *Derive<std::vector<int32_t>>(spec.weights, "sums of columns",
                                               [&] { return SumWeights(); });
  }
  for (int64_t n = 0; n < weights.columns; ++n) {
    if (any_zero) w_zero[n] = stored_zero_of(n);
    if (any_zero && UsesWeightSums())
      weight_sum[n] -= static_cast<int32_t>(weights.taps * weights.channels * w_zero[n]);
    if (!spec.bias.empty()) bias[n] = spec.bias[n];
    if (!spec.epilogue.multiplier.empty()) multiplier[n] = spec.epilogue.multiplier[n];
    if (!spec.offset.empty()) offset[n] = spec.offset[n];
  }
  std::vector<double> bounds;
  for (int64_t n = 0; n < weights.columns; ++n)
    bounds.push_back(255.0 * 255.0 * static_cast<double>(weights.taps * weights.channels) +
                     std::abs(static_cast<double>(bias[n])));
  spec.epilogue.SetSmall(bounds);
  slopes = spec.epilogue.slopes;
  if (!slopes.empty()) slopes.resize(padded, 1);
}

void AddZeroTerm(std::span<const int32_t> weight_sum, int32_t x_zero, const int32_t* from,
                 int32_t* to) {
  for (size_t n = 0; n < weight_sum.size(); ++n)
    to[n] =
        static_cast<int32_t>(static_cast<uint32_t>(from[n]) -
                             static_cast<uint32_t>(x_zero) * static_cast<uint32_t>(weight_sum[n]));
}

// Groups of at most eight output channels, whole ones to a panel, whose channels fit one register.
void Int8Linear::PrepareLanes() {
  const Int8Geometry& g = spec.geometry;
  const int64_t columns = g.group_columns();
  if (!TilesFor(*isa, {rows.count(), weights.panel_bytes / 16, true}).tiles->takes_lanes ||
      g.group == 1 || columns > 8 || 16 % columns != 0 || !w_zero.empty())
    return;
  if (16 / columns * weights.groups_of_4 > 16) return;
  for (int64_t n = 0; n < 16; ++n)
    lanes.push_back(static_cast<int32_t>(n / columns * weights.groups_of_4));
}

// For several tiles of rows, whose products are long enough to make up for transposing them.
void Int8Linear::PrepareBounded() {
  constexpr int64_t kLeastRows = 12, kLeastGroups = 16;
  const int64_t groups = weights.panel_bytes / 64;
  if (sparse != nullptr || isa->bounded == nullptr || rows.count() < kLeastRows ||
      groups < kLeastGroups || groups > kMaxBoundedGroups)
    return;
  bounded = Derive<BoundedInt8>(spec.weights, fmt::format("bounded {}", isa->name), [&] {
    return BoundInt8Weights(reinterpret_cast<const int8_t*>(spec.weights.raw()), weights, *isa);
  });
  if (bounded->weights.size() > 0) isa = isa->bounded;
}

// Tall tiles for many rows; wide ones for few rows, and where rows would evict one another from the
// L1 cache, unless tiles take a row's lines whole.
void Int8Linear::ChooseTile(const CpuModel& cpu, int panels_wanted) {
  const int64_t stride = rows.pixel_bytes() * spec.geometry.stride[2];
  const bool crowded =
      isa->row_step == 1 &&
      (stride % cpu.l1_alias_bytes == 0 ||
       (stride % (cpu.l1_alias_bytes / 2) == 0 && rows.tap_bytes() > 64) ||
       spec.geometry.out_channels * spec.epilogue.y_bytes() % cpu.l1_alias_bytes == 0);
  const int64_t panels = lanes.empty() ? CeilDiv(group_columns(), 16) : 1;
  tile_panels = static_cast<int>(std::min<int64_t>(panels >= 2 ? 2 : 1, isa->max_panels));
  const int64_t count = std::max<int64_t>(1, rows.count());
  const bool few = count <= isa->max_rows[4] || isa->max_rows[4] == isa->max_rows[2] ||
                   (crowded && count > cpu.l1_alias_rows);
  if (isa->max_panels >= 4 && panels >= 4 && few) tile_panels = 4;
  if (panels_wanted > 0 && panels_wanted <= isa->max_panels && panels > panels_wanted / 2)
    tile_panels = panels_wanted;
  tile_rows = TileRows(*isa, tile_panels, count);
}

// Cuts the blocks further, and panels into splits.
void Int8Linear::CutForThreads(const BindOptions& options, double row_bytes, ShareBy cut) {
  const ProductRates& rates = options.cpu->int8;
  SharedWork work;
  work.tiles = CeilDiv(std::max<int64_t>(1, rows.count()), tile_rows);
  work.units = CeilDiv(CeilDiv(group_columns(), 16), tile_panels);
  work.products = groups();
  work.least_row_blocks = blocks;
  work.tile_ns = static_cast<double>(tile_rows) * rows.taps() * rows.tap_bytes() * 16 *
                 tile_panels / rates.macs_per_ns * (sparse != nullptr ? sparse->share : 1);
  work.rows_ns = tile_rows * (row_bytes / rates.bytes_per_ns / static_cast<double>(groups()));
  work.columns_ns = static_cast<double>(weights.panel_bytes) * tile_panels / rates.bytes_per_ns;
  work.task_ns = rates.task_ns;
  const ShareRule rule = {.by = cut, .most_per_thread = 4, .whole_rounds = true};
  const SharedOut shared = ShareOut(work, rule, options.threads, *options.cpu);
  blocks = shared.row_blocks;
  splits = shared.column_blocks;
  block_rows = CeilDiv(work.tiles, blocks) * tile_rows;
}

void Int8Linear::ChooseBlocks(const BindOptions& options, const Int8Variant& variant) {
  const int threads = options.threads;
  // Of activations and outputs of one block of rows.
  const int64_t cache_bytes = options.cpu->l2_share();
  const Int8Geometry& g = spec.geometry;
  const int64_t count = std::max<int64_t>(1, rows.count());
  const int64_t row_bytes = g.stride[0] * g.stride[1] * g.stride[2] * rows.pixel_bytes() +
                            g.out_channels * spec.epilogue.y_bytes() +
                            (copies.all() ? copies.stride() : 0);
  const int64_t larger = variant.large_blocks ? 4 : 1;
  const int64_t wanted = std::min(larger * cache_bytes / row_bytes,
                                  larger * kPointerBytes / (8 * rows.pointers_per_row()));
  const int64_t weight_bytes = weights.panels * weights.panel_bytes;
  const auto set_blocks = [&](int64_t size) {
    size = std::clamp<int64_t>(size, 1, count);
    block_rows = RoundUp(CeilDiv(count, CeilDiv(count, size)), tile_rows);
    blocks = CeilDiv(count, block_rows);
  };
  // Weights that do not stay in the cache are read once per block: for many tiles.
  const bool weights_stay = weight_bytes <= 2 * cache_bytes;
  const int64_t chosen = ParseWay(options.variant).block_rows;
  // Padded tiles load rows from the next cache, past the nearest one: they must not leave it.
  const int64_t for_weights =
      copies.padded() ? kPaddedRowsPerWeights : kTilesPerWeights * tile_rows;
  set_blocks(chosen > 0 ? chosen : std::max(wanted, weights_stay ? 1 : for_weights));
  if (threads > 1) CutForThreads(options, static_cast<double>(row_bytes), variant.cut);
  // Many items make parts of neighbours, which share their rows' pointers.
  const int64_t even = CeilDiv(items(), 8 * threads);
  parts = threads == 1 ? 1 : CeilDiv(items(), even);
  part_bytes =
      static_cast<size_t>(pointer_bytes() + sum_bytes() + copies.bytes(block_rows) + kRangeBytes);
}

void Int8Linear::SumRows(int64_t group, int64_t count, const uint8_t* const* pointers,
                         int32_t* row_sums) const {
  const int64_t taps = rows.taps(), offset = group * rows.group_bytes();
  if (rows.tap_offsets() != nullptr) {
    for (int64_t i = 0; i < count; i += tile_rows) {
      const int64_t n = std::min<int64_t>(tile_rows, count - i);
      std::fill_n(row_sums + i, n, 0);
      for (int64_t t = 0; t < taps; ++t) {
        int32_t sums[kMaxTileRows];
        isa->rows->sum_rows(pointers + i, 0, 1, offset + rows.tap_offsets()[t], rows.tap_bytes(), n,
                            sums);
        for (int64_t r = 0; r < n; ++r)
          row_sums[i + r] = static_cast<int32_t>(static_cast<uint32_t>(row_sums[i + r]) +
                                                 static_cast<uint32_t>(sums[r]));
      }
    }
    return;
  }
  for (int64_t i = 0; i < count; i += tile_rows)
    isa->rows->sum_rows(pointers + i * taps, tile_rows, taps, offset, rows.tap_bytes(),
                        std::min<int64_t>(tile_rows, count - i), row_sums + i);
}

// Mapped weights miss the TLB once a run, and a prefetch waits for its page's address: asked for
// together, pages are looked up side by side. Makes known what lies before `wanted`, and some pages
// more.
void FetchPages(const int8_t*& known, const int8_t* wanted, const int8_t* end) {
  constexpr int64_t kPage = 4096, kTogether = 16;
  if (known >= wanted) return;
  wanted = std::min(end, std::max(wanted, known + kTogether * kPage));
  for (; known < wanted; known += kPage) __builtin_prefetch(known, 0, 2);
}

void Int8Linear::RunItem(Int8Tile tile, int64_t block, int64_t group, int64_t split,
                         const uint8_t* const* pointers, int32_t* row_sums) const {
  const int64_t first_row = block * block_rows,
                count = std::min(block_rows, rows.count() - first_row);
  const int64_t first_column = group * group_columns(),
                last_column = first_column + group_columns();
  const int64_t first_panel = first_column / 16, panels = CeilDiv(last_column, 16) - first_panel;
  const int64_t chunks = CeilDiv(panels, tile_panels);
  const int64_t end = first_panel + std::min(panels, (split + 1) * chunks / splits * tile_panels);
  const Int8Tile base = tile;
  tile.x_offset = copies.all() ? 0 : group * rows.group_bytes();
  tile.row_stride = rows.tap_offsets() != nullptr ? 0 : tile_rows;
  const int64_t pointers_per_row = copies.all() ? 1 : rows.pointers_per_row();
  const int64_t begin = first_panel + split * chunks / splits * tile_panels;
  const int64_t stored = sparse == nullptr ? weights.panel_bytes : 0;
  const int8_t* known = base.weights + begin * stored;
  const int8_t* const weights_end = base.weights + end * stored;
  const bool walks = sparse == nullptr && isa->row_step == 1 && count >= kLeastWalkRows &&
                     count <= tile_rows && rows.taps() == 1;
  for (int64_t panel = begin; panel < end; panel += tile.panel_count) {
    const int64_t left = std::min<int64_t>(end - panel, tile_panels), column = 16 * panel;
    tile.panel_count = static_cast<int32_t>(left >= 4 ? 4 : left >= 2 ? 2 : 1);
    const int64_t after = column + 16 * tile.panel_count;
    if (sparse == nullptr)
      FetchPages(known, base.weights + std::min(end, panel + 2 * tile_panels) * weights.panel_bytes,
                 weights_end);
    tile.first_mask = column < first_column ? 0xffffu << (first_column - column) : 0xffffu;
    tile.last_mask = after > last_column ? 0xffffu >> (after - last_column) : 0xffffu;
    if (!lanes.empty()) {
      const int64_t group_words = weights.groups_of_4,
                    first = column / spec.geometry.group_columns();
      tile.lanes = lanes.data();
      tile.x_offset = first * rows.group_bytes();
      tile.lane_words = static_cast<int32_t>(
          std::min(16 / spec.geometry.group_columns(), spec.geometry.group - first) * group_words);
    }
    tile.sparse_panel = panel;
    if (sparse == nullptr) tile.weights = base.weights + panel * weights.panel_bytes;
    if (tile.excess_begin != nullptr) tile.excess_begin = base.excess_begin + 17 * panel;
    tile.bias = base.bias + column;
    tile.multiplier = base.multiplier + column;
    if (tile.slopes != nullptr) tile.slopes = base.slopes + column;
    if (tile.offset != nullptr) tile.offset = base.offset + column;
    if (tile.w_zero != nullptr) tile.w_zero = base.w_zero + column;
    for (int64_t row = 0; row < count; row += tile.row_count) {
      tile.row_count =
          static_cast<int32_t>(std::min<int64_t>(copies.padded() ? count : tile_rows, count - row));
      if (copies.padded()) {
        const int64_t next = std::min<int64_t>(tile_panels, end - panel - tile.panel_count);
        tile.prefetch = next > 0 ? tile.panel_count * stored : 0;
        tile.prefetch_line = next * stored;
      } else if (walks) {
        tile.prefetch = kWalkAhead;
        tile.prefetch_line = stored;
      } else {  // each tile fetches one of the panels that come next
        const int64_t next = tile.panel_count + row / tile_rows;
        tile.prefetch = next < 2 * tile_panels && panel + next < end ? next * stored : 0;
      }
      tile.rows = pointers + row * pointers_per_row;
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

// The finishing of the rows and columns that RunItem wrote.
void Int8Linear::FinishItem(const Int8Tile& base, int64_t block, int64_t group, int64_t split,
                            float* range) const {
  const int64_t first_row = block * block_rows,
                count = std::min(block_rows, rows.count() - first_row);
  const int64_t first_column = group * group_columns(),
                last_column = first_column + group_columns();
  const int64_t first_panel = first_column / 16,
                chunks = CeilDiv(CeilDiv(last_column, 16) - first_panel, tile_panels);
  const int64_t begin =
      std::max(first_column, 16 * (first_panel + split * chunks / splits * tile_panels));
  const int64_t end =
      std::min(last_column, 16 * (first_panel + (split + 1) * chunks / splits * tile_panels));
  uint8_t* y = base.y + first_row * base.y_stride + begin * spec.epilogue.y_bytes();
  spec.finish.Rows(y, count, end - begin, base.y_stride, range);
}

void Int8Linear::RunPart(Int8Tile base, const Int8Rows::Input& input, int64_t begin, int64_t end,
                         std::byte* scratch) const {
  Int8TileTask task(*isa, base);
  auto* pointers = reinterpret_cast<const uint8_t**>(scratch);
  auto* row_sums = reinterpret_cast<int32_t*>(scratch + pointer_bytes());
  std::byte* const room = scratch + pointer_bytes() + sum_bytes();
  const int64_t per_block = groups() * splits;
  float* range = RangeOf(scratch);
  std::fill_n(range, kRangeBytes / 4, 0.0f);
  int64_t ready = -1, ready_group = -1;
  const uint8_t* const* taken = pointers;
  for (int64_t item = begin; item < end; ++item) {
    const int64_t block = item / per_block, group = item % per_block / splits;
    const int64_t first = block * block_rows, count = std::min(block_rows, rows.count() - first);
    if (block != ready) {
      rows.Pointers(*isa, input, first, count, tile_rows, pointers);
      ready_group = -1;
    }
    if (block != ready || group != ready_group) {
      if (base.w_zero != nullptr) SumRows(group, count, pointers, row_sums);
      taken = copies.Copy(*isa, rows, group, count, tile_rows, block_rows, pointers, room);
    }
    ready = block, ready_group = group;
    if (range_in_tile) base.range = range;
    RunItem(base, block, group, item % splits, taken, row_sums);
    task.Flush();  // the next item has its own row_sums
    if (spec.finish.any()) FinishItem(base, block, group, item % splits, range);
  }
}

void Int8Linear::Run(const void* const* in, void* const* out, const RunContext& context) const {
  if (rows.count() == 0) {
    if (writes_range) JoinRanges(nullptr, 0, 0, static_cast<float*>(out[1]));
    return;
  }
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
  tile.multiplier = multiplier.data();
  if (!slopes.empty()) tile.slopes = slopes.data();
  if (spec.x_scale_input >= 0) {
    auto* scaled = reinterpret_cast<float*>(scratch + column_bytes());
    const float scale = *static_cast<const float*>(in[spec.x_scale_input]);
    for (size_t n = 0; n < multiplier.size(); ++n) scaled[n] = scale * multiplier[n];
    tile.multiplier = scaled;
  }
  scratch += 2 * column_bytes();
  if (!offset.empty()) tile.offset = offset.data();
  tile.taps = rows.taps();
  tile.tap_offsets = rows.tap_offsets();
  tile.groups_of_4 = rows.tap_bytes() / 4;
  tile.padded = copies.padded();
  if (copies.all()) {  // all taps are one
    tile.groups_of_4 *= tile.taps;
    tile.taps = 1;
    tile.tap_offsets = nullptr;
  }
  tile.weights = reinterpret_cast<const int8_t*>(spec.weights.raw());
  if (sparse != nullptr) tile.sparse = &sparse->tiles;
  if (bounded != nullptr && bounded->weights.size() > 0) {
    tile.weights = reinterpret_cast<const int8_t*>(bounded->weights.data());
    tile.excess = bounded->excess.data();
    tile.excess_begin = bounded->begin.data();
  }
  tile.panel_bytes = weights.panel_bytes;
  tile.w_zero = w_zero.empty() ? nullptr : w_zero.data();
  tile.y = static_cast<uint8_t*>(out[0]);
  tile.y_stride = spec.geometry.out_channels * spec.epilogue.y_bytes();
  if (tile.residual_type != Int8Residual::kNone) {
    tile.residual = static_cast<const uint8_t*>(in[spec.epilogue.residual_input]);
    tile.residual_stride =
        spec.geometry.out_channels * (tile.residual_type == Int8Residual::kFloat32 ? 4 : 1);
  }
  context.pool.ParallelFor(parts, 1, [&](int64_t begin, int64_t end) {
    for (int64_t part = begin; part < end; ++part)
      RunPart(tile, input, part * items() / parts, (part + 1) * items() / parts,
              scratch + part * part_bytes);
  });
  if (writes_range) JoinRanges(scratch, part_bytes, parts, static_cast<float*>(out[1]));
}

}  // namespace

int32_t RunZero(const Int8LinearSpec& spec, const void* const* in) {
  if (spec.x_zero_input < 0) return spec.x_zero;
  return spec.x_signed ? *static_cast<const int8_t*>(in[spec.x_zero_input])
                       : *static_cast<const uint8_t*>(in[spec.x_zero_input]);
}

Result<K4N16> CheckPackedWeights(const Tensor& weights) {
  const bool conv = weights.layout() == kK4N16Conv;
  if (!conv && weights.layout() != kK4N16MatMul)
    return InvalidInput("weights have layout '{}', expected k4n16", weights.layout());
  EVOQ_ASSIGN(const K4N16 packed,
              conv ? K4N16OfConv(weights.type()) : K4N16OfMatMul(weights.type()));
  if (weights.bytes() != static_cast<size_t>(packed.panels * packed.panel_bytes))
    return InvalidInput("packed weights have {} bytes, expected {}", weights.bytes(),
                        packed.panels * packed.panel_bytes);
  if (reinterpret_cast<uintptr_t>(weights.raw()) % 64 != 0)
    return InvalidInput("packed weights are not aligned to 64 bytes");
  return packed;
}

EVOQ_SMALL_CODE Result<BoundKernel> BindInt8Linear(Int8LinearSpec spec,
                                                   const BindOptions& options) {
  const Int8Variant choice = ParseInt8Variant(options.variant);
  K4N16 weights;
  std::shared_ptr<const SparseInt8> sparse;
  const Int8TileDef* sparse_tiles = nullptr;
  if (IsBlockLayout(spec.weights.layout())) {
    EVOQ_TRY(FindLayout(spec.weights.layout())->check(spec.weights));
    EVOQ_ASSIGN(const BlockWeights blocks, ReadBlocks(spec.weights));
    weights = blocks.sizes;
    sparse_tiles = SparseTilesFor(spec, blocks, options);
    EVOQ_CHECK(sparse_tiles != nullptr, "{}", spec.weights.layout());
    sparse = PrepareSparse(blocks, *sparse_tiles);
  } else {
    EVOQ_ASSIGN(weights, CheckPackedWeights(spec.weights));
  }
  // Rows that are copied tap by tap are copied from where a row's taps lie together.
  const Int8Use use = {
      .rows = spec.geometry.rows(), .depth = weights.panel_bytes / 16, .smallest = choice.smallest};
  const bool pads =
      sparse == nullptr && TilesFor(Int8TileFor(options.isa), use).tiles->copy_rows != nullptr;
  Int8Rows rows(spec.geometry, 4 * weights.groups_of_4, spec.x_signed, true, pads);
  Int8Linear linear{std::move(spec), std::move(rows), weights, &Int8TileFor(options.isa)};
  linear.sparse = std::move(sparse);
  linear.PrepareColumns();
  if (linear.spec.x_zero_input < 0)
    AddZeroTerm(linear.weight_sum, linear.stored_zero(), linear.bias.data(), linear.bias.data());
  linear.DropWhatIsFolded();
  if (linear.sparse == nullptr) linear.PrepareLanes();
  Int8TileChoice tiles = TilesFor(*linear.isa, {linear.rows.count(), weights.panel_bytes / 16,
                                                !linear.lanes.empty(), choice.smallest});
  if (sparse_tiles != nullptr) tiles = {sparse_tiles};
  linear.isa = tiles.tiles;
  linear.range_in_tile =
      linear.spec.finish.range && linear.isa->takes_range && !linear.spec.finish.curve;
  if (linear.range_in_tile) linear.spec.finish.range = false;
  linear.writes_range = linear.spec.finish.range || linear.range_in_tile;
  linear.PrepareBounded();
  linear.ChooseTile(*options.cpu, choice.panels);
  if (linear.sparse == nullptr)
    linear.copies = Int8Copies(*linear.isa, linear.rows, linear.groups(), linear.weights.panels);
  linear.ChooseBlocks(options, choice);
  KernelPlan plan{.code = linear.isa->name,
                  .tile_rows = linear.tile_rows,
                  .tile_columns = 16 * linear.tile_panels,
                  .method = tiles.why};
  if (linear.sparse != nullptr) {
    plan.method = BlockMethod(linear.sparse->shape, linear.sparse->share);
  } else if (const int64_t block = ParseWay(options.variant).block_rows; block > 0) {
    plan.method = Way{.block_rows = block}.ToString();
  }
  const size_t scratch = linear.scratch_bytes();
  return BoundKernel::Of(std::move(linear), scratch, std::move(plan));
}

}  // namespace evoq
