#include "onnx/export_blocks.h"

#include <bit>

#include "base/math.h"

namespace evoq {

Result<MatMulNBitsParts> AsMatMulNBits(const Tensor& weights, int64_t data_block) {
  const TensorType& type = weights.type();
  const int bits = DTypeBits(type.dtype);
  const bool fits = IsInteger(type.dtype) && (bits == 2 || bits == 4 || bits == 8) &&
                    type.quantized() && type.shape.rank() == 2 && weights.layout().empty() &&
                    type.quant->axis == 0 && type.quant->block == data_block && data_block >= 16 &&
                    std::has_single_bit(static_cast<uint64_t>(data_block));
  if (!fits)
    return Unsupported(
        "a product by {} of data that is rounded in blocks of {}: ONNX files hold such products of "
        "integer weights of 2, 4 or 8 bits in the same blocks, of 16, 32, 64, ...",
        type.ToString(), data_block);
  const int64_t k = type.shape[0].value, n = type.shape[1].value, blocks = CeilDiv(k, data_block),
                bytes = data_block * bits / 8, zero_bytes = CeilDiv(blocks * bits, int64_t{8});
  const int32_t offset = !IsSigned(type.dtype) ? 0 : 1 << (bits - 1);
  MatMulNBitsParts parts = {Tensor::Allocate(TensorType(DType::kUint8, Shape{n, blocks, bytes})),
                            Tensor::Allocate(TensorType(DType::kFloat32, Shape{n * blocks})),
                            Tensor::Allocate(TensorType(DType::kUint8, Shape{n * zero_bytes})),
                            {}};
  const auto set = [&](Tensor& t, int64_t i, int32_t v) {
    if (bits < 8) return SetPackedBits(t.mutable_raw(), i, bits, v);
    t.mutable_data<uint8_t>()[i] = static_cast<uint8_t>(v);
  };
  EVOQ_ASSIGN(const std::vector<int64_t> q,
              ToInt64s(weights.WithType(TensorType(type.dtype, type.shape))));
  for (int64_t i = 0; i < k * n; ++i)
    set(parts.weights, i % n * blocks * data_block + i / n, static_cast<int32_t>(q[i]) + offset);
  for (int64_t i = 0; i < blocks * n; ++i) {
    const int64_t column = i % n, b = i / n;
    parts.scales.mutable_data<float>()[column * blocks + b] = type.quant->scales[i];
    set(parts.zeros, column * (zero_bytes * 8 / bits) + b, type.quant->zero_points[i] + offset);
  }
  parts.attrs.Set("K", k);
  parts.attrs.Set("N", n);
  parts.attrs.Set("bits", bits);
  parts.attrs.Set("block_size", data_block);
  parts.attrs.Set("accuracy_level", 4);
  return parts;
}

}  // namespace evoq
