// MLX's folders (quantization_config with bits and group_size alone) and transformers' `metal`: of
// a matrix from K inputs to N outputs
//   weight uint32 [N, K * bits / 32]: the numbers of a row, the first in the lowest bits
//   scales, biases (qbiases) real [N, K / group_size]: a weight is number * scale + bias
// Matrices may have settings of their own in quantization_config, under their names.
#include "llm/checkpoint_format.h"
#include "llm/float_matrix.h"
#include "llm/packed_matrix.h"
#include "llm/settings.h"

namespace evoq {
namespace {

Result<StoredTensor> Join(const CheckpointMatrix& m) {
  const bool own = Given(m.settings, m.stem.c_str()) && m.settings[m.stem].is_object();
  const nlohmann::json& settings = own ? m.settings[m.stem] : m.settings;
  EVOQ_ASSIGN(const int64_t bits, Int(settings, {"bits"}, 4));
  if (bits != 2 && bits != 4 && bits != 8)
    return Unsupported("{}: {} bits, expected 2, 4 or 8", m.stem, bits);
  EVOQ_ASSIGN(const StoredTensor* words, m.Need("weight"));
  const char* const bias_name = m.Find("qbiases") != nullptr ? "qbiases" : "biases";
  EVOQ_ASSIGN(const StoredTensor* scales, m.NeedReal("scales"));
  EVOQ_ASSIGN(const StoredTensor* biases, m.NeedReal(bias_name));
  if (words->dtype != DType::kUint32 || words->sizes.size() != 2 || words->bytes.empty() ||
      words->sizes[1] > INT64_MAX / 32)
    return InvalidInput("tensor {}.weight is {}, expected uint32 of two sizes", m.stem,
                        words->ToString());
  const int64_t outputs = words->sizes[0], inputs = words->sizes[1] * 32 / bits;
  if (scales->sizes.size() != 2 || scales->sizes[0] != outputs || scales->sizes[1] < 1 ||
      inputs % scales->sizes[1] != 0 || biases->sizes != scales->sizes)
    return InvalidInput("{}: scales {} and {} {} for {} outputs and {} inputs", m.stem,
                        scales->ToString(), bias_name, biases->ToString(), outputs, inputs);
  const PackedNumbers q{
      .words = words->bytes, .rows = outputs, .columns = inputs, .bits = static_cast<int>(bits)};
  const auto row = [q, scales = *scales, biases = *biases](int64_t n, float* to) {
    const int64_t groups = scales.sizes[1], group = q.columns / groups;
    for (int64_t k = 0; k < q.columns; ++k) {
      const int64_t g = n * groups + k / group;
      to[k] = static_cast<float>(q.At(n, k)) * RealAt(scales, g) + RealAt(biases, g);
    }
  };
  return FloatMatrix(fmt::format("MLX int{}", bits), outputs, inputs, row,
                     {*words, *scales, *biases});
}

}  // namespace

extern const CheckpointFormat kCheckpointMlx = {
    .method = "mlx",
    .signs = {"biases"},
    .parts = {"weight", "scales", "biases"},
    .join = Join,
};
extern const CheckpointFormat kCheckpointMetal = {
    .method = "metal",
    .signs = {"qbiases"},
    .parts = {"weight", "scales", "qbiases"},
    .join = Join,
};

}  // namespace evoq
