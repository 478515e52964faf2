#include "graph/weight_bits.h"

#include <algorithm>

namespace evoq {

int WeightBitsOf(const Node& node) {
  const int64_t bits = node.attrs.Int(kWeightBits, 8);
  return bits == 4 || bits == 2 ? static_cast<int>(bits) : 8;
}

DType WeightTypeOf(int bits) {
  return bits == 2 ? DType::kInt2 : bits == 4 ? DType::kInt4 : DType::kInt8;
}

int NarrowFactor(std::span<const std::byte> numbers, int bits) {
  constexpr int kMost = 64;
  const int low = -(1 << (bits - 1)), high = -low - 1;
  for (int factor = 1; factor <= kMost; factor *= 2) {
    const bool fits = std::all_of(numbers.begin(), numbers.end(), [&](std::byte b) {
      const int x = static_cast<int8_t>(b);
      return x % factor == 0 && x / factor >= low && x / factor <= high;
    });
    if (fits) return factor;
  }
  return 0;
}

std::optional<Tensor> NarrowWeights(const Tensor& weights, int bits) {
  const TensorType& type = weights.type();
  if (type.dtype != DType::kInt8 || !type.quantized() || !weights.layout().empty()) return {};
  const std::vector<int32_t>& zeros = type.quant->zero_points;
  if (std::any_of(zeros.begin(), zeros.end(), [](int32_t z) { return z != 0; })) return {};
  const int factor = NarrowFactor({weights.raw(), weights.bytes()}, bits);
  if (factor == 0) return {};
  QuantParams params = *type.quant;
  for (float& scale : params.scales) scale *= static_cast<float>(factor);
  Tensor narrow = Tensor::Allocate(TensorType(WeightTypeOf(bits), type.shape, std::move(params)));
  for (int64_t i = 0; i < weights.elements(); ++i)
    SetPackedBits(narrow.mutable_raw(), i, bits, weights.data<int8_t>()[i] / factor);
  return narrow;
}

}  // namespace evoq
