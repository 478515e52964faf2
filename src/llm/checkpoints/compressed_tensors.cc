// compressed-tensors' checkpoints, as LLM Compressor writes them: of a matrix with weight_scale
// (float32, float16 or bfloat16: [1], [outputs, 1] or [outputs, groups])
//   weight_packed int32 [outputs, inputs * bits / 32]: the numbers of a row plus half their range,
//     several to a word, with weight_shape int64 [2]; weight_zero_point int32 [outputs * bits / 32,
//     groups] in the same way, by columns; weight_g_idx int32 [inputs], the group of each input
//   weight int8 [outputs, inputs], weight_zero_point int8 as the scales
//   weight float8 [outputs, inputs], the scales also of blocks
//   weight_packed uint8 [outputs, inputs / 2]: float4e2m1, even inputs in the low half, with scales
//     [outputs, groups] of float8e4m3fn, divided by weight_global_scale float32 [1] (NVFP4), or of
//     uint8, the exponents of powers of two plus 127 (MXFP4)
#include <cstring>

#include "base/math.h"
#include "llm/checkpoint_format.h"
#include "llm/float4_matrix.h"
#include "llm/float8_matrix.h"
#include "llm/packed_matrix.h"
#include "llm/scaled_bytes.h"
#include "llm/settings.h"

namespace evoq {
namespace {

// Of 2, 4 or 8 bits: those that the words have room for.
Result<int> BitsOf(const CheckpointMatrix& m, const StoredTensor& words, int64_t outputs,
                   int64_t inputs) {
  for (const int bits : {4, 8, 2}) {
    const PackedNumbers q{.rows = outputs, .columns = inputs, .bits = bits};
    if (words.dtype == DType::kInt32 && words.sizes == q.sizes()) return bits;
  }
  return Unsupported(
      "tensor {}.weight_packed is {}, expected int32 with {} x {} numbers of 2, 4 or "
      "8 bits",
      m.stem, words.ToString(), outputs, inputs);
}

Result<StoredTensor> JoinPacked(const CheckpointMatrix& m, const StoredTensor& words) {
  EVOQ_ASSIGN(const StoredTensor* shape, m.Need("weight_shape", DType::kInt64, {2}));
  int64_t sizes[2];
  std::memcpy(sizes, shape->bytes.data(), sizeof(sizes));
  for (const int64_t size : sizes) {
    if (size < 1 || size > INT32_MAX)
      return InvalidInput("tensor {}.weight_shape holds {}", m.stem, size);
  }
  EVOQ_ASSIGN(const int bits, BitsOf(m, words, sizes[0], sizes[1]));
  EVOQ_ASSIGN(
      GroupedMatrix matrix,
      ScaledRows(m, {.words = words.bytes, .rows = sizes[0], .columns = sizes[1], .bits = bits},
                 "weight_scale"));
  std::vector<StoredTensor> parts = {words, *m.Find("weight_scale")};
  if (m.Find("weight_zero_point") != nullptr) {
    PackedNumbers zeros = {
        .rows = matrix.outputs, .columns = matrix.groups(), .bits = bits, .down = true};
    EVOQ_ASSIGN(const StoredTensor* stored,
                m.Need("weight_zero_point", DType::kInt32, zeros.sizes()));
    zeros.words = stored->bytes;
    matrix.zero = [zeros](int64_t g, int64_t n) { return zeros.At(n, g); };
    parts.push_back(*stored);
  }
  if (m.Find("weight_g_idx") != nullptr) {
    EVOQ_ASSIGN(const StoredTensor* g_idx, m.Need("weight_g_idx", DType::kInt32, {matrix.inputs}));
    EVOQ_ASSIGN(matrix.order,
                WithContext(OrderByGroup(*g_idx, matrix.inputs, matrix.group), m.stem));
  }
  return Joined(fmt::format("compressed int{}", bits), std::move(matrix), std::move(parts));
}

// float4e2m1, two to a byte: of NVFP4 with scales of float8e4m3fn, of MXFP4 with powers of two.
Result<StoredTensor> JoinFloat4(const CheckpointMatrix& m, const StoredTensor& bytes) {
  EVOQ_ASSIGN(const StoredTensor* scales, m.Need("weight_scale"));
  float divisor = 1;
  if (m.Find("weight_global_scale") != nullptr) {
    EVOQ_ASSIGN(const StoredTensor* global, m.Need("weight_global_scale", DType::kFloat32, {1}));
    divisor = RealAt(*global, 0);
  }
  return Float4Matrix(bytes, *scales, 1, divisor, m.stem);
}

// Blocks of float8: of rows, as the scales are, else as the first group of layers says.
Result<StoredTensor> JoinFloat8(const CheckpointMatrix& m, const StoredTensor& values) {
  EVOQ_ASSIGN(const StoredTensor* scales, m.Need("weight_scale"));
  std::array<int64_t, 2> block = {1, 0};
  const bool by_rows = scales->sizes.size() == 2 && values.sizes.size() == 2 &&
                       scales->sizes[0] == values.sizes[0] && scales->sizes[1] > 0 &&
                       values.sizes[1] % scales->sizes[1] == 0;
  if (by_rows) {
    block[1] = values.sizes[1] / scales->sizes[1];
  } else if (Given(m.settings, "config_groups")) {
    for (const nlohmann::json& group : m.settings["config_groups"]) {
      if (!Given(group, "weights")) continue;
      EVOQ_ASSIGN(block, BlockSizes(group["weights"], "block_structure"));
      if (block[0] > 0) break;
    }
  }
  return Float8Matrix(values, *scales, block[0], block[1], m.stem + ".weight");
}

Result<StoredTensor> Join(const CheckpointMatrix& m) {
  if (const StoredTensor* words = m.Find("weight_packed"))
    return words->dtype == DType::kUint8 ? JoinFloat4(m, *words) : JoinPacked(m, *words);
  EVOQ_ASSIGN(const StoredTensor* values, m.Need("weight"));
  if (values->dtype != DType::kInt8) return JoinFloat8(m, *values);
  return ScaledBytes(m, *values, "weight_scale", "weight_zero_point", "compressed int8");
}

}  // namespace

extern const CheckpointFormat kCheckpointCompressed = {
    .method = "compressed-tensors",
    .signs = {"weight_packed", "weight_scale"},
    .parts = {"weight_packed", "weight_scale", "weight_zero_point", "weight_shape", "weight_g_idx",
              "weight", "input_scale", "input_zero_point", "weight_global_scale",
              "input_global_scale"},
    .join = Join,
};

}  // namespace evoq
