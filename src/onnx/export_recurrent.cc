#include "onnx/export_recurrent.h"

#include "kernels/gemm/blocks/block_data.h"
#include "kernels/recurrent/weights.h"

namespace evoq {
namespace {

// The rows' scales of all directions, where each row has one for all of K.
struct RowScales {
  std::vector<float> scales;
  std::vector<int32_t> zeros;
};

std::optional<RowScales> RowScalesOf(const TensorType& type) {
  RowScales all;
  for (int64_t d = 0; d < type.shape[0].value; ++d) {
    const auto matrix = DirectionType(type, d);
    if (!matrix) return std::nullopt;
    const QuantParams& q = *matrix->quant;
    const int64_t rows = type.shape[1].value;
    if (!q.per_tensor() && static_cast<int64_t>(q.scales.size()) != rows) return std::nullopt;
    for (int64_t n = 0; n < rows; ++n) {
      all.scales.push_back(q.scales[q.per_tensor() ? 0 : n]);
      all.zeros.push_back(q.zero_points[q.per_tensor() ? 0 : n]);
    }
  }
  return all;
}

void Split(const Tensor& from, Tensor& w, Tensor& scale, Tensor& zero) {
  const int64_t directions = from.sizes()[0], rows = from.sizes()[1], depth = from.sizes()[2];
  w = Tensor::Allocate(TensorType(from.dtype(), Shape{directions, depth, rows}));
  for (int64_t d = 0; d < directions; ++d) {
    for (int64_t n = 0; n < rows; ++n) {
      for (int64_t k = 0; k < depth; ++k)
        w.mutable_raw()[(d * depth + k) * rows + n] = from.raw()[(d * rows + n) * depth + k];
    }
  }
  const RowScales all = *RowScalesOf(from.type());
  const Shape shape{directions, rows};
  scale = Tensor::FromValues<float>(shape, all.scales);
  zero = Tensor::Allocate(TensorType(from.dtype(), shape));
  for (size_t i = 0; i < all.zeros.size(); ++i)
    zero.mutable_raw()[i] = static_cast<std::byte>(all.zeros[i]);
}

}  // namespace

bool IsDynamicLstm(const Graph& graph, const Node& node) {
  if (node.op != "LSTM" || !node.domain.empty() || node.attrs.Int(kDataBlock, 0) == 0 ||
      node.attrs.Int("layout") != 0)
    return false;
  for (size_t i : {1, 2}) {
    const Tensor* w = graph.ConstantInput(node, i);
    if (w == nullptr || DTypeBits(w->dtype()) != 8 || !IsInteger(w->dtype()) ||
        !w->layout().empty() || w->shape().rank() != 3 || !RowScalesOf(w->type()))
      return false;
  }
  return true;
}

DynamicLstmWeights DynamicLstmWeightsOf(const Graph& graph, const Node& node) {
  DynamicLstmWeights weights;
  Split(*graph.ConstantInput(node, 1), weights.w, weights.w_scale, weights.w_zero);
  Split(*graph.ConstantInput(node, 2), weights.r, weights.r_scale, weights.r_zero);
  return weights;
}

}  // namespace evoq
