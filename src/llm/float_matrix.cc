#include "llm/float_matrix.h"

#include <algorithm>
#include <cmath>

#include "base/budget_scope.h"

namespace evoq {
namespace {

constexpr int64_t kRows =
    16;  // made together: their elements share a line of the transposed matrix

Result<Tensor> Transposed(int64_t outputs, int64_t inputs,
                          const std::function<void(int64_t n, float* to)>& row) {
  EVOQ_TRY(SpendMemory(outputs * inputs * 4, "weights in float32"));
  Tensor out = Tensor::Allocate(TensorType(DType::kFloat32, Shape{inputs, outputs}));
  float* const to = out.mutable_data<float>();
  std::vector<float> rows(static_cast<size_t>(kRows * inputs));
  for (int64_t first = 0; first < outputs; first += kRows) {
    const int64_t count = std::min(kRows, outputs - first);
    for (int64_t i = 0; i < count; ++i) row(first + i, rows.data() + i * inputs);
    for (int64_t k = 0; k < inputs; ++k) {
      for (int64_t i = 0; i < count; ++i) {
        const float value = rows[static_cast<size_t>(i * inputs + k)];
        if (!std::isfinite(value))
          return InvalidInput("output {}, input {}: the weight is {}", first + i, k, value);
        to[k * outputs + first + i] = value;
      }
    }
  }
  return out;
}

}  // namespace

StoredTensor FloatMatrix(std::string format, int64_t outputs, int64_t inputs,
                         std::function<void(int64_t n, float* to)> row,
                         std::vector<StoredTensor> parts) {
  StoredTensor out{.sizes = {outputs, inputs}};
  JoinedWeight joined{.format = std::move(format), .parts = std::move(parts)};
  joined.constant = [outputs, inputs, row = std::move(row)] {
    return Transposed(outputs, inputs, row);
  };
  out.joined = std::make_shared<const JoinedWeight>(std::move(joined));
  return out;
}

}  // namespace evoq
