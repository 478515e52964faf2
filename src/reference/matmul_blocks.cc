// MatMul with data_block: kernels/gemm/blocks/block_data.h.
#include "kernels/activation.h"
#include "kernels/math/unary.h"
#include "ops/matmul.h"
#include "reference/matmul.h"
#include "reference/rounded_product.h"
#include "reference/util.h"

namespace evoq {
Result<Tensor> RoundedData(const EvalArgs& args) {
  const Tensor& x = args.inputs[0];
  const int64_t block = args.node.attrs.Int(kDataBlock, 0);
  if (block == 0) return x;
  if (x.dtype() != DType::kFloat32) return Unsupported("{} data by blocks", DTypeName(x.dtype()));
  const int64_t depth = x.sizes().back(), rows = depth == 0 ? 0 : x.elements() / depth;
  const RoundedRows r = RoundRows(x.data<float>(), rows, depth, block);
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
  const RoundedRows data = RoundRows(x.data<float>(), rows, g.k, block);
  EVOQ_ASSIGN(const BlockIntegers integers, BlockIntegersOf(w));
  const RoundedProduct product = {g.k, g.n, block, integers, quant};
  Tensor y = Tensor::Allocate(args.output_types[0]);
  for (int64_t i = 0; i < y.elements(); ++i) {
    const int64_t n = i % g.n;
    float v = product.Sum(data, i / g.n, n, args.has(2) ? args.inputs[2].data<float>()[n] : 0.0f);
    if (args.has(3)) v += args.inputs[3].data<float>()[i];
    y.mutable_data<float>()[i] = curve ? Apply(*curve, v) : v;
  }
  return One(std::move(y));
}

}  // namespace evoq
