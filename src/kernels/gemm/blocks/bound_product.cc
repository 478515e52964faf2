#include "kernels/gemm/blocks/bound_product.h"

#include "kernels/parallel.h"

namespace evoq {
namespace {

constexpr int64_t kLeastTiledRows = 16;  // that make up for unpacking

}  // namespace

Result<BoundProduct> BoundProduct::Bind(const Tensor& weights, int64_t data_block, int64_t rows,
                                        const BindOptions& options) {
  BoundProduct product;
  product.table_ = RowFor(kBlockRows, options.isa).table;
  product.tiles_ = RowFor(kBlockTilesRows, options.isa).table;
  product.asks_ahead_ = options.cpu->asks_ahead;
  EVOQ_ASSIGN(product.weights_, BindBlocks(weights, data_block));
  if (!product.SetRows(rows, *options.cpu, options.threads))
    return Fail(ErrorCode::kTooLarge, "a product of {} rows", rows);
  return product;
}

bool BoundProduct::SetRows(int64_t rows, const CpuModel& cpu, int threads) {
  rows_ = rows;
  CutRows(cpu.one_set_of_ports);
  const double depth_ns = static_cast<double>(depth());
  quantize_grain_ = Grain(rows, depth_ns * 0.1, threads);
  GroupUnits(cpu, threads);
  row_parts_ = std::clamp<int64_t>(groups_ == 0 ? 1 : CeilDiv(int64_t{4} * threads, groups_), 1,
                                   threads > 1 ? std::max<int64_t>(tiles(), 1) : 1);
  const double group_ns = static_cast<double>(most_units()) * depth_ns *
                          (0.2 + 0.1 * static_cast<double>(rows) / static_cast<double>(row_parts_));
  grain_ = Grain(groups_ * row_parts_, group_ns, threads);
  const auto products = {CheckedMul(rows + kBlockTileRows, stride()),
                         CheckedMul(rows, weights_.stream.cut.blocks() * 8),
                         CheckedMul(threads, unpacked_bytes())};
  int64_t scratch = 256;
  for (const auto& bytes : products) {
    const auto sum = bytes ? CheckedAdd(scratch, *bytes) : std::nullopt;
    if (!sum) return false;
    scratch = *sum;
  }
  const auto rounded = CheckedAdd(scratch, 63);
  if (!rounded) return false;
  scratch_bytes_ = *rounded / 64 * 64;
  return true;
}

bool BoundProduct::TakesTiles() const {
  if (tiles_ == nullptr) return false;
  if (weights_.unpacked) return true;
  const bool fits = weights_.kind != BlockLines::kFlippedBytes ||
                    (!weights_.stream.has_zeros && weights_.factor == -128);
  return fits && BlockTileDepth(weights_.stream.cut) > 0;
}

void BoundProduct::CutRows(bool tall) {
  const BlockTable& t = *table_;
  tiled_ = rows_ >= kLeastTiledRows && TakesTiles();
  if (tiled_) {
    unpacks_ = true;
    steps_ = weights_.unpacked.has_value();
    tile_rows_ = kBlockTileRows;
    return;
  }
  const BlockStream& w = weights_.stream;
  const bool fits = !w.has_zeros || w.cut.block <= kMostTallBlock;
  steps_ = false;
  if (tall && fits && t.tall_rows > 0 && rows_ > t.max_rows) {
    unpacks_ = rows_ > 2 * t.tall_direct_rows;
    steps_ = unpacks_ && weights_.unpacked && t.unpack_steps != nullptr;
    const bool nested = stream().cut.pieces > 1;
    tile_rows_ = !unpacks_ ? t.tall_direct_rows : nested ? t.nested_rows : t.tall_rows;
  } else {
    steps_ = weights_.unpacked && rows_ > t.step_rows;
    unpacks_ = steps_ || (weights_.groups > 1 && rows_ > t.direct_rows);
    tile_rows_ = t.max_rows;
  }
}

void BoundProduct::GroupUnits(const CpuModel& cpu, int threads) {
  constexpr int64_t kMostUnits = 8;  // 1 KiB of a row of y
  constexpr int64_t kFewTiles = 4;   // which write little of y, and wait for weights
  groups_ = units();
  if (!unpacks_ && tiles() <= kFewTiles) return;
  const int64_t unit_bytes = unpacks_ ? unpacked_unit_bytes() : weights_.unit_bytes;
  const int64_t fit = cpu.l2_bytes / 2 / std::max<int64_t>(unit_bytes, 1);
  groups_ = CeilDiv(units(), std::clamp<int64_t>(fit, 1, kMostUnits));
  // Threads take pieces of equal size (Grain).
  if (threads > 1) groups_ = std::min(RoundUp(groups_, int64_t{2} * threads), units());
}

KernelPlan BoundProduct::Describe() const {
  KernelPlan plan;
  plan.code = tiled_ ? tiles_->name : table_->name;
  plan.tile_rows = static_cast<int>(tile_rows_);
  plan.tile_columns = tiled_ ? kUnitColumns : table_->panels(plan.tile_rows) * kBlockColumns;
  plan.method = steps_ ? "steps" : unpacks_ ? "unpacking" : "";
  return plan;
}

int32_t BoundProduct::factor() const {
  if (steps_) return -128;
  const bool from_signed = weights_.kind == BlockLines::kFlippedBytes && table_->signed_bytes;
  return weights_.factor + (from_signed && !weights_.stream.has_zeros ? 128 : 0);
}

BlockRows BoundProduct::Round(const float* a, const TakenRows& taken, const float* bias,
                              const float* residual, float* y, std::byte* scratch,
                              ThreadPool& pool) const {
  const BlockCut& cut = stream().cut;
  auto* q = reinterpret_cast<int8_t*>(scratch);
  auto* scales = reinterpret_cast<float*>(scratch + q_bytes());
  auto* corrections = reinterpret_cast<int32_t*>(scratch + q_bytes() + scale_bytes());
  const int64_t blocks = cut.blocks(), data_blocks = cut.data_blocks();
  pool.ParallelFor(rows_, quantize_grain_, [&](int64_t begin, int64_t end) {
    for (int64_t m = begin; m < end; ++m) {
      const int64_t tile = TileOfRow(m), row = RowOfTile(tile);
      table_->quantize(a + taken[m] * cut.depth, cut, factor(), RowOfTile(tile + 1) - row, stride(),
                       q + m * stride(), scales + row * data_blocks + (m - row),
                       corrections + row * blocks + (m - row));
    }
  });
  return {stride(), q, blocks, data_blocks, scales, corrections, bias, residual, y, asks_ahead_};
}

BoundProduct::Group BoundProduct::Take(int64_t index, uint8_t* unpacked) const {
  Group group = {.first = FirstUnit(index),
                 .last = FirstUnit(index + 1),
                 .kind = weights_.kind,
                 .stream = &stream(),
                 .bytes = GroupBytes(index),
                 .unit_bytes = weights_.unit_bytes};
  if (!unpacks_) return group;
  for (int64_t i = 0; i < group.last - group.first; ++i) {
    const BlockUnit unit = {weights_.stream, group.bytes + i * group.unit_bytes};
    uint8_t* const to = unpacked + i * unpacked_unit_bytes();
    if (tiled_) {
      tiles_->unpack(group.kind, unit, steps_ ? weights_.offset : weights_.factor, to);
    } else if (steps_) {
      table_->unpack_steps(group.kind, unit, weights_.offset, to);
    } else {
      table_->unpack(group.kind, unit, to);
    }
  }
  group.kind = steps_ ? BlockLines::kStepBytes : BlockLines::kSmallBytes;
  group.bytes = unpacked;
  group.unit_bytes = unpacked_unit_bytes();
  return group;
}

void BoundProduct::AskForGroup(int64_t index, BlockAhead& ahead) const {
  if (index == groups_) return;
  ahead.at = GroupBytes(index);
  ahead.end = GroupBytes(index + 1);
}

void BoundProduct::Multiply(const BlockRows& operands, const Group& group, int64_t tile,
                            int64_t next, BlockAhead& ahead) const {
  const int64_t row = RowOfTile(tile), end = RowOfTile(tile + 1);
  const int64_t all = CeilDiv(columns(), int64_t{kBlockColumns});
  for (int64_t unit = group.first; unit < group.last; ++unit) {
    // The next unit of these rows, or the first one of the next rows or of the next group.
    const bool same = unit + 1 < group.last;
    const int64_t after = same ? unit + 1 : next > tile ? group.first : group.last;
    const int64_t y_row = same ? row : RowOfTile(next), y_end = same ? end : RowOfTile(next + 1);
    ahead.y = after < units() ? operands.y + y_row * columns() + after * kUnitColumns : nullptr;
    ahead.rows = y_end - y_row;
    // Memory rests while the last of several tiles walks through a unit that lies in the caches.
    const bool rests = next < tile && group.last - group.first == 1 && unit + 1 < units();
    ahead.distance = rests ? group.unit_bytes : BlockAhead::kNear;
    const BlockUnit b = {*group.stream, group.bytes + (unit - group.first) * group.unit_bytes};
    if (tiled_) {
      tiles_->tile(group.stream->cut, b.bytes, operands, row, static_cast<int>(end - row),
                   unit * kUnitColumns, columns());
      continue;
    }
    const int64_t panel = unit * kUnitPanels, panels = std::min<int64_t>(kUnitPanels, all - panel);
    for (int p = 0; p < panels; p += table_->panels(end - row))
      table_->tile(group.kind, b, operands, row, static_cast<int>(end - row), panel + p, ahead);
  }
}

}  // namespace evoq
