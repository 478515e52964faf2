#include "kernels/gemm/blocks/weights.h"

#include <algorithm>

#include "base/math.h"
#include "kernels/call_util.h"
#include "kernels/gemm/blocks/layout_low_bits.h"
#include "kernels/gemm/layout_k4n16.h"

namespace evoq {
namespace {

constexpr int64_t kLargestBlock = 65536;  // 127 * 255 of them stay below 2^31

// How weights of one type lie and what they are multiplied as: integers q = u - offset, each of
// which stands for `unit`.
struct StoredLines {
  DType dtype;
  BlockLines kind;
  const char* layout;
  int groups;  // numbers in a byte of a line
  int32_t offset;
  float unit;

  int64_t depth() const { return 4 * groups; }
  // Blocks are multiples of it.
  int64_t block() const { return std::max<int64_t>(depth(), 8); }
};

constexpr StoredLines kStored[] = {
    {DType::kInt4, BlockLines::kNibbles, kK8N16W4, 2, 8, 1},
    {DType::kUint4, BlockLines::kNibbles, kK8N16W4, 2, 0, 1},
    {DType::kInt2, BlockLines::kPairs, kK16N16W2, 4, 2, 1},
    {DType::kUint2, BlockLines::kPairs, kK16N16W2, 4, 0, 1},
    {DType::kFloat4E2M1, BlockLines::kE2m1, kK8N16W4, 2, kE2m1Offset, 0.5f},
    {DType::kInt8, BlockLines::kFlippedBytes, kK4N16MatMul, 1, 128, 1},
    {DType::kUint8, BlockLines::kFlippedBytes, kK4N16MatMul, 1, 0, 1},
};

const StoredLines* FindStored(DType dtype) {
  for (const StoredLines& stored : kStored) {
    if (stored.dtype == dtype) return &stored;
  }
  return nullptr;
}

// The cut of K for blocks of the weights (0: one) and of the data; blocks that K does not reach
// count as one that ends with it. Nothing where they have no common pieces.
std::optional<BlockCut> CutOf(int64_t depth, int64_t weight_block, int64_t data_block,
                              int64_t unit) {
  const bool whole_weights = weight_block == 0 || weight_block >= depth,
             whole_data = data_block >= depth;
  BlockCut cut = {depth, 0, 1, 1};
  if (whole_weights && whole_data) {
    cut.block = RoundUp(std::max<int64_t>(depth, 1), unit);
    return cut;
  }
  cut.block = whole_weights ? data_block
              : whole_data  ? weight_block
                            : std::min(weight_block, data_block);
  if (cut.block % unit != 0) return std::nullopt;
  cut.blocks_per_scale = whole_weights ? cut.blocks() : weight_block / cut.block;
  cut.pieces = whole_data ? cut.blocks() : data_block / cut.block;
  if ((!whole_weights && weight_block % cut.block != 0) ||
      (!whole_data && data_block % cut.block != 0))
    return std::nullopt;
  return cut;
}

std::optional<uint16_t> ExactHalf(float x) {
  const uint16_t half = FloatToHalf(x);
  return HalfToFloat(half) == x ? std::optional(half) : std::nullopt;
}

Status BindScales(const QuantParams& quant, const StoredLines& stored, bool takes_half,
                  BoundBlocks& bound) {
  const int64_t n = bound.columns, scales = bound.cut.scales(),
                panels = CeilDiv(n, int64_t{kBlockColumns});
  const int64_t wanted = quant.block != 0 ? scales * n : quant.per_tensor() ? 1 : n;
  if (static_cast<int64_t>(quant.scales.size()) != wanted ||
      quant.zero_points.size() != quant.scales.size())
    return InvalidInput("{} scales for {} blocks of {} columns", quant.scales.size(), scales, n);
  const auto& z = quant.zero_points;
  const bool one_zero = std::all_of(z.begin(), z.end(), [&](int32_t v) { return v == z[0]; });
  bound.factor = one_zero && !z.empty() ? -(z[0] + stored.offset) : -1;
  const auto size = static_cast<size_t>(panels * scales * kBlockColumns);
  bound.scales.assign(size, 0.0f);
  if (!one_zero) bound.zeros.assign(size, 0);
  for (int64_t i = 0; i < scales * n; ++i) {
    const int64_t b = i / n, column = i % n;
    const auto from = static_cast<size_t>(wanted == 1 ? 0 : quant.block != 0 ? i : column);
    const int64_t to =
        (column / kBlockColumns * scales + b) * kBlockColumns + column % kBlockColumns;
    bound.scales[to] = quant.scales[from] * stored.unit;
    if (!one_zero) bound.zeros[to] = static_cast<uint8_t>(z[from] + stored.offset);
  }
  if (!takes_half) return {};
  for (float scale : bound.scales) {
    const auto half = ExactHalf(scale);
    if (!half) {
      bound.half_scales.clear();
      return {};
    }
    bound.half_scales.push_back(*half);
  }
  bound.scales.clear();
  return {};
}

}  // namespace

std::optional<Reason> RejectBlocks(const TensorType& weights, int64_t data_block) {
  const StoredLines* stored = FindStored(weights.dtype);
  if (stored == nullptr || !weights.quantized())
    return Reject("types", "b is {}, expected quantized integers of 2, 4 or 8 bits or float4e2m1",
                  weights.ToString());
  if (weights.shape.rank() != 2 || weights.shape[0].value < 1)
    return Reject("shape", "b is {}, expected a matrix", weights.ToString());
  const QuantParams& quant = *weights.quant;
  if (quant.block != 0 ? quant.axis != 0 : !quant.per_tensor() && quant.axis != 1)
    return Reject("types", "b has scales along axis {}, expected columns or blocks along K",
                  quant.axis);
  const auto cut = CutOf(weights.shape[0].value, quant.block, data_block, stored->block());
  if (!cut || cut->block > kLargestBlock)
    return Reject("attribute",
                  "data in blocks of {} by weights in blocks of {}, expected multiples of each "
                  "other and of {}, up to {}",
                  data_block, quant.block, stored->block(), kLargestBlock);
  return std::nullopt;
}

Result<BlockIntegers> BlockIntegersOf(const Tensor& weights) {
  const StoredLines* stored = FindStored(weights.dtype());
  if (stored == nullptr) return Unsupported("weights {} by blocks", weights.type().ToString());
  BlockIntegers integers;
  integers.unit = stored->unit;
  EVOQ_ASSIGN(const Tensor real,
              ToFloat32(weights.WithType(TensorType(weights.dtype(), weights.shape()))));
  for (float v : real.values<float>()) integers.q.push_back(static_cast<int64_t>(v / stored->unit));
  return integers;
}

Result<Tensor> PackBlocks(const Tensor& weights) {
  if (!weights.layout().empty()) return Tensor();
  return FindLayout(FindStored(weights.dtype())->layout)->pack(weights);
}

BlockPanels BoundBlocks::panels() const {
  return {cut,
          columns,
          reinterpret_cast<const uint8_t*>(packed.raw()),
          panel_bytes,
          half_scales.empty() ? scales.data() : nullptr,
          half_scales.empty() ? nullptr : half_scales.data(),
          zeros.empty() ? nullptr : zeros.data()};
}

Result<BoundBlocks> BindBlocks(const Tensor& weights, int64_t data_block, const BlockTable& table) {
  if (const auto why = RejectBlocks(weights.type(), data_block))
    return InvalidInput("{}", why->sentence);
  BoundBlocks bound;
  bound.packed = weights;
  const StoredLines& stored = *FindStored(weights.dtype());
  const LayoutDef& layout = *FindLayout(stored.layout);
  if (weights.layout().empty()) {
    EVOQ_ASSIGN(bound.packed, layout.pack(weights));
  } else if (weights.layout() != layout.name) {
    return InvalidInput("weights have layout '{}', expected {}", weights.layout(), layout.name);
  }
  EVOQ_ASSIGN(const int64_t bytes, layout.bytes(weights.type()));
  if (static_cast<int64_t>(bound.packed.bytes()) != bytes)
    return InvalidInput("{} with layout '{}' has {} bytes, expected {}", weights.type().ToString(),
                        layout.name, bound.packed.bytes(), bytes);
  const QuantParams& quant = *weights.type().quant;
  const int64_t depth = weights.sizes()[0];
  bound.columns = weights.sizes()[1];
  bound.cut = *CutOf(depth, quant.block, data_block, stored.block());
  bound.kind = stored.kind;
  bound.groups = stored.groups;
  bound.panel_bytes = CeilDiv(depth, stored.depth()) * 64;
  EVOQ_TRY(BindScales(quant, stored, table.takes_half, bound));
  return bound;
}

}  // namespace evoq
