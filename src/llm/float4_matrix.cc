#include "llm/float4_matrix.h"

#include "llm/packed_matrix.h"

namespace evoq {

Result<StoredTensor> Float4Matrix(const StoredTensor& values, const StoredTensor& scales,
                                  float factor, float divisor, const std::string& stem) {
  if (values.sizes.size() != 2 || values.sizes[1] < 1 || values.sizes[1] > INT64_MAX / 2 ||
      values.sizes[1] % 4 != 0 || values.bytes.empty())
    return Unsupported("the numbers of {} are {}, expected rows of words of 8 numbers", stem,
                       values.ToString());
  const bool powers = scales.dtype == DType::kUint8;
  const int64_t outputs = values.sizes[0], inputs = values.sizes[1] * 2;
  if ((!powers && scales.dtype != DType::kFloat8E4M3FN) || scales.sizes.size() != 2 ||
      scales.sizes[0] != outputs || scales.sizes[1] < 1 || inputs % scales.sizes[1] != 0)
    return InvalidInput("the scales of {} are {}, expected float8e4m3fn or uint8 for {} outputs",
                        stem, scales.ToString(), outputs);
  const int64_t groups = scales.sizes[1];
  GroupedMatrix matrix{
      .inputs = inputs,
      .outputs = outputs,
      .group = inputs / groups,
      .q = {.words = values.bytes, .rows = outputs, .columns = inputs, .real = true},
      .by_output = true};
  matrix.scale = [s = scales, groups, factor, divisor](int64_t g, int64_t n) {
    const auto bits = static_cast<uint8_t>(s.bytes[static_cast<size_t>(n * groups + g)]);
    const DType type = s.dtype == DType::kUint8 ? DType::kFloat8E8M0 : s.dtype;
    return TinyFloatToFloat(type, bits) * factor / divisor;
  };
  matrix.zero = [](int64_t, int64_t) { return 0; };
  return Joined(powers ? "MXFP4" : "NVFP4", std::move(matrix), {values, scales});
}

}  // namespace evoq
