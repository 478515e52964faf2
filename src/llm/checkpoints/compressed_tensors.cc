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
#include "llm/float8_matrix.h"
#include "llm/packed_matrix.h"
#include "llm/settings.h"

namespace evoq {
namespace {

// Groups that have a scale each; the scale of group g and output n.
struct Scales {
  StoredTensor stored;
  int64_t groups = 1;
  bool single = false;

  int64_t At(int64_t g, int64_t n) const { return single ? 0 : n * groups + g; }
};

Result<Scales> ScalesOf(const CheckpointMatrix& m, int64_t outputs) {
  EVOQ_ASSIGN(const StoredTensor* stored, m.NeedReal("weight_scale"));
  const std::vector<int64_t>& sizes = stored->sizes;
  Scales scales{.stored = *stored};
  scales.single = sizes.empty() || sizes == std::vector<int64_t>{1};
  if (scales.single) return scales;
  if (sizes[0] != outputs || sizes.size() > 2 || (sizes.size() == 2 && sizes[1] < 1))
    return InvalidInput("tensor {}.weight_scale is {} for {} outputs", m.stem, stored->ToString(),
                        outputs);
  if (sizes.size() == 2) scales.groups = sizes[1];
  return scales;
}

// The integers of a matrix and its scales; zero points are 0 of bytes, else in the middle.
Result<GroupedMatrix> Grouped(const CheckpointMatrix& m, PackedNumbers q) {
  EVOQ_ASSIGN(const Scales scales, ScalesOf(m, q.rows));
  GroupedMatrix matrix{.inputs = q.columns, .outputs = q.rows, .q = q, .by_output = true};
  if (matrix.inputs % scales.groups != 0)
    return Unsupported("{}: {} groups of {} inputs", m.stem, scales.groups, matrix.inputs);
  matrix.group = matrix.inputs / scales.groups;
  matrix.scale = [scales](int64_t g, int64_t n) { return RealAt(scales.stored, scales.At(g, n)); };
  matrix.zero = [middle = q.bytes ? 0 : 1 << (q.bits - 1)](int64_t, int64_t) { return middle; };
  return matrix;
}

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
      Grouped(m, {.words = words.bytes, .rows = sizes[0], .columns = sizes[1], .bits = bits}));
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
  const bool powers = scales->dtype == DType::kUint8;
  if (bytes.sizes.size() != 2 || bytes.sizes[1] < 1 || bytes.sizes[1] > INT64_MAX / 2 ||
      bytes.sizes[1] % 4 != 0)
    return Unsupported("tensor {}.weight_packed is {}, expected rows of words of 8 numbers", m.stem,
                       bytes.ToString());
  const int64_t outputs = bytes.sizes[0], inputs = bytes.sizes[1] * 2;
  if ((!powers && scales->dtype != DType::kFloat8E4M3FN) || scales->sizes.size() != 2 ||
      scales->sizes[0] != outputs || scales->sizes[1] < 1 || inputs % scales->sizes[1] != 0)
    return InvalidInput(
        "tensor {}.weight_scale is {}, expected float8e4m3fn or uint8 for {} "
        "outputs",
        m.stem, scales->ToString(), outputs);
  float divisor = 1;
  if (m.Find("weight_global_scale") != nullptr) {
    EVOQ_ASSIGN(const StoredTensor* global, m.Need("weight_global_scale", DType::kFloat32, {1}));
    divisor = RealAt(*global, 0);
  }
  const int64_t groups = scales->sizes[1];
  GroupedMatrix matrix{
      .inputs = inputs,
      .outputs = outputs,
      .group = inputs / groups,
      .q = {.words = bytes.bytes, .rows = outputs, .columns = inputs, .real = true},
      .by_output = true};
  matrix.scale = [s = *scales, groups, divisor](int64_t g, int64_t n) {
    const auto bits = static_cast<uint8_t>(s.bytes[static_cast<size_t>(n * groups + g)]);
    const DType type = s.dtype == DType::kUint8 ? DType::kFloat8E8M0 : s.dtype;
    return TinyFloatToFloat(type, bits) / divisor;
  };
  matrix.zero = [](int64_t, int64_t) { return 0; };
  return Joined(powers ? "MXFP4" : "NVFP4", std::move(matrix), {bytes, *scales});
}

Result<StoredTensor> JoinBytes(const CheckpointMatrix& m, const StoredTensor& values) {
  EVOQ_ASSIGN(GroupedMatrix matrix, Grouped(m, {.words = values.bytes,
                                                .rows = values.sizes[0],
                                                .columns = values.sizes[1],
                                                .bits = 8,
                                                .bytes = true}));
  std::vector<StoredTensor> parts = {values, *m.Find("weight_scale")};
  if (m.Find("weight_zero_point") != nullptr) {
    EVOQ_ASSIGN(const Scales scales, ScalesOf(m, matrix.outputs));
    EVOQ_ASSIGN(const StoredTensor* stored,
                m.Need("weight_zero_point", DType::kInt8, scales.stored.sizes));
    matrix.zero = [zeros = *stored, scales](int64_t g, int64_t n) {
      return static_cast<int>(
          static_cast<int8_t>(zeros.bytes[static_cast<size_t>(scales.At(g, n))]));
    };
    parts.push_back(*stored);
  }
  return Joined("compressed int8", std::move(matrix), std::move(parts));
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
  if (values->sizes.size() != 2 || values->bytes.empty())
    return InvalidInput("tensor {}.weight is {}, expected two sizes", m.stem, values->ToString());
  return JoinBytes(m, *values);
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
