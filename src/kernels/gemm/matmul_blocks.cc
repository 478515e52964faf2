// matmul_blocks: MatMul of float32 rows that are rounded to int8 by blocks (attribute data_block,
// blocks/block_data.h) by constant weights of 2, 4 or 8 bits, with integer dot products.
#include <algorithm>

#include "base/math.h"
#include "kernels/call_util.h"
#include "kernels/gemm/blocks/block_data.h"
#include "kernels/gemm/blocks/weights.h"
#include "kernels/gemm/float_rows.h"
#include "kernels/gemm/matmul_shape.h"
#include "kernels/gemm/share_out.h"
#include "kernels/parallel.h"

namespace evoq {
namespace {

std::optional<Reason> RejectCall(const KernelCall& call, MatMulShape& shape) {
  const int64_t data_block = call.attrs.Int(kDataBlock, 0);
  if (data_block < 1) return Reject("attribute", "no data_block: the data is not rounded");
  if (auto why = RejectFloatOperands(call, "a, b and y")) return why;
  if (call.constant(1) == nullptr) return Reject("not-constant", "b is computed");
  if (auto unknown = RejectUnknownShapes(call)) return unknown;
  if (auto why = RejectBlocks(call.inputs[1], data_block)) return why;
  if (!ActivationFromAttrs(call.attrs))
    return Reject("attribute", "activation {}", call.attrs.String("activation"));
  return ReadMatMulShape(call, shape);
}

std::optional<Reason> RejectMatMulBlocks(const KernelCall& call) {
  MatMulShape shape;
  return RejectCall(call, shape);
}

struct MatMulBlocks {
  BoundBlocks weights;
  const BlockTable* table = nullptr;
  FloatRows rows;
  int64_t row_parts = 1, quantize_grain = 1, grain = 1;

  bool unpacks() const { return weights.groups > 1 && rows.rows > table->direct_rows; }
  int32_t factor() const {
    const bool from_signed = weights.kind == BlockLines::kFlippedBytes && table->signed_bytes;
    return weights.factor + (from_signed && !weights.stream.has_zeros ? 128 : 0);
  }
  // An odd number of cache lines: rows of q a multiple of 4 KiB apart would evict one another from
  // the L1 cache.
  int64_t stride() const { return RoundUp(weights.stream.cut.depth, 64) | 64; }
  int64_t units() const { return CeilDiv(weights.stream.columns, int64_t{kUnitColumns}); }
  // Of a thread, for a unpacked unit.
  int64_t unit_bytes() const { return unpacks() ? weights.groups * weights.unit_bytes : 0; }

  // Scratch: q, its scales, the corrections, the units of the threads.
  int64_t q_bytes() const { return rows.rows * stride(); }
  int64_t scale_bytes() const {
    return RoundUp(rows.rows * weights.stream.cut.data_blocks() * 4, 64);
  }
  int64_t correction_bytes() const {
    return RoundUp(rows.rows * weights.stream.cut.blocks() * 4, 64);
  }

  void Run(const void* const* in, void* const* out, const RunContext& context) const {
    const BlockCut& cut = weights.stream.cut;
    auto* q = reinterpret_cast<int8_t*>(context.scratch);
    auto* scales = reinterpret_cast<float*>(context.scratch + q_bytes());
    auto* corrections = reinterpret_cast<int32_t*>(context.scratch + q_bytes() + scale_bytes());
    auto* units_of_threads = reinterpret_cast<uint8_t*>(context.scratch + q_bytes() +
                                                        scale_bytes() + correction_bytes());
    const auto* a = static_cast<const float*>(in[0]);
    context.pool.ParallelFor(rows.rows, quantize_grain, [&](int64_t begin, int64_t end) {
      for (int64_t m = begin; m < end; ++m)
        table->quantize(a + m * cut.depth, cut, factor(), stride(), q + m * stride(),
                        scales + m * cut.data_blocks(), corrections + m * cut.blocks());
    });
    const BlockRows operands = {rows.rows,
                                stride(),
                                q,
                                scales,
                                corrections,
                                rows.bias(in),
                                rows.residual(in),
                                static_cast<float*>(out[0])};
    context.pool.ParallelFor(units() * row_parts, grain,
                             [&](int64_t begin, int64_t end, int thread) {
                               for (int64_t task = begin; task < end; ++task)
                                 RunTask(operands, task / row_parts, task % row_parts,
                                         units_of_threads + thread * unit_bytes());
                             });
  }

