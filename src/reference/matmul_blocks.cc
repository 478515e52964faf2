// MatMul with data_block: kernels/gemm/blocks/block_data.h.
#include <algorithm>
#include <cmath>

#include "kernels/activation.h"
#include "kernels/gemm/blocks/block_data.h"
#include "kernels/gemm/blocks/weights.h"
#include "kernels/math/unary.h"
#include "ops/matmul.h"
#include "reference/matmul.h"
#include "reference/util.h"

namespace evoq {
namespace {

// The rows of input 0: numbers [rows][K] and scales [rows][ceil(K / block)].
struct Rounded {
  std::vector<int8_t> q;
  std::vector<float> scales;
};

Rounded RoundRows(const float* x, int64_t rows, int64_t depth, int64_t block) {
  Rounded r;
  r.q.resize(static_cast<size_t>(rows * depth));
  for (int64_t m = 0; m < rows; ++m) {
    for (int64_t k = 0; k < depth; k += std::min(block, depth - k))
      r.scales.push_back(
          QuantizeBlock(x + m * depth + k, std::min(block, depth - k), r.q.data() + m * depth + k));
  }
  return r;
}

// One product, rows [rows][K] by w [K, N].
struct Product {
  int64_t rows, depth, columns, data_block;
  const Rounded& data;
  const BlockIntegers& weights;
  const QuantParams& quant;

  int64_t ScaleAt(int64_t k, int64_t n) const {
    if (quant.per_tensor()) return 0;
    return quant.block == 0 ? n : k / quant.block * columns + n;
  }

  float Sum(int64_t m, int64_t n, float v) const {
    const int64_t data_blocks = depth == 0 ? 0 : (depth - 1) / data_block + 1;
    for (int64_t k = 0; k < depth;) {
      const int64_t d = k / data_block, data_end = depth - k <= data_block - k % data_block
                                                       ? depth
                                                       : k + data_block - k % data_block;
      float t = 0;
      for (bool first = true; k < data_end; first = false) {
        const int64_t at = ScaleAt(k, n);
        const int64_t left = quant.block == 0 ? data_end - k : quant.block - k % quant.block;
        const int64_t end = k + std::min(left, data_end - k);
        int64_t sum = 0;
        for (; k < end; ++k)
          sum += data.q[m * depth + k] * (weights.q[k * columns + n] - quant.zero_points[at]);
        const auto real = static_cast<float>(sum);
        const float scale = quant.scales[at] * weights.unit;
        t = first ? real * scale : std::fma(real, scale, t);
      }
      v = std::fma(data.scales[m * data_blocks + d], t, v);
    }
    return v;
  }
};

}  // namespace

Result<Tensor> RoundedData(const EvalArgs& args) {
  const Tensor& x = args.inputs[0];
  const int64_t block = args.node.attrs.Int(kDataBlock, 0);
  if (block == 0) return x;
  if (x.dtype() != DType::kFloat32) return Unsupported("{} data by blocks", DTypeName(x.dtype()));
  const int64_t depth = x.sizes().back(), rows = depth == 0 ? 0 : x.elements() / depth;
  const Rounded r = RoundRows(x.data<float>(), rows, depth, block);
  Tensor y = Tensor::Allocate(x.type());
  const int64_t blocks = depth == 0 ? 0 : (depth - 1) / block + 1;
  for (int64_t i = 0; i < y.elements(); ++i)
    y.mutable_data<float>()[i] =
        static_cast<float>(r.q[i]) * r.scales[i / depth * blocks + i % depth / block];
  return y;
}

EvalResult EvaluateBlocks(const EvalArgs& args) {
  const Tensor &x = args.inputs[0], &w = args.inputs[1];
  const auto not_taken = [](const char* what, const TensorType& type) {
    return Unsupported("{} {} by blocks", what, type.ToString());
  };
  if (x.dtype() != DType::kFloat32 || x.type().quantized()) return not_taken("data", x.type());
  if (!w.type().quantized() || w.shape().rank() != 2) return not_taken("weights", w.type());
  const QuantParams& quant = *w.type().quant;
  if (quant.block != 0 ? quant.axis != 0 : !quant.per_tensor() && quant.axis != 1)
    return not_taken("weights", w.type());
  for (size_t i : {size_t{2}, size_t{3}}) {
    if (args.has(i) &&
        (args.inputs[i].dtype() != DType::kFloat32 || args.inputs[i].type().quantized()))
      return not_taken("an input", args.inputs[i].type());
  }
  if (args.has(4)) return not_taken("a table", args.inputs[4].type());
  if (args.output_types[0].dtype != DType::kFloat32 || args.output_types[0].quantized())
    return not_taken("output", args.output_types[0]);
  EVOQ_ASSIGN(const Activation activation, ActivationFromAttrs(args.node.attrs));
  const std::optional<Unary> curve = UnaryFromActivation(activation);
  const MatMulGeometry g = MatMulGeometryOf(x.shape(), w.shape());
  const int64_t rows = g.batches() * g.m, block = args.node.attrs.Int(kDataBlock, 0);
  const Rounded data = RoundRows(x.data<float>(), rows, g.k, block);
  EVOQ_ASSIGN(const BlockIntegers integers, BlockIntegersOf(w));
  const Product product = {rows, g.k, g.n, block, data, integers, quant};
  Tensor y = Tensor::Allocate(args.output_types[0]);
  for (int64_t i = 0; i < y.elements(); ++i) {
    const int64_t n = i % g.n;
    float v = product.Sum(i / g.n, n, args.has(2) ? args.inputs[2].data<float>()[n] : 0.0f);
    if (args.has(3)) v += args.inputs[3].data<float>()[i];
    y.mutable_data<float>()[i] = curve ? Apply(*curve, v) : v;
  }
  return One(std::move(y));
}

}  // namespace evoq
