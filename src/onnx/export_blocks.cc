#include "onnx/export_blocks.h"

#include <bit>

#include "base/math.h"
#include "kernels/gemm/blocks/block_data.h"
#include "tensor/normal_float.h"

namespace evoq {
namespace {

Result<MicrosoftProduct> AsMatMulNBits(const Tensor& weights, int64_t data_block) {
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
  Tensor bits_of_weights = Tensor::Allocate(TensorType(DType::kUint8, Shape{n, blocks, bytes})),
         scales = Tensor::Allocate(TensorType(DType::kFloat32, Shape{n * blocks})),
         zeros = Tensor::Allocate(TensorType(DType::kUint8, Shape{n * zero_bytes}));
  const auto set = [&](Tensor& t, int64_t i, int32_t v) {
    if (bits < 8) return SetPackedBits(t.mutable_raw(), i, bits, v);
    t.mutable_data<uint8_t>()[i] = static_cast<uint8_t>(v);
  };
  EVOQ_ASSIGN(const std::vector<int64_t> q,
              ToInt64s(weights.WithType(TensorType(type.dtype, type.shape))));
  for (int64_t i = 0; i < k * n; ++i)
    set(bits_of_weights, i % n * blocks * data_block + i / n, static_cast<int32_t>(q[i]) + offset);
  for (int64_t i = 0; i < blocks * n; ++i) {
    const int64_t column = i % n, b = i / n;
    scales.mutable_data<float>()[column * blocks + b] = type.quant->scales[i];
    set(zeros, column * (zero_bytes * 8 / bits) + b, type.quant->zero_points[i] + offset);
  }
  MicrosoftProduct product = {{{"weights", bits_of_weights}, {"scales", scales}, {"zeros", zeros}},
                              {}};
  product.attrs.Set("K", k);
  product.attrs.Set("N", n);
  product.attrs.Set("bits", bits);
  product.attrs.Set("block_size", data_block);
  product.attrs.Set("accuracy_level", 4);
  return product;
}

// Whether blocks fill the columns, and are of sizes that MatMulBnb4 has.
bool FitsBnb4(const Tensor& weights) {
  const TensorType& type = weights.type();
  if (type.dtype != kNormalFloat4 || !type.quantized() || type.shape.rank() != 2 ||
      !weights.layout().empty() || type.quant->axis != 0)
    return false;
  const int64_t block = type.quant->block;
  return block >= 16 && std::has_single_bit(static_cast<uint64_t>(block)) &&
         type.shape[0].value % block == 0;
}

// As upgrade_bnb4.cc reads it.
MicrosoftProduct AsMatMulBnb4(const Tensor& weights) {
  const TensorType& type = weights.type();
  const QuantParams& quant = *type.quant;
  const int64_t k = type.shape[0].value, n = type.shape[1].value, blocks = k / quant.block;
  Tensor packed = Tensor::Allocate(TensorType(DType::kUint8, Shape{k * n / 2})),
         scales = Tensor::Allocate(TensorType(DType::kFloat32, Shape{blocks * n}));
  for (int64_t i = 0; i < k * n; ++i) {
    const int64_t at = i % n * k + i / n;
    packed.mutable_data<uint8_t>()[at / 2] |= PackedBits(weights.raw(), i, 4)
                                              << (at % 2 == 0 ? 4 : 0);
  }
  for (int64_t i = 0; i < blocks * n; ++i)
    scales.mutable_data<float>()[i % n * blocks + i / n] = quant.scales[i];
  MicrosoftProduct product = {{{"weights", packed}, {"scales", scales}}, {}};
  product.attrs.Set("K", k);
  product.attrs.Set("N", n);
  product.attrs.Set("block_size", quant.block);
  product.attrs.Set("quant_type", 1);
  return product;
}

}  // namespace

const char* MicrosoftProductOf(const Graph& graph, const Node& node) {
  if (node.op != "MatMul" || !node.domain.empty()) return nullptr;
  if (node.attrs.Int(kDataBlock, 0) > 0) return "MatMulNBits";
  const Tensor* weights = graph.ConstantInput(node, 1);
  return weights != nullptr && FitsBnb4(*weights) ? "MatMulBnb4" : nullptr;
}

Result<MicrosoftProduct> AsMicrosoftProduct(const Graph& graph, const Node& node) {
  const Tensor* weights = graph.ConstantInput(node, 1);
  const int64_t data_block = node.attrs.Int(kDataBlock, 0);
  if (weights == nullptr) return Unsupported("computed weights of rounded data");
  if (data_block > 0) return AsMatMulNBits(*weights, data_block);
  return AsMatMulBnb4(*weights);
}

}  // namespace evoq
