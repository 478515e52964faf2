#include "kernels/gemm/blocks/weights.h"

#include <algorithm>
#include <cstring>

#include "base/math.h"
#include "kernels/call_util.h"
#include "kernels/gemm/blocks/layout_low_bits.h"
#include "kernels/gemm/layout_k4n16.h"

namespace evoq {
namespace {

constexpr int64_t kLineBytes = 64;
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

bool IsHalf(float x) { return HalfToFloat(FloatToHalf(x)) == x; }

// Which scale and zero point of `quant` column n has in block b.
size_t ScaleIndex(const QuantParams& quant, int64_t columns, int64_t b, int64_t n) {
  return static_cast<size_t>(quant.per_tensor() ? 0 : quant.block != 0 ? b * columns + n : n);
}

// Panel `panel` of packed lines, with its scales, into its unit of the stream.
void AddPanel(const BoundBlocks& bound, const StoredLines& stored, const QuantParams& quant,
              int64_t panel, const std::byte* lines, std::byte* unit) {
  const BlockStream& stream = bound.stream;
  const BlockCut& cut = stream.cut;
  const int64_t side = panel % kUnitPanels, step = cut.block * cut.blocks_per_scale;
  const int64_t first = panel * kBlockColumns,
                count = std::min<int64_t>(kBlockColumns, stream.columns - first);
  for (int64_t b = 0; b < cut.scales(); ++b) {
    for (int64_t n = 0; n < count; ++n) {
      const size_t i = ScaleIndex(quant, stream.columns, b, first + n);
      const int64_t at = side * kBlockColumns + n;
      const float scale = quant.scales[i] * stored.unit;
      const uint16_t half = FloatToHalf(scale);
      if (stream.half_scales) std::memcpy(unit + 2 * at, &half, 2);
      if (!stream.half_scales) std::memcpy(unit + 4 * at, &scale, 4);
      if (stream.has_zeros)
        unit[stream.scale_bytes() + at] =
            static_cast<std::byte>(quant.zero_points[i] + stored.offset);
    }
    unit += stream.head_bytes();
    const int64_t k = std::min(step, cut.depth - b * step);
    for (int64_t l = CeilDiv(k, stored.depth()); l > 0; --l) {
      std::memcpy(unit + side * kLineBytes, lines, kLineBytes);
      unit += kUnitPanels * kLineBytes, lines += kLineBytes;
    }
  }
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

const uint8_t* BoundBlocks::bytes() const {
  return reinterpret_cast<const uint8_t*>(owner->data());
}

Result<BoundBlocks> BindBlocks(const Tensor& weights, int64_t data_block) {
  if (const auto why = RejectBlocks(weights.type(), data_block))
    return InvalidInput("{}", why->sentence);
  const StoredLines& stored = *FindStored(weights.dtype());
  const LayoutDef& layout = *FindLayout(stored.layout);
  Tensor packed = weights;
  if (weights.layout().empty()) {
    EVOQ_ASSIGN(packed, layout.pack(weights));
  } else if (weights.layout() != layout.name) {
    return InvalidInput("weights have layout '{}', expected {}", weights.layout(), layout.name);
  }
  EVOQ_ASSIGN(const int64_t bytes, layout.bytes(weights.type()));
  if (static_cast<int64_t>(packed.bytes()) != bytes)
    return InvalidInput("{} with layout '{}' has {} bytes, expected {}", weights.type().ToString(),
                        layout.name, packed.bytes(), bytes);
  const QuantParams& quant = *weights.type().quant;
  const std::vector<float>& scales = quant.scales;
  const std::vector<int32_t>& zeros = quant.zero_points;
  const int64_t depth = weights.sizes()[0], columns = weights.sizes()[1];
  BoundBlocks bound;
  bound.kind = stored.kind;
  bound.groups = stored.groups;
  BlockStream& stream = bound.stream;
  stream.cut = *CutOf(depth, quant.block, data_block, stored.block());
  stream.columns = columns;
  const int64_t wanted = quant.per_tensor() ? 1
                         : quant.block != 0 ? stream.cut.scales() * columns
                                            : columns;
  if (static_cast<int64_t>(scales.size()) != wanted || zeros.size() != scales.size())
    return InvalidInput("{} scales for {} blocks of {} columns", scales.size(), stream.cut.scales(),
                        columns);
  stream.half_scales =
      std::ranges::all_of(scales, [&](float scale) { return IsHalf(scale * stored.unit); });
  stream.has_zeros = std::ranges::any_of(zeros, [&](int32_t zero) { return zero != zeros[0]; });
  bound.factor = stream.has_zeros || zeros.empty() ? -1 : -(zeros[0] + stored.offset);
  const int64_t lines = CeilDiv(depth, stored.depth()),
                panels = CeilDiv(columns, int64_t{kBlockColumns});
  bound.unit_bytes = stream.cut.scales() * stream.head_bytes() + lines * kUnitPanels * kLineBytes;
  const auto all = CheckedMul(CeilDiv(panels, int64_t{kUnitPanels}), bound.unit_bytes);
  if (!all) return Fail(ErrorCode::kTooLarge, "weights {}", weights.type().ToString());
  auto memory = std::make_shared<AlignedBuffer>(static_cast<size_t>(*all));
  std::memset(memory->data(), 0, memory->size());
  for (int64_t panel = 0; panel < panels; ++panel)
    AddPanel(bound, stored, quant, panel, packed.raw() + panel * lines * kLineBytes,
             memory->data() + panel / kUnitPanels * bound.unit_bytes);
  bound.owner = std::move(memory);
  return bound;
}

}  // namespace evoq
