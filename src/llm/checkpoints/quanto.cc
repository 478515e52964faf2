// optimum-quanto's checkpoints, which need no quantization_config: of a matrix
//   weight._data int8 or float8 [outputs, inputs], weight._scale [outputs, 1] or of all
//   weight._data._data uint8: 4 and 2 bits in groups, of which no tensor says the matrix's sizes
#include "llm/checkpoint_format.h"
#include "llm/float8_matrix.h"
#include "llm/scaled_bytes.h"

namespace evoq {
namespace {

constexpr char kScale[] = "weight._scale";

Result<StoredTensor> Join(const CheckpointMatrix& m) {
  if (m.Find("weight._data._data") != nullptr)
    return Unsupported("tensor {}.weight._data: 4 or 2 bits, expected int8 or float8", m.stem);
  EVOQ_ASSIGN(const StoredTensor* values, m.Need("weight._data"));
  EVOQ_ASSIGN(const StoredTensor* scales, m.Need(kScale));
  if (values->dtype == DType::kInt8)
    return ScaledBytes(m, *values, kScale, "weight._shift", "quanto int8");
  return Float8Matrix(*values, *scales, 0, 0, m.stem + ".weight");
}

}  // namespace

extern const CheckpointFormat kCheckpointQuanto = {
    .method = "quanto",
    .signs = {"weight._data", "weight._data._data"},
    .parts = {"weight._data", kScale, "weight._data._data", "weight._shift", "input_scale",
              "output_scale"},
    .join = Join,
};

}  // namespace evoq
