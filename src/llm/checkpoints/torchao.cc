// torchao's checkpoints, as transformers writes them to safetensors: of a matrix
//   _weight_qdata int8 [outputs, inputs]; _weight_scale [outputs, 1] or [outputs, groups],
//     _weight_zero_point int8 alike (Int8Tensor, IntxUnpackedToInt8Tensor)
//   _weight_qdata float8 [outputs, inputs]; _weight_scale of all, each output, or blocks of a size
//     (Float8Tensor)
//   _weight_qdata int8 [outputs, inputs / 2], the first of two signed numbers in the low half;
//     _weight_scale, _weight_zero_point real [groups, outputs]: a weight is number * scale + zero
//     point (Int4Tensor)
// int4 in kernels' own orders is not read.
#include "llm/checkpoint_format.h"
#include "llm/float8_matrix.h"
#include "llm/float_matrix.h"
#include "llm/packed_matrix.h"
#include "llm/scaled_bytes.h"

namespace evoq {
namespace {

constexpr char kData[] = "_weight_qdata", kScale[] = "_weight_scale",
               kZero[] = "_weight_zero_point";

Result<StoredTensor> JoinInt4(const CheckpointMatrix& m) {
  EVOQ_ASSIGN(const StoredTensor* values, m.Need(kData));
  EVOQ_ASSIGN(const StoredTensor* scales, m.NeedReal(kScale));
  EVOQ_ASSIGN(const StoredTensor* zeros, m.NeedReal(kZero));
  if (values->sizes.size() != 2 || values->sizes[1] > INT64_MAX / 2 || values->bytes.empty())
    return InvalidInput("tensor {}.{} is {}, expected int8 of two sizes", m.stem, kData,
                        values->ToString());
  const int64_t outputs = values->sizes[0], inputs = values->sizes[1] * 2;
  const bool fits = scales->sizes.size() == 2 && scales->sizes[0] > 0 &&
                    scales->sizes[1] == outputs && inputs % scales->sizes[0] == 0;
  if (!fits || zeros->sizes != scales->sizes)
    return InvalidInput("{}: scales {} and zero points {} for {} outputs and {} inputs", m.stem,
                        scales->ToString(), zeros->ToString(), outputs, inputs);
  const auto row = [inputs, outputs, v = *values, s = *scales, z = *zeros](int64_t n, float* to) {
    const int64_t group = inputs / s.sizes[0];
    const auto* const bytes = v.bytes.data() + n * inputs / 2;
    for (int64_t k = 0; k < inputs; ++k) {
      const int half = static_cast<int>(bytes[k / 2]) >> (k % 2 * 4) & 15;
      const int64_t g = k / group * outputs + n;
      to[k] = static_cast<float>(half < 8 ? half : half - 16) * RealAt(s, g) + RealAt(z, g);
    }
  };
  return FloatMatrix("torchao int4", outputs, inputs, row, {*values, *scales, *zeros});
}

Result<StoredTensor> Join(const CheckpointMatrix& m) {
  EVOQ_ASSIGN(const StoredTensor* values, m.Need(kData));
  EVOQ_ASSIGN(const StoredTensor* scales, m.Need(kScale));
  if (m.Find("_weight_act_pre_scale") != nullptr)
    return Unsupported("tensor {}._weight_act_pre_scale", m.stem);
  if (values->dtype == DType::kInt8) {
    const StoredTensor* zeros = m.Find(kZero);
    if (zeros != nullptr && zeros->dtype != DType::kInt8) return JoinInt4(m);
    return ScaledBytes(m, *values, kScale, kZero, "torchao int8");
  }
  if (values->dtype != DType::kFloat8E4M3FN && values->dtype != DType::kFloat8E5M2)
    return Unsupported("tensor {}.{} is {}, expected int8 or float8{}", m.stem, kData,
                       values->ToString(),
                       values->dtype == DType::kInt32 ? ": int4 in the order of a kernel" : "");
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
