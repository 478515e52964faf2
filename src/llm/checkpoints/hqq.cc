// HQQ's checkpoints, as its HQQLinear writes them: of a matrix from K inputs to N outputs, whose
// numbers lie as a matrix of groups [N * K / group_size, group_size] (axis 1), or [group_size,
// N * K / group_size] (axis 0), of R rows
//   W_q: of 8, 4, 2 and 1 bits uint8 [R * nbits / 8, ...]; row r is in row r % (R * nbits / 8), the
//     first such run of rows in the highest bits; of 3 bits int32 with ten of them, R rounded up
//   scale, zero: real, one for each group; a weight is (number - zero) * scale
//   nbits, group_size, axis int32, shape int64 [2]; settings that are not needed
#include <cstring>

#include "base/math.h"
#include "llm/checkpoint_format.h"
#include "llm/float_matrix.h"
#include "llm/packed_matrix.h"

namespace evoq {
namespace {

// Element i of a tensor of whole numbers.
Result<int64_t> Whole(const CheckpointMatrix& m, const char* part, int64_t i = 0) {
  EVOQ_ASSIGN(const StoredTensor* found, m.Need(part));
  const auto at = [&](auto value) -> Result<int64_t> {
    const auto size = static_cast<int64_t>(sizeof(value));
    if (std::ssize(found->bytes) < (i + 1) * size)
      return InvalidInput("tensor {}.{} is {}, expected {} numbers", m.stem, part,
                          found->ToString(), i + 1);
    std::memcpy(&value, found->bytes.data() + i * size, sizeof(value));
    return static_cast<int64_t>(value);
  };
  switch (found->dtype) {
    case DType::kInt64: return at(int64_t{});
    case DType::kInt32: return at(int32_t{});
    case DType::kUint8: return at(uint8_t{});
    default:
      return InvalidInput("tensor {}.{} is {}, expected int64, int32 or uint8", m.stem, part,
                          found->ToString());
  }
}

// The matrix of groups, packed along its rows.
struct Groups {
  StoredTensor words;
  int bits = 4;
  int64_t step = 1, columns = 1;  // sizes of `words`

  int At(int64_t row, int64_t column) const {
    const int per = bits == 3 ? 10 : 8 / bits,
              shift = bits * (per - 1 - static_cast<int>(row / step));
    const int64_t i = row % step * columns + column;
    uint32_t word = 0;
    std::memcpy(&word, words.bytes.data() + i * (bits == 3 ? 4 : 1), bits == 3 ? 4 : 1);
    return static_cast<int>(word >> shift & ((1u << bits) - 1));
  }
};

Result<Groups> GroupsOf(const CheckpointMatrix& m, int64_t rows, int64_t columns) {
  EVOQ_ASSIGN(const int64_t bits, Whole(m, "nbits"));
  if (bits != 1 && bits != 2 && bits != 3 && bits != 4 && bits != 8)
    return Unsupported("{}: {} bits, expected 1, 2, 3, 4 or 8", m.stem, bits);
  const int64_t per = bits == 3 ? 10 : 8 / bits;
  if (bits != 3 && rows % per != 0)
    return Unsupported("{}: {} rows of {} bits are no whole bytes", m.stem, rows, bits);
  Groups groups{.bits = static_cast<int>(bits), .step = CeilDiv(rows, per), .columns = columns};
  EVOQ_ASSIGN(const StoredTensor* words,
              m.Need("W_q", bits == 3 ? DType::kInt32 : DType::kUint8, {groups.step, columns}));
  groups.words = *words;
  return groups;
}

// One for each group, in a tensor of any shape.
Result<const StoredTensor*> NeedGroups(const CheckpointMatrix& m, const char* part,
                                       int64_t groups) {
  EVOQ_ASSIGN(const StoredTensor* found, m.NeedReal(part));
  if (CheckedProduct(found->sizes) != groups)
    return InvalidInput("tensor {}.{} is {} for {} groups", m.stem, part, found->ToString(),
                        groups);
  return found;
}

Result<StoredTensor> Join(const CheckpointMatrix& m) {
  EVOQ_ASSIGN(const int64_t outputs, Whole(m, "shape"));
  EVOQ_ASSIGN(const int64_t inputs, Whole(m, "shape", 1));
  EVOQ_ASSIGN(const int64_t axis, Whole(m, "axis"));
  EVOQ_ASSIGN(const int64_t group, Whole(m, "group_size"));
  for (const char* part : {"quant_scale", "quant_zero", "view_as_float"}) {
    if (m.Find(part) == nullptr) continue;
    EVOQ_ASSIGN(const int64_t set, Whole(m, part));
    if (set != 0) return Unsupported("tensor {}.{} is {}, expected 0", m.stem, part, set);
  }
  const auto elements = CheckedMul(outputs, inputs);
  if (outputs < 1 || inputs < 1 || !elements || group < 1 || *elements % group != 0 || axis < 0 ||
      axis > 1)
    return InvalidInput("{}: {} x {} numbers in groups of {} on axis {}", m.stem, outputs, inputs,
                        group, axis);
  const int64_t count = *elements / group, columns = axis == 1 ? group : count;
  EVOQ_ASSIGN(const Groups q, GroupsOf(m, *elements / columns, columns));
  EVOQ_ASSIGN(const StoredTensor* scales, NeedGroups(m, "scale", count));
  EVOQ_ASSIGN(const StoredTensor* zeros, NeedGroups(m, "zero", count));
  const auto row = [q, scales = *scales, zeros = *zeros, axis = axis, inputs = inputs](int64_t n,
                                                                                       float* to) {
    for (int64_t k = 0; k < inputs; ++k) {
      const int64_t i = n * inputs + k, r = i / q.columns, c = i % q.columns, g = axis == 1 ? r : c;
      to[k] = (static_cast<float>(q.At(r, c)) - RealAt(zeros, g)) * RealAt(scales, g);
    }
  };
  return FloatMatrix(fmt::format("HQQ int{}", q.bits), outputs, inputs, row,
                     {q.words, *scales, *zeros});
}

}  // namespace

extern const CheckpointFormat kCheckpointHqq = {
    .method = "hqq",
    .signs = {"W_q"},
    .parts = {"W_q", "scale", "zero", "nbits", "group_size", "shape", "axis", "packing",
              "unpack_view_dtype", "view_as_float", "compute_dtype", "offload_meta",
              "encoded_state_dict", "stores_quant_config", "channel_wise", "optimize", "round_zero",
              "quant_scale", "quant_zero"},
    .join = Join,
};

}  // namespace evoq
