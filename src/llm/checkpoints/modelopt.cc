// NVIDIA ModelOpt's checkpoints: of a matrix
//   weight float8 [outputs, inputs], weight_scale float32 of all or each output (FP8)
//   weight uint8 [outputs, inputs / 2], weight_scale float8e4m3fn [outputs, inputs / 16], both
//   times
//     weight_scale_2 float32 (NVFP4)
#include "llm/checkpoint_format.h"
#include "llm/float4_matrix.h"
#include "llm/float8_matrix.h"
#include "llm/packed_matrix.h"

namespace evoq {
namespace {

Result<StoredTensor> Join(const CheckpointMatrix& m) {
  EVOQ_ASSIGN(const StoredTensor* values, m.Need("weight"));
  EVOQ_ASSIGN(const StoredTensor* scales, m.Need("weight_scale"));
  if (values->dtype != DType::kUint8)
    return Float8Matrix(*values, *scales, 0, 0, m.stem + ".weight");
  EVOQ_ASSIGN(const StoredTensor* whole, m.Need("weight_scale_2"));
  if (whole->dtype != DType::kFloat32 || whole->bytes.size() != sizeof(float))
    return InvalidInput("tensor {}.weight_scale_2 is {}, expected one float32", m.stem,
                        whole->ToString());
  return Float4Matrix(*values, *scales, RealAt(*whole, 0), 1, m.stem);
}

}  // namespace

extern const CheckpointFormat kCheckpointModelopt = {
    .method = "modelopt",
    .signs = {"weight_scale"},
    .parts = {"weight", "weight_scale", "weight_scale_2", "input_scale"},
    .join = Join,
};

}  // namespace evoq
