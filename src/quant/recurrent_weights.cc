#include "quant/recurrent_weights.h"

#include <algorithm>

#include "kernels/gemm/blocks/block_data.h"
#include "ops/op.h"
#include "quant/plan.h"

namespace evoq {
namespace {

constexpr int64_t kLongestDataBlock = 65536;  // of integer products: kernels/gemm/blocks
// Weights of a state, of one direction, from which on integers are faster for one sample; of
// several samples float32 products make more of a weight that was read, up to so many
// (bench/recurrent.py).
constexpr int64_t kLeastOfState = 3072, kManySamples = 4;

bool IsReal(const Tensor& weight) {
  const DType dtype = weight.dtype();
  return IsFloat(dtype) && DTypeBits(dtype) <= 32 && DTypeBits(dtype) >= 16 &&
         weight.layout().empty() && !weight.type().quantized();
}

// Scales of the rows [directions, rows, K] of `type`, one after the other.
QuantParams ByRows(const Shape& shape, std::vector<float> scales, std::vector<int32_t> zeros) {
  const bool one = shape[0].value == 1;
  return {std::move(scales), std::move(zeros), one ? 1 : 2, one ? 0 : shape[2].value};
}

// A matrix [K, rows] of fewer than 8 bits as rows of K, from element `at` of `to` on.
void AppendTransposed(const Tensor& matrix, int64_t at, Tensor& to) {
  const int bits = DTypeBits(matrix.dtype());
  const int64_t depth = matrix.sizes()[0], rows = matrix.sizes()[1];
  for (int64_t n = 0; n < rows; ++n) {
    for (int64_t k = 0; k < depth; ++k)
      SetPackedBits(to.mutable_raw(), at + n * depth + k, bits,
                    PackedBits(matrix.raw(), k * rows + n, bits));
  }
}

// Of the matrix's scales, [blocks, rows] or [rows], those of each row one after the other.
template <typename T>
void AppendByRows(const std::vector<T>& from, int64_t rows, std::vector<T>& to) {
  const int64_t blocks = rows == 0 ? 0 : static_cast<int64_t>(from.size()) / rows;
  for (int64_t n = 0; n < rows; ++n) {
    for (int64_t b = 0; b < blocks; ++b) to.push_back(from[b * rows + n]);
  }
}

Result<Tensor> QuantizeFew(const Tensor& weight, const LowBits& low, int64_t block, int threads) {
  const int64_t directions = weight.sizes()[0], rows = weight.sizes()[1], depth = weight.sizes()[2];
  Tensor q = Tensor::Allocate(TensorType(low.dtype, weight.shape()));
  std::vector<float> scales;
  std::vector<int32_t> zeros;
  for (int64_t d = 0; d < directions; ++d) {
    const Tensor one =
        Tensor::View(TensorType(DType::kFloat32, Shape{rows, depth}),
                     weight.raw() + d * rows * depth * static_cast<int64_t>(sizeof(float)),
                     std::make_shared<const Tensor>(weight));
    EVOQ_ASSIGN(const Tensor matrix, low.Quantize({one, /*transposed=*/true}, block, threads));
    AppendTransposed(matrix, d * rows * depth, q);
    AppendByRows(matrix.type().quant->scales, rows, scales);
    AppendByRows(matrix.type().quant->zero_points, rows, zeros);
  }
  const QuantParams params = block > 0
                                 ? QuantParams{std::move(scales), std::move(zeros), 2, block}
                                 : ByRows(weight.shape(), std::move(scales), std::move(zeros));
  return q.WithType(TensorType(low.dtype, weight.shape(), params));
}

}  // namespace

bool IsRecurrent(const Node& node) { return HasRealWeights(node) && LinearFormOf(node) == nullptr; }

std::vector<size_t> RecurrentWeights(const Node& node) {
  std::vector<size_t> weights;
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    if (RoleOf(node, i) == Role::kWeight) weights.push_back(i);
  }
  return weights;
}

bool ComputesRounded(const Graph& graph, const Node& node) {
  if (!IsRecurrent(node) || node.attrs.Int(kDataBlock, 0) == 0) return false;
  return std::ranges::all_of(RecurrentWeights(node),
                             [&](size_t i) { return graph.value(node.input(i)).type.quantized(); });
}

std::optional<Reason> RecurrentRefusal(const Graph& graph, const Node& node,
                                       const QuantizeOptions& options) {
  if (auto kept = KeptByOptions(node, options)) return kept;
  int64_t elements = 0;
  for (size_t i : RecurrentWeights(node)) {
    const Tensor* w = graph.ConstantInput(node, i);
    if (w == nullptr)
      return Reason{"weights-not-constant", fmt::format("weight {} is computed at run time", i)};
    if (!IsReal(*w))
      return Reason{"types",
                    fmt::format("the weight is {}, expected plain float32", w->type().ToString())};
    if (w->shape().rank() != 3)
      return Reason{"shape", fmt::format("the weight is {}", w->type().ToString())};
    elements += w->elements();
  }
  if (elements < kLeastNarrowed)
    return Reason{"small", fmt::format("weights of {} elements", elements)};
  return std::nullopt;
}

std::optional<Reason> FloatProductsReason(const Graph& graph, const Node& node) {
  const TensorType& x = graph.value(node.input(0)).type;
  if (x.dtype != DType::kFloat32 || x.quantized())
    return Reason{"types", fmt::format("the input is {}, expected float32", x.ToString())};
  // The last weight is the state's, [directions, rows, hidden].
  const std::vector<int64_t> sizes =
      graph.value(node.input(RecurrentWeights(node).back())).type.shape.sizes();
  const Dim batch = x.shape.rank() == 3 ? x.shape[node.attrs.Int("layout") != 0 ? 0 : 1] : Dim();
  const int64_t samples = batch.known() ? std::clamp<int64_t>(batch.value, 1, kManySamples) : 1;
  if (sizes[1] * sizes[2] >= kLeastOfState * samples) return std::nullopt;
  return Reason{"small", fmt::format("the state's {} weights are multiplied faster in float32",
                                     sizes[1] * sizes[2])};
}

Result<Tensor> QuantizeRecurrent(const Tensor& weight, const LowBits* low, int64_t block,
                                 bool per_channel, int threads) {
  if (low != nullptr) return QuantizeFew(weight, *low, block, threads);
  const int64_t directions = weight.sizes()[0], rows = weight.sizes()[1], depth = weight.sizes()[2];
  const Tensor matrix =
      weight.WithType(TensorType(DType::kFloat32, Shape{directions * rows, depth}));
  EVOQ_ASSIGN(const Tensor q, QuantizeStored({matrix, false}, per_channel ? 0 : -1, threads));
  QuantParams params = *q.type().quant;
  if (per_channel)
    params = ByRows(weight.shape(), std::move(params.scales), std::move(params.zero_points));
  return q.WithType(TensorType(DType::kInt8, weight.shape(), std::move(params)));
}

int64_t RecurrentDataBlock(const Graph& graph, const Node& node, const LowBits* low,
                           const QuantizeOptions& options) {
  if (low != nullptr) return DataBlockBeside(options.block, options.equal_blocks);
  int64_t longest = 1;
  for (size_t i : RecurrentWeights(node)) {
    const Shape& shape = graph.value(node.input(i)).type.shape;
    longest = std::max(longest, shape[shape.rank() - 1].value);
  }
  return std::min(longest, kLongestDataBlock);
}

}  // namespace evoq
