#include "llm/float8_matrix.h"

#include <array>
#include <cmath>

#include "base/budget_scope.h"
#include "base/math.h"
#include "llm/packed_matrix.h"

namespace evoq {
namespace {

// Rows and columns that share a scale.
struct Blocks {
  int64_t rows, columns;
};

Result<Tensor> Widened(const StoredTensor& values, const StoredTensor& scales, Blocks blocks) {
  const int64_t outputs = values.sizes[0], inputs = values.sizes[1];
  EVOQ_TRY(SpendMemory(outputs * inputs * 4, "weights in float32"));
  std::array<float, 256> numbers;
  for (int i = 0; i < 256; ++i)
    numbers[static_cast<size_t>(i)] = TinyFloatToFloat(values.dtype, static_cast<uint8_t>(i));
  Tensor out = Tensor::Allocate(TensorType(DType::kFloat32, Shape{inputs, outputs}));
  float* const to = out.mutable_data<float>();
  const int64_t across = CeilDiv(inputs, blocks.columns);
  for (int64_t n = 0; n < outputs; ++n) {
    const auto* const row = reinterpret_cast<const uint8_t*>(values.bytes.data()) + n * inputs;
    for (int64_t k = 0; k < inputs; ++k) {
      const float scale = RealAt(scales, n / blocks.rows * across + k / blocks.columns),
                  value = numbers[row[k]] * scale;
      if (!std::isfinite(value))
        return InvalidInput("output {}, input {}: {} times the scale {}", n, k, numbers[row[k]],
                            scale);
      to[k * outputs + n] = value;
    }
  }
  return out;
}

}  // namespace

Result<StoredTensor> Float8Matrix(const StoredTensor& values, const StoredTensor& scales,
                                  int64_t block_outputs, int64_t block_inputs,
                                  const std::string& name) {
  if ((values.dtype != DType::kFloat8E4M3FN && values.dtype != DType::kFloat8E5M2) ||
      values.sizes.size() != 2 || values.bytes.empty())
    return InvalidInput("tensor {} is {}, expected float8 of two sizes", name, values.ToString());
  EVOQ_TRY(CheckReal(scales, "of the scales of " + name));
  const int64_t outputs = values.sizes[0], inputs = values.sizes[1];
  using Sizes = std::vector<int64_t>;
  Blocks blocks{outputs, inputs};  // one for all
  if (scales.sizes == Sizes{outputs} || scales.sizes == Sizes{outputs, 1}) {
    blocks = {1, inputs};
  } else if (block_outputs > 0 && block_inputs > 0 &&
             scales.sizes ==
                 Sizes{CeilDiv(outputs, block_outputs), CeilDiv(inputs, block_inputs)}) {
    blocks = {block_outputs, block_inputs};
  } else if (scales.sizes != Sizes{} && scales.sizes != Sizes{1}) {
    return InvalidInput("tensor {} is {} with scales {}", name, values.ToString(),
                        scales.ToString());
  }
  StoredTensor out{.sizes = values.sizes};
  JoinedWeight joined{.format = DTypeName(values.dtype), .parts = {values, scales}};
  joined.constant = [values, scales, blocks] { return Widened(values, scales, blocks); };
  out.joined = std::make_shared<const JoinedWeight>(std::move(joined));
  return out;
}

}  // namespace evoq
