// MLX's folders (quantization_config with bits and group_size alone) and transformers' `metal`: of
// a matrix from K inputs to N outputs
//   weight uint32 [N, K * bits / 32]: the numbers of a row one behind the other, as one string of
//     bits, the first in the lowest; those of 3, 5 and 6 bits cross words
//   scales, biases (qbiases) real [N, K / group_size]: a weight is number * scale + bias
// of the mode mxfp4, nvfp4 or mxfp8
//   weight uint32: float4e2m1, the first in the lowest bits, or float8e4m3fn, by bytes
//   scales uint8 [N, K / group_size]: exponents of powers of two plus 127, nvfp4's float8e4m3fn
// Matrices may have settings of their own in quantization_config, under their names.
#include "base/brief.h"
#include "base/json_file.h"
#include "llm/checkpoint_format.h"
#include "llm/float4_matrix.h"
#include "llm/float8_matrix.h"
#include "llm/float_matrix.h"
#include "llm/packed_matrix.h"
#include "llm/settings.h"

namespace evoq {
namespace {

// Rows of numbers of at most 8 bits.
struct BitRows {
  std::span<const std::byte> bytes;
  int64_t row_bytes = 0;
  int bits = 4;

  int At(int64_t row, int64_t column) const {
    const auto first = static_cast<size_t>(row * row_bytes + column * bits / 8);
    const int shift = static_cast<int>(column * bits % 8);
    int value = static_cast<int>(bytes[first]);
    if (shift + bits > 8) value |= static_cast<int>(bytes[first + 1]) << 8;
    return value >> shift & ((1 << bits) - 1);
  }
};

// The tensor `weight`, of rows of whole numbers.
Result<const StoredTensor*> WordsOf(const CheckpointMatrix& m, int64_t bits) {
  EVOQ_ASSIGN(const StoredTensor* words, m.Need("weight"));
  if (words->dtype == DType::kUint32 && words->sizes.size() == 2 && !words->bytes.empty() &&
      words->sizes[1] <= INT64_MAX / 32 && words->sizes[1] * 32 % bits == 0)
    return words;
  return InvalidInput("tensor {}.weight is {}, expected uint32 of rows of numbers of {} bits",
                      m.stem, words->ToString(), bits);
}

// Of the modes whose numbers are floating-point.
Result<StoredTensor> JoinReal(const CheckpointMatrix& m, const std::string& mode) {
  EVOQ_ASSIGN(const StoredTensor* words, WordsOf(m, 4));
  EVOQ_ASSIGN(const StoredTensor* found, m.Need("scales"));
  StoredTensor values = *words, scales = *found;
  if (scales.dtype != DType::kUint8)
    return InvalidInput("tensor {}.scales is {}, expected uint8", m.stem, scales.ToString());
  values.sizes[1] *= 4;
  if (mode == "mxfp8") {
    values.dtype = DType::kFloat8E4M3FN;
    return Float8Matrix(values, scales, 1, 32, m.stem + ".weight");
  }
  values.dtype = DType::kUint8;
  if (mode == "nvfp4") scales.dtype = DType::kFloat8E4M3FN;
  return Float4Matrix(values, scales, 1, 1, m.stem);
}

Result<StoredTensor> Join(const CheckpointMatrix& m) {
  const bool own = Given(m.settings, m.stem.c_str()) && m.settings[m.stem].is_object();
  const nlohmann::json& settings = own ? m.settings[m.stem] : m.settings;
  const std::string mode = JsonText(settings, "mode");
  if (mode == "mxfp4" || mode == "nvfp4" || mode == "mxfp8") return JoinReal(m, mode);
  if (!mode.empty() && mode != "affine")
    return Unsupported("{}: mode '{}', expected affine, mxfp4, nvfp4 or mxfp8", m.stem,
                       Shorten(mode));
  EVOQ_ASSIGN(const int64_t bits, Int(settings, {"bits"}, 4));
  if (bits < 2 || bits > 8 || bits == 7)
    return Unsupported("{}: {} bits, expected 2, 3, 4, 5, 6 or 8", m.stem, bits);
  EVOQ_ASSIGN(const StoredTensor* words, WordsOf(m, bits));
  const char* const bias_name = m.Find("qbiases") != nullptr ? "qbiases" : "biases";
  EVOQ_ASSIGN(const StoredTensor* scales, m.NeedReal("scales"));
  EVOQ_ASSIGN(const StoredTensor* biases, m.NeedReal(bias_name));
  const int64_t outputs = words->sizes[0], inputs = words->sizes[1] * 32 / bits;
  if (scales->sizes.size() != 2 || scales->sizes[0] != outputs || scales->sizes[1] < 1 ||
      inputs % scales->sizes[1] != 0 || biases->sizes != scales->sizes)
    return InvalidInput("{}: scales {} and {} {} for {} outputs and {} inputs", m.stem,
                        scales->ToString(), bias_name, biases->ToString(), outputs, inputs);
  const BitRows q{words->bytes, 4 * words->sizes[1], static_cast<int>(bits)};
  const auto row = [q, inputs, scales = *scales, biases = *biases](int64_t n, float* to) {
    const int64_t groups = scales.sizes[1], group = inputs / groups;
    for (int64_t k = 0; k < inputs; ++k) {
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
    .signs = {"biases", "scales"},
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
