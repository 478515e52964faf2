#include "llm/scaled_bytes.h"

namespace evoq {
namespace {

// Groups that have a scale each; the scale of group g and output n.
struct Scales {
  StoredTensor stored;
  int64_t groups = 1;
  bool single = false;

  int64_t At(int64_t g, int64_t n) const { return single ? 0 : n * groups + g; }
};

Result<Scales> ScalesOf(const CheckpointMatrix& m, const char* name, int64_t outputs) {
  EVOQ_ASSIGN(const StoredTensor* stored, m.NeedReal(name));
  const std::vector<int64_t>& sizes = stored->sizes;
  Scales scales{.stored = *stored};
  scales.single = sizes.empty() || sizes == std::vector<int64_t>{1};
  if (scales.single) return scales;
  if (sizes[0] != outputs || sizes.size() > 2 || (sizes.size() == 2 && sizes[1] < 1))
    return InvalidInput("tensor {}.{} is {} for {} outputs", m.stem, name, stored->ToString(),
                        outputs);
  if (sizes.size() == 2) scales.groups = sizes[1];
  return scales;
}

}  // namespace

Result<GroupedMatrix> ScaledRows(const CheckpointMatrix& m, const PackedNumbers& q,
                                 const char* scales_name) {
  EVOQ_ASSIGN(const Scales scales, ScalesOf(m, scales_name, q.rows));
  GroupedMatrix matrix{.inputs = q.columns, .outputs = q.rows, .q = q, .by_output = true};
  if (matrix.inputs % scales.groups != 0)
    return Unsupported("{}: {} groups of {} inputs", m.stem, scales.groups, matrix.inputs);
  matrix.group = matrix.inputs / scales.groups;
  matrix.scale = [scales](int64_t g, int64_t n) { return RealAt(scales.stored, scales.At(g, n)); };
  matrix.zero = [middle = q.bytes ? 0 : 1 << (q.bits - 1)](int64_t, int64_t) { return middle; };
  return matrix;
}

Result<StoredTensor> ScaledBytes(const CheckpointMatrix& m, const StoredTensor& values,
                                 const char* scales_name, const char* zeros_name,
                                 std::string format) {
  if (values.dtype != DType::kInt8 || values.sizes.size() != 2 || values.bytes.empty())
    return InvalidInput("tensor {}.weight is {}, expected int8 of two sizes", m.stem,
                        values.ToString());
  EVOQ_ASSIGN(GroupedMatrix matrix, ScaledRows(m,
                                               {.words = values.bytes,
                                                .rows = values.sizes[0],
                                                .columns = values.sizes[1],
                                                .bits = 8,
                                                .bytes = true},
                                               scales_name));
  std::vector<StoredTensor> parts = {values, *m.Find(scales_name)};
  if (m.Find(zeros_name) != nullptr) {
    EVOQ_ASSIGN(const Scales scales, ScalesOf(m, scales_name, matrix.outputs));
    EVOQ_ASSIGN(const StoredTensor* stored, m.Need(zeros_name, DType::kInt8, scales.stored.sizes));
    matrix.zero = [zeros = *stored, scales](int64_t g, int64_t n) {
      return static_cast<int>(
          static_cast<int8_t>(zeros.bytes[static_cast<size_t>(scales.At(g, n))]));
    };
    parts.push_back(*stored);
  }
  return Joined(std::move(format), std::move(matrix), std::move(parts));
}

}  // namespace evoq