  void RunTask(const BlockRows& operands, int64_t unit, int64_t part, uint8_t* unpacked) const {
    const int64_t panel = unit * kUnitPanels,
                  all = CeilDiv(weights.stream.columns, int64_t{kBlockColumns});
    const int panels = static_cast<int>(std::min<int64_t>(kUnitPanels, all - panel));
    BlockUnit b = {weights.stream, weights.bytes() + unit * weights.unit_bytes};
    BlockLines kind = weights.kind;
    if (unpacks()) {
      table->unpack(kind, b, unpacked);
      b.bytes = unpacked;
      kind = BlockLines::kSmallBytes;
    }
    const int64_t first = PartBegin(rows.rows, row_parts, part),
                  last = PartBegin(rows.rows, row_parts, part + 1);
    const int64_t tiles = CeilDiv(last - first, int64_t{table->max_rows});
    for (int64_t i = 0; i < tiles; ++i) {
      const int64_t row = first + PartBegin(last - first, tiles, i),
                    end = first + PartBegin(last - first, tiles, i + 1);
      for (int p = 0; p < panels; p += table->panels(end - row))
        table->tile(kind, b, operands, row, static_cast<int>(end - row), panel + p);
    }
    const int64_t column = panel * kBlockColumns,
                  count =
                      std::min<int64_t>(panels * kBlockColumns, weights.stream.columns - column);
    rows.Activate(operands.y + column, weights.stream.columns, first, last, count);
  }
};

Result<BoundKernel> BindMatMulBlocks(const KernelCall& call, const BindOptions& options) {
  MatMulShape shape;
  if (const auto why = RejectCall(call, shape)) return Unsupported("{}", why->sentence);
  MatMulBlocks state;
  state.table = RowFor(kBlockRows, options.isa).table;
  EVOQ_ASSIGN(state.weights, BindBlocks(*call.constant(1), call.attrs.Int(kDataBlock, 0)));
  EVOQ_ASSIGN(state.rows, FloatRowsOf(call, shape.m, options.isa));
  const double depth = static_cast<double>(shape.k), rows = static_cast<double>(shape.m);
  state.quantize_grain = Grain(shape.m, depth * 0.1, options.threads);
  const int64_t units = state.units(), tiles = CeilDiv(shape.m, int64_t{state.table->max_rows});
  state.row_parts =
      std::clamp<int64_t>(units == 0 ? 1 : CeilDiv(int64_t{4} * options.threads, units), 1,
                          options.threads > 1 ? std::max<int64_t>(tiles, 1) : 1);
  const double unit_ns = depth * (0.2 + 0.1 * rows / static_cast<double>(state.row_parts));
  state.grain = Grain(units * state.row_parts, unit_ns, options.threads);
  const auto products = {CheckedMul(shape.m, state.stride()),
                         CheckedMul(shape.m, state.weights.stream.cut.blocks() * 8),
                         CheckedMul(options.threads, state.unit_bytes())};
  int64_t scratch = 256;
  for (const auto& bytes : products) {
    const auto sum = bytes ? CheckedAdd(scratch, *bytes) : std::nullopt;
    if (!sum) return Fail(ErrorCode::kTooLarge, "MatMul: {} rows", shape.m);
    scratch = *sum;
  }
  KernelPlan plan;
  plan.code = state.table->name;
  plan.tile_rows = state.table->max_rows;
  plan.tile_columns = state.table->panels(plan.tile_rows) * kBlockColumns;
  plan.method = state.unpacks() ? "unpacking" : "";
  return BoundKernel::Of(std::move(state), static_cast<size_t>(scratch), std::move(plan));
}

Result<Tensor> PackMatMulBlocks(const KernelCall& call, size_t input) {
  if (input != 1) return Tensor();
  return PackBlocks(*call.constant(1));
}

bool ReadsPacked(const KernelCall& call, size_t input, std::string_view layout) {
  return input == 1 && ReadsBlocks(call.inputs[1], layout);
}

}  // namespace

extern const KernelDef kMatMulBlocks = {
    .name = "matmul_blocks",
    .op = "MatMul",
    .precision = Precision::kInt8,
    .peak = Peak::kInt8,
    .reject = RejectMatMulBlocks,
    .pack = PackMatMulBlocks,
    .reads = ReadsPacked,
    .bind = BindMatMulBlocks,
};

}  // namespace evoq
