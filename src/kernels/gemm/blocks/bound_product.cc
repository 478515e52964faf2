#include "kernels/gemm/blocks/bound_product.h"

#include "kernels/parallel.h"

namespace evoq {

Result<BoundProduct> BoundProduct::Bind(const Tensor& weights, int64_t data_block, int64_t rows,
                                        const BindOptions& options) {
  BoundProduct product;
  product.table_ = RowFor(kBlockRows, options.isa).table;
  product.rows_ = rows;
  product.asks_ahead_ = options.cpu->asks_ahead;
  EVOQ_ASSIGN(product.weights_, BindBlocks(weights, data_block));
  product.CutRows(options.cpu->one_set_of_ports);
  const double depth = static_cast<double>(product.depth());
  product.quantize_grain_ = Grain(rows, depth * 0.1, options.threads);
  const int64_t units = product.units(), tiles = product.tiles();
  product.row_parts_ =
      std::clamp<int64_t>(units == 0 ? 1 : CeilDiv(int64_t{4} * options.threads, units), 1,
                          options.threads > 1 ? std::max<int64_t>(tiles, 1) : 1);
  const double parts = static_cast<double>(product.row_parts_);
  const double unit_ns = depth * (0.2 + 0.1 * static_cast<double>(rows) / parts);
  product.grain_ = Grain(units * product.row_parts_, unit_ns, options.threads);
  const auto products = {CheckedMul(rows, product.stride()),
                         CheckedMul(rows, product.weights_.stream.cut.blocks() * 8),
                         CheckedMul(options.threads, product.unit_bytes())};
  int64_t scratch = 256;
  for (const auto& bytes : products) {
    const auto sum = bytes ? CheckedAdd(scratch, *bytes) : std::nullopt;
    if (!sum) return Fail(ErrorCode::kTooLarge, "a product of {} rows", rows);
    scratch = *sum;
  }
  const auto rounded = CheckedAdd(scratch, 63);
  if (!rounded) return Fail(ErrorCode::kTooLarge, "a product of {} rows", rows);
  product.scratch_bytes_ = *rounded / 64 * 64;
  return product;
}

void BoundProduct::CutRows(bool tall) {
  const BlockTable& t = *table_;
  if (tall && t.tall_rows > 0 && rows_ > t.max_rows) {
    unpacks_ = rows_ > 2 * t.tall_direct_rows;
    tile_rows_ = unpacks_ ? t.tall_rows : t.tall_direct_rows;
  } else {
    unpacks_ = weights_.groups > 1 && rows_ > t.direct_rows;
    tile_rows_ = t.max_rows;
  }
}

KernelPlan BoundProduct::Describe() const {
  KernelPlan plan;
  plan.code = table_->name;
  plan.tile_rows = static_cast<int>(tile_rows_);
  plan.tile_columns = table_->panels(plan.tile_rows) * kBlockColumns;
  plan.method = unpacks_ ? "unpacking" : "";
  return plan;
}

int32_t BoundProduct::factor() const {
  const bool from_signed = weights_.kind == BlockLines::kFlippedBytes && table_->signed_bytes;
  return weights_.factor + (from_signed && !weights_.stream.has_zeros ? 128 : 0);
}

BlockRows BoundProduct::Round(const float* a, const float* bias, const float* residual, float* y,
                              std::byte* scratch, ThreadPool& pool) const {
  const BlockCut& cut = weights_.stream.cut;
  auto* q = reinterpret_cast<int8_t*>(scratch);
  auto* scales = reinterpret_cast<float*>(scratch + q_bytes());
  auto* corrections = reinterpret_cast<int32_t*>(scratch + q_bytes() + scale_bytes());
  pool.ParallelFor(rows_, quantize_grain_, [&](int64_t begin, int64_t end) {
    for (int64_t m = begin; m < end; ++m)
      table_->quantize(a + m * cut.depth, cut, factor(), rows_, stride(), q + m * stride(),
                       scales + m, corrections + m);
  });
  return {rows_, stride(), q, scales, corrections, bias, residual, y, asks_ahead_};
}

int64_t BoundProduct::Multiply(const BlockRows& operands, int64_t unit, int64_t first, int64_t last,
                               uint8_t* unpacked) const {
  const int64_t panel = unit * kUnitPanels, all = CeilDiv(columns(), int64_t{kBlockColumns});
  const int panels = static_cast<int>(std::min<int64_t>(kUnitPanels, all - panel));
  BlockUnit b = {weights_.stream, weights_.bytes() + unit * weights_.unit_bytes};
  BlockLines kind = weights_.kind;
  if (unpacks_) {
    table_->unpack(kind, b, unpacked);
    b.bytes = unpacked;
    kind = BlockLines::kSmallBytes;
  }
  for (int64_t i = first; i < last; ++i) {
    const int64_t row = RowOfTile(i), end = RowOfTile(i + 1);
    for (int p = 0; p < panels; p += table_->panels(end - row))
      table_->tile(kind, b, operands, row, static_cast<int>(end - row), panel + p);
  }
  return std::min<int64_t>(panels * kBlockColumns, columns() - panel * kBlockColumns);
}

}  // namespace evoq
