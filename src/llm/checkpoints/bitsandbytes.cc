// bitsandbytes' checkpoints, as transformers writes them: of a matrix from K inputs to N outputs,
// of 4 bits
//   weight uint8 [N * K / 2, 1] (or of a wider type, the same bytes): places in quant_map, row by
//     row, the first of two in the high half
//   weight.quant_map float32 [16]
//   weight.absmax float32: for each blocksize weights one scale
//   weight.quant_state.bitsandbytes__nf4 (__fp4) uint8: JSON with blocksize, shape
// with double quantization instead
//   weight.absmax uint8: places in weight.nested_quant_map float32 [256], which are multiplied by
//     weight.nested_absmax float32 (one for each nested_blocksize) and moved by nested_offset
// and of 8 bits
//   weight int8 [N, K], SCB float32 [N]: the largest magnitude of each output, 127
//   weight_format uint8: 0
#include "base/json_file.h"
#include "base/math.h"
#include "llm/checkpoint_format.h"
#include "llm/float_matrix.h"
#include "llm/packed_matrix.h"
#include "llm/settings.h"

namespace evoq {
namespace {

constexpr int64_t kMostState = 1 << 16;  // bytes of JSON

Result<nlohmann::json> StateOf(const CheckpointMatrix& m) {
  const StoredTensor* state = m.Find("weight.quant_state.bitsandbytes__nf4");
  if (state == nullptr) {
    EVOQ_ASSIGN(state, m.Need("weight.quant_state.bitsandbytes__fp4"));
  }
  if (state->dtype != DType::kUint8 || std::ssize(state->bytes) > kMostState)
    return InvalidInput("tensor {}.weight.quant_state is {}, expected uint8 of at most {}", m.stem,
                        state->ToString(), kMostState);
  const std::string_view text(reinterpret_cast<const char*>(state->bytes.data()),
                              state->bytes.size());
  return WithContext(ParseJson(text), fmt::format("{}.weight.quant_state", m.stem));
}

// Scales by block.
struct Scales {
  std::function<float(int64_t block)> at;
  std::vector<StoredTensor> parts;
};

Result<Scales> ScalesOf(const CheckpointMatrix& m, const nlohmann::json& state, int64_t blocks) {
  EVOQ_ASSIGN(const StoredTensor* absmax, m.Need("weight.absmax"));
  if (absmax->dtype != DType::kUint8) {
    EVOQ_TRY(m.Need("weight.absmax", DType::kFloat32, {blocks}));
    return Scales{[s = *absmax](int64_t block) { return RealAt(s, block); }, {*absmax}};
  }
  EVOQ_TRY(m.Need("weight.absmax", DType::kUint8, {blocks}));
  EVOQ_ASSIGN(const int64_t size, Int(state, {"nested_blocksize"}));
  if (size < 1) return InvalidInput("{}: nested_blocksize {}", m.stem, size);
  EVOQ_ASSIGN(const StoredTensor* map, m.Need("weight.nested_quant_map", DType::kFloat32, {256}));
  EVOQ_ASSIGN(const StoredTensor* outer,
              m.Need("weight.nested_absmax", DType::kFloat32, {CeilDiv(blocks, size)}));
  const auto offset = static_cast<float>(JsonNumber(state, "nested_offset"));
  const auto at = [s = *absmax, map = *map, outer = *outer, size, offset](int64_t block) {
    const auto place = static_cast<int64_t>(s.bytes[static_cast<size_t>(block)]);
    return RealAt(map, place) * RealAt(outer, block / size) + offset;
  };
  return Scales{at, {*absmax, *map, *outer}};
}

Result<StoredTensor> JoinFourBits(const CheckpointMatrix& m) {
  EVOQ_ASSIGN(const nlohmann::json state, StateOf(m));
  EVOQ_ASSIGN(const auto sizes, BlockSizes(state, "shape"));
  EVOQ_ASSIGN(const int64_t block, Int(state, {"blocksize"}));
  EVOQ_ASSIGN(const StoredTensor* bytes, m.Need("weight"));
  EVOQ_ASSIGN(const StoredTensor* map, m.Need("weight.quant_map", DType::kFloat32, {16}));
  const auto outputs = sizes[0], inputs = sizes[1];
  const auto elements = CheckedMul(outputs, inputs);
  if (outputs < 1 || inputs < 1 || !elements || block < 1 ||
      std::ssize(bytes->bytes) != CeilDiv(*elements, int64_t{2}))
    return InvalidInput(
        "tensor {}.weight is {}, expected {} x {} numbers of 4 bits in blocks of {}", m.stem,
        bytes->ToString(), outputs, inputs, block);
  EVOQ_ASSIGN(Scales scales, ScalesOf(m, state, CeilDiv(*elements, block)));
  const auto row = [q = bytes->bytes, map = *map, at = scales.at, inputs = inputs, block](
                       int64_t n, float* to) {
    for (int64_t k = 0; k < inputs;) {
      const int64_t first = n * inputs + k, count = std::min(inputs - k, block - first % block);
      const float scale = at(first / block);
      for (int64_t i = first; i < first + count; ++i, ++k) {
        const auto both = static_cast<int>(q[static_cast<size_t>(i / 2)]);
        to[k] = RealAt(map, i % 2 == 0 ? both >> 4 : both & 15) * scale;
      }
    }
  };
  scales.parts.insert(scales.parts.end(), {*bytes, *map});
  return FloatMatrix("bitsandbytes " + JsonText(state, "quant_type").substr(0, 60), outputs, inputs,
                     row, std::move(scales.parts));
}

Result<StoredTensor> JoinBytes(const CheckpointMatrix& m) {
  EVOQ_ASSIGN(const StoredTensor* values, m.Need("weight"));
  if (values->dtype != DType::kInt8 || values->sizes.size() != 2 || values->bytes.empty())
    return InvalidInput("tensor {}.weight is {}, expected int8 of two sizes", m.stem,
                        values->ToString());
  if (const StoredTensor* form = m.Find("weight_format");
      form != nullptr && (form->bytes.size() != 1 || form->bytes[0] != std::byte{0}))
    return Unsupported("tensor {}.weight_format: expected rows (0)", m.stem);
  const int64_t outputs = values->sizes[0], inputs = values->sizes[1];
  EVOQ_ASSIGN(const StoredTensor* largest, m.Need("SCB", DType::kFloat32, {outputs}));
  GroupedMatrix matrix{
      .inputs = inputs,
      .outputs = outputs,
      .group = inputs,
      .q = {.words = values->bytes, .rows = outputs, .columns = inputs, .bits = 8, .bytes = true},
      .by_output = true};
  matrix.scale = [s = *largest](int64_t, int64_t n) { return RealAt(s, n) / 127; };
  matrix.zero = [](int64_t, int64_t) { return 0; };
  return Joined("bitsandbytes int8", std::move(matrix), {*values, *largest});
}

Result<StoredTensor> Join(const CheckpointMatrix& m) {
  return m.Find("weight.absmax") != nullptr ? JoinFourBits(m) : JoinBytes(m);
}

}  // namespace

extern const CheckpointFormat kCheckpointBitsandbytes = {
    .method = "bitsandbytes",
    .signs = {"weight.absmax", "SCB"},
    .parts = {"weight", "weight.absmax", "weight.quant_map", "weight.nested_absmax",
              "weight.nested_quant_map", "weight.quant_state.bitsandbytes__nf4",
              "weight.quant_state.bitsandbytes__fp4", "SCB", "weight_format"},
    .join = Join,
};

}  // namespace evoq
