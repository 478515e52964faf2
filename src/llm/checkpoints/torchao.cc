// torchao's checkpoints, as transformers writes them to safetensors: of a matrix
//   _weight_qdata int8 [outputs, inputs]; _weight_scale [outputs, 1] or [outputs, groups],
//     _weight_zero_point int8 alike (Int8Tensor, IntxUnpackedToInt8Tensor)
//   _weight_qdata float8 [outputs, inputs]; _weight_scale of all, each output, or blocks of a size
//     (Float8Tensor)
// int4 in kernels' own orders is not read.
#include "llm/checkpoint_format.h"
#include "llm/float8_matrix.h"
#include "llm/scaled_bytes.h"

namespace evoq {
namespace {

constexpr char kData[] = "_weight_qdata", kScale[] = "_weight_scale",
               kZero[] = "_weight_zero_point";

Result<StoredTensor> Join(const CheckpointMatrix& m) {
  EVOQ_ASSIGN(const StoredTensor* values, m.Need(kData));
  EVOQ_ASSIGN(const StoredTensor* scales, m.Need(kScale));
  if (m.Find("_weight_act_pre_scale") != nullptr)
    return Unsupported("tensor {}._weight_act_pre_scale", m.stem);
  if (values->dtype == DType::kInt8) {
    // Int4Tensor has two numbers to a byte, and real zero points.
    const StoredTensor* zeros = m.Find(kZero);
    if (zeros != nullptr && zeros->dtype != DType::kInt8)
      return Unsupported("tensor {}.{} is {}, expected int8: int4 in the order of a kernel", m.stem,
                         kZero, zeros->ToString());
    return ScaledBytes(m, *values, kScale, kZero, "torchao int8");
  }
  if (values->dtype != DType::kFloat8E4M3FN && values->dtype != DType::kFloat8E5M2)
    return Unsupported("tensor {}.{} is {}, expected int8 or float8", m.stem, kData,
                       values->ToString());
  const bool blocks = values->sizes.size() == 2 && scales->sizes.size() == 2 &&
                      scales->sizes[0] > 0 && scales->sizes[1] > 0 &&
                      values->sizes[0] % scales->sizes[0] == 0 &&
                      values->sizes[1] % scales->sizes[1] == 0;
  return Float8Matrix(*values, *scales, blocks ? values->sizes[0] / scales->sizes[0] : 0,
                      blocks ? values->sizes[1] / scales->sizes[1] : 0, m.stem + ".weight");
}

}  // namespace

extern const CheckpointFormat kCheckpointTorchao = {
    .method = "torchao",
    .signs = {kData},
    .parts = {kData, kScale, kZero},
    .join = Join,
};

}  // namespace evoq
