#include "llm/float8_matrix.h"

#include <array>

#include "base/math.h"
#include "llm/float_matrix.h"
#include "llm/packed_matrix.h"

namespace evoq {
namespace {

// Rows and columns that share a scale.
struct Blocks {
  int64_t rows, columns;
};

float PowerAt(const StoredTensor& scales, int64_t i) {
  return TinyFloatToFloat(DType::kFloat8E8M0,
                          static_cast<uint8_t>(scales.bytes[static_cast<size_t>(i)]));
}

}  // namespace

Result<StoredTensor> Float8Matrix(const StoredTensor& values, const StoredTensor& scales,
                                  int64_t block_outputs, int64_t block_inputs,
                                  const std::string& name) {
  if ((values.dtype != DType::kFloat8E4M3FN && values.dtype != DType::kFloat8E5M2) ||
      values.sizes.size() != 2 || values.bytes.empty())
    return InvalidInput("tensor {} is {}, expected float8 of two sizes", name, values.ToString());
  const bool powers = scales.dtype == DType::kUint8;
  if (!powers) EVOQ_TRY(CheckReal(scales, "of the scales of " + name));
  const int64_t outputs = values.sizes[0], inputs = values.sizes[1];
  using Sizes = std::vector<int64_t>;
  Blocks blocks{outputs, inputs};  // one for all
  if (scales.sizes == Sizes{outputs} || scales.sizes == Sizes{outputs, 1}) {
    blocks = {1, inputs};
  } else if (block_outputs > 0 && block_inputs > 0 &&
             scales.sizes ==
                 Sizes{CeilDiv(outputs, block_outputs), CeilDiv(inputs, block_inputs)}) {
    blocks = {block_outputs, block_inputs};
  } else if (scales.sizes != Sizes{} && scales.sizes != Sizes{1} && scales.sizes != Sizes{1, 1}) {
    return InvalidInput("tensor {} is {} with scales {}", name, values.ToString(),
                        scales.ToString());
  }
  std::array<float, 256> numbers;
  for (int i = 0; i < 256; ++i)
    numbers[static_cast<size_t>(i)] = TinyFloatToFloat(values.dtype, static_cast<uint8_t>(i));
  const auto row = [=, across = CeilDiv(inputs, blocks.columns)](int64_t n, float* to) {
    const auto* const from = reinterpret_cast<const uint8_t*>(values.bytes.data()) + n * inputs;
    for (int64_t k = 0; k < inputs; ++k) {
      const int64_t at = n / blocks.rows * across + k / blocks.columns;
      to[k] = numbers[from[k]] * (powers ? PowerAt(scales, at) : RealAt(scales, at));
    }
  };
  return FloatMatrix(DTypeName(values.dtype), outputs, inputs, row, {values, scales});
}

}  // namespace evoq
