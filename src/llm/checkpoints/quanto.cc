// optimum-quanto's checkpoints, which need no quantization_config: of a matrix
//   weight._data int8 or float8 [outputs, inputs], weight._scale [outputs, 1] or of all
//   weight._data._data uint8 [rows, group]: numbers of 4 and 2 bits of the matrix in groups, one
//     behind the other, of which no tensor says its sizes; of G groups number g is in byte row
//     g % rows, the first of a byte in its lowest bits; weight._scale, weight._shift real [G, 1]: a
//     weight is number * scale - shift
#include "base/math.h"
#include "llm/checkpoint_format.h"
#include "llm/float8_matrix.h"
#include "llm/float_matrix.h"
#include "llm/packed_matrix.h"
#include "llm/scaled_bytes.h"

namespace evoq {
namespace {

constexpr char kScale[] = "weight._scale", kShift[] = "weight._shift",
               kPacked[] = "weight._data._data";

struct Groups {
  StoredTensor bytes, scales, shifts;
  int64_t count, size;
  int bits;

  void Row(int64_t n, int64_t inputs, float* to) const {
    const int64_t rows = bytes.sizes[0];
    for (int64_t k = 0; k < inputs; ++k) {
      const int64_t at = n * inputs + k, g = at / size;
      const int byte =
          static_cast<int>(bytes.bytes[static_cast<size_t>(g % rows * size + at % size)]);
      const int number = byte >> (g / rows * bits) & ((1 << bits) - 1);
      to[k] = static_cast<float>(number) * RealAt(scales, g) - RealAt(shifts, g);
    }
  }
};

Result<StoredTensor> JoinPacked(const CheckpointMatrix& m) {
  EVOQ_ASSIGN(const StoredTensor* bytes, m.Need(kPacked));
  EVOQ_ASSIGN(const StoredTensor* scales, m.NeedReal(kScale));
  EVOQ_ASSIGN(const StoredTensor* shifts, m.NeedReal(kShift));
  const int64_t count = scales->sizes.empty() ? 0 : scales->sizes[0];
  const bool pairs = scales->sizes == std::vector<int64_t>{count, 1} && count > 0;
  const bool table = bytes->dtype == DType::kUint8 && bytes->sizes.size() == 2 &&
                     bytes->sizes[0] > 0 && bytes->sizes[1] > 0;
  int bits = 0;
  for (const int b : {2, 4}) {
    if (pairs && table && CeilDiv(count, 8 / b) == bytes->sizes[0]) bits = b;
  }
  if (bits == 0 || shifts->sizes != scales->sizes)
    return InvalidInput("tensor {}.{} is {} with scales {} and shifts {}", m.stem, kPacked,
                        bytes->ToString(), scales->ToString(), shifts->ToString());
  const Groups groups{*bytes, *scales, *shifts, count, bytes->sizes[1], bits};
  const auto elements = CheckedMul(count, groups.size);
  if (!elements) return Fail(ErrorCode::kTooLarge, "{} is too large", m.stem);
  const std::string format = fmt::format("quanto int{}", bits);
  JoinedWeight joined{.format = format, .parts = {*bytes, *scales, *shifts}};
  joined.shaped = [groups, format, all = *elements](int64_t outputs,
                                                    int64_t inputs) -> Result<StoredTensor> {
    if (CheckedMul(outputs, inputs) != all || inputs % groups.size != 0)
      return InvalidInput("{} groups of {} numbers, expected {} x {}", groups.count, groups.size,
                          outputs, inputs);
    return FloatMatrix(format, outputs, inputs,
                       [groups, inputs](int64_t n, float* to) { groups.Row(n, inputs, to); },
                       {groups.bytes, groups.scales, groups.shifts});
  };
  StoredTensor out{.sizes = {*elements}};
  out.joined = std::make_shared<const JoinedWeight>(std::move(joined));
  return out;
}

Result<StoredTensor> Join(const CheckpointMatrix& m) {
  if (m.Find(kPacked) != nullptr) return JoinPacked(m);
  EVOQ_ASSIGN(const StoredTensor* values, m.Need("weight._data"));
  EVOQ_ASSIGN(const StoredTensor* scales, m.Need(kScale));
  if (values->dtype == DType::kInt8) return ScaledBytes(m, *values, kScale, kShift, "quanto int8");
  return Float8Matrix(*values, *scales, 0, 0, m.stem + ".weight");
}

}  // namespace

extern const CheckpointFormat kCheckpointQuanto = {
    .method = "quanto",
    .signs = {"weight._data", kPacked},
    .parts = {"weight._data", kScale, kPacked, kShift, "input_scale", "output_scale"},
    .join = Join,
};

}  // namespace evoq
