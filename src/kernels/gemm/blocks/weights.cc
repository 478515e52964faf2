#include "kernels/gemm/blocks/weights.h"

#include <algorithm>

#include "base/math.h"
#include "kernels/call_util.h"
#include "kernels/gemm/blocks/stream.h"

namespace evoq {
namespace {

constexpr int64_t kLargestBlock = 65536;  // 127 * 255 of them stay below 2^31

// Whether each block of the data is multiplied with weights of one step for each column.
bool IsOfSteps(const BlockCut& cut) {
  return cut.block == kStepBlock && cut.blocks_per_scale == 1 && cut.pieces > 1 &&
         (cut.pieces == kStepBlocks ||
          (cut.pieces < kStepBlocks && cut.pieces * cut.block >= cut.depth));
}

}  // namespace

std::optional<BlockCut> BlockCutOf(const TensorType& weights, int64_t data_block) {
  const int64_t depth = weights.shape[0].value, weight_block = weights.quant->block,
                unit = FindStored(weights.dtype)->block();
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
  const auto cut = BlockCutOf(weights, data_block);
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
  const float unit = FindStored(weights.dtype())->unit;
  const auto survives = [&](float scale) { return scale * unit / unit == scale; };
  if (!std::ranges::all_of(weights.type().quant->scales, survives)) return Tensor();
  return PackStream(weights);
}

bool ReadsBlocks(const TensorType& weights, std::string_view layout) {
  const StoredLines* stored = FindStored(weights.dtype);
  return stored != nullptr && (stored->layout == layout ||
                               (stored->steps_layout != nullptr && stored->steps_layout == layout));
}

const uint8_t* BoundBlocks::bytes() const {
  return reinterpret_cast<const uint8_t*>(weights->raw());
}

Result<BoundBlocks> BindBlocks(const Tensor& weights, int64_t data_block) {
  if (const auto why = RejectBlocks(weights.type(), data_block))
    return InvalidInput("{}", why->sentence);
  BoundBlocks bound;
  Tensor packed = weights;
  if (!ReadsBlocks(weights.type(), weights.layout())) {
    EVOQ_ASSIGN(const Tensor plain, ToPlain(weights));
    EVOQ_ASSIGN(packed, PackStream(plain));
  }
  const StoredLines& stored = *FindStored(weights.dtype());
  if (packed.layout() != stored.layout && !IsOfSteps(*BlockCutOf(weights.type(), data_block))) {
    EVOQ_ASSIGN(const Tensor plain, ToPlain(packed));
    EVOQ_ASSIGN(packed, PackStream(plain, stored.layout));
  }
  EVOQ_ASSIGN(const StreamShape shape, StreamShapeOf(packed.type(), packed.layout()));
  if (static_cast<int64_t>(packed.bytes()) != shape.bytes)
    return InvalidInput("{} with layout '{}' has {} bytes, expected {}", weights.type().ToString(),
                        shape.layout(), packed.bytes(), shape.bytes);
  bound.weights = std::make_shared<const Tensor>(std::move(packed));
  bound.kind = shape.stored->kind;
  bound.groups = shape.stored->groups;
  bound.unit_bytes = shape.unit_bytes;
  bound.factor = shape.has_zeros ? -1 : -(shape.zero + shape.stored->offset);
  bound.stream = {*BlockCutOf(weights.type(), data_block), shape.columns, shape.half_scales,
                  shape.has_zeros, shape.steps};
  if (shape.steps) {
    bound.offset = shape.stored->offset;
    bound.unpacked = {{bound.stream.cut.depth, kStepDepth, 1, 1}, shape.columns, true, false};
  }
  return bound;
}

}  // namespace evoq
