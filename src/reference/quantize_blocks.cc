// evoq::DynamicQuantizeBlocks(x) -> q, scales. Of each block_size elements of a row, with m the
// largest magnitude: scale = the smallest float16 that is at least m / 127, 65504 at most; q =
// round_half_even(x / scale) within -127 and 127. NaN counts for nothing in m and becomes 0, and so
// does all of a block whose scale is 0.
#include <algorithm>
#include <cmath>

#include "base/math.h"
#include "reference/definition.h"
#include "reference/util.h"
#include "tensor/half.h"

namespace evoq {
namespace {

uint16_t ScaleFor(const float* x, int64_t n) {
  float most = 0;
  for (int64_t i = 0; i < n; ++i) most = std::fabs(x[i]) > most ? std::fabs(x[i]) : most;
  return HalfAtLeast(most / 127.0f);
}

int8_t Quantized(float x, float scale) {
  if (std::isnan(x) || scale == 0) return 0;
  return static_cast<int8_t>(std::nearbyint(std::clamp(x / scale, -127.0f, 127.0f)));
}

EvalResult Evaluate(const EvalArgs& args) {
  const Tensor& x = args.inputs[0];
  const int64_t block = args.node.attrs.Int("block_size"), size = x.sizes().back();
  std::vector<int64_t> blocks = x.sizes();
  blocks.back() = CeilDiv(size, block);
  EVOQ_ASSIGN(Tensor q, AllocateOutput(TensorType(DType::kInt8, x.shape())));
  EVOQ_ASSIGN(Tensor scales, AllocateOutput(TensorType(DType::kFloat16, Shape(blocks))));
  uint16_t* scale = scales.mutable_data<uint16_t>();
  for (int64_t row = 0; row < x.elements(); row += size) {
    for (int64_t i = 0; i < size; i += block, ++scale) {
      const float* const values = x.data<float>() + row + i;
      const int64_t n = std::min(block, size - i);
      *scale = ScaleFor(values, n);
      for (int64_t j = 0; j < n; ++j)
        q.mutable_data<int8_t>()[row + i + j] = Quantized(values[j], HalfToFloat(*scale));
    }
  }
  return std::vector<Tensor>{std::move(q), std::move(scales)};
}

}  // namespace

namespace reference {

extern const Definition kDynamicQuantizeBlocks = {
    .name = "DynamicQuantizeBlocks", .domain = "evoq", .evaluate = Evaluate};

}  // namespace reference
}  // namespace evoq
