// MatMul, Gemm, MatMulInteger and QLinearMatMul.
#include "ops/matmul.h"

#include <algorithm>
#include <array>

#include "kernels/gemm/blocks/block_data.h"
#include "ops/linear.h"
#include "reference/definition.h"
#include "reference/linear.h"
#include "reference/matmul.h"
#include "reference/real.h"
#include "reference/util.h"
#include "tensor/permute.h"

namespace evoq {
namespace {

constexpr int64_t kRows = 4;  // of the left matrix that are multiplied together
template <typename Acc>
constexpr int64_t kWidth = 32 / sizeof(Acc);  // columns that are

// sums[r * n + c] += sum_k left[r * depth + k] * panel[k * kWidth + c], in order of k.
template <int64_t kCount, typename In, typename Acc>
void AddTile(const In* left, const Acc* panel, int64_t depth, Acc* sums, int64_t n) {
  constexpr int64_t kColumns = kWidth<Acc>;
  Acc acc[kCount][kColumns];
  for (int64_t r = 0; r < kCount; ++r) std::copy_n(sums + r * n, kColumns, acc[r]);
  for (int64_t k = 0; k < depth; ++k) {
    for (int64_t r = 0; r < kCount; ++r) {
      const Acc x = static_cast<Acc>(left[r * depth + k]);
      for (int64_t c = 0; c < kColumns; ++c) acc[r][c] += x * panel[k * kColumns + c];
    }
  }
  for (int64_t r = 0; r < kCount; ++r) std::copy_n(acc[r], kColumns, sums + r * n);
}

// sums[m, n] += left[m, k] * right[k, n]; each sum is in order of k.
template <typename In, typename Acc>
void AddProduct(const MatMulGeometry& g, const In* left, const In* right, Acc* sums) {
  constexpr int64_t kColumns = kWidth<Acc>;
  const int64_t tiled_rows = g.m / kRows * kRows, tiled = tiled_rows == 0 ? 0 : g.n / kColumns;
  std::vector<Acc> panel(static_cast<size_t>(tiled == 0 ? 0 : g.k * kColumns));
  for (int64_t first = 0; first < tiled * kColumns; first += kColumns) {
    for (int64_t k = 0; k < g.k; ++k) {
      for (int64_t c = 0; c < kColumns; ++c)
        panel[k * kColumns + c] = static_cast<Acc>(right[k * g.n + first + c]);
    }
    for (int64_t m = 0; m < tiled_rows; m += kRows)
      AddTile<kRows>(left + m * g.k, panel.data(), g.k, sums + m * g.n + first, g.n);
  }
  for (int64_t m = 0; m < g.m; ++m) {  // what tiles leave
    const int64_t first = m < tiled_rows ? tiled * kColumns : 0;
    for (int64_t k = 0; first < g.n && k < g.k; ++k) {
      const Acc x = static_cast<Acc>(left[m * g.k + k]);
      for (int64_t n = first; n < g.n; ++n)
        sums[m * g.n + n] += x * static_cast<Acc>(right[k * g.n + n]);
    }
  }
}

template <typename In, typename Acc>
std::vector<Acc> MatMulSums(const MatMulGeometry& g, const In* a, const In* b) {
  std::vector<Acc> sums(g.batches() * g.m * g.n);
  ForEachIndex<2>(g.batch, {g.a_strides, g.b_strides}, [&](int64_t i, const auto& offset) {
    AddProduct<In, Acc>(g, a + offset[0] * g.m * g.k, b + offset[1] * g.k * g.n,
                        sums.data() + i * g.m * g.n);
  });
  return sums;
}

Result<std::vector<uint32_t>> IntegerSums(const MatMulGeometry& g, const Tensor& a,
                                          const Tensor& b) {
  EVOQ_ASSIGN(const std::vector<uint32_t> left, Centered(a));
  EVOQ_ASSIGN(const std::vector<uint32_t> right, Centered(b));
  return MatMulSums<uint32_t, uint32_t>(g, left.data(), right.data());
}

// ---- MatMul(a, b, bias?, residual?, table?)

LinearCall CallOf(const EvalArgs& args, const MatMulGeometry& g, const Activation& activation) {
  LinearCall call;
  call.x = &args.inputs[0];
  call.w = &args.inputs[1];
  call.w_axis = args.inputs[1].shape().rank() > 1 ? args.inputs[1].shape().rank() - 1 : -1;
  call.bias = args.has(2) ? &args.inputs[2] : nullptr;
  call.residual = args.has(3) ? &args.inputs[3] : nullptr;
  call.table = args.has(4) ? &args.inputs[4] : nullptr;
  call.activation = activation;
  call.y = args.output_types[0];
  call.channels = {g.batches() * g.m, g.n, 1};
  return call;
}

EvalResult EvaluateMatMul(const EvalArgs& args) {
  const Tensor &a = args.inputs[0], &b = args.inputs[1];
  const MatMulGeometry g = MatMulGeometryOf(a.shape(), b.shape());
  if (IsInteger(a.dtype())) {
    EVOQ_ASSIGN(const Tensor y, AllocateOutput(args.output_types[0]));
    return DispatchInteger(a.dtype(), [&](auto tag) -> EvalResult {
      using T = decltype(tag);
      Tensor out = y;
      const std::vector<uint64_t> sums = MatMulSums<T, uint64_t>(g, a.data<T>(), b.data<T>());
      for (size_t i = 0; i < sums.size(); ++i) out.mutable_data<T>()[i] = static_cast<T>(sums[i]);
      return One(out);
    });
  }
  if (a.dtype() != b.dtype())
    return Unsupported("{} and {} inputs", DTypeName(a.dtype()), DTypeName(b.dtype()));
  EVOQ_ASSIGN(const Activation activation, ActivationFromAttrs(args.node.attrs));
  EVOQ_ASSIGN(const Tensor data, RoundedData(args));
  return DispatchFloat(a.dtype(), [&](auto tag) -> EvalResult {
    using T = decltype(tag);
    return FinishFloat(CallOf(args, g, activation), a.dtype(),
                       MatMulSums<T, double>(g, data.data<T>(), b.data<T>()));
  });
}

EvalResult EvaluateMatMulQuantized(const EvalArgs& args) {
  if (args.node.attrs.Int(kDataBlock, 0) > 0) return EvaluateBlocks(args);
  EVOQ_ASSIGN(const ProductActivation product, ProductActivationFromAttrs(args.node.attrs));
  const MatMulGeometry g = MatMulGeometryOf(args.inputs[0].shape(), args.inputs[1].shape());
  LinearCall call = CallOf(args, g, product.activation);
  call.slopes = product.slopes;
  EVOQ_TRY(CheckInteger(call));
  EVOQ_ASSIGN(const std::vector<uint32_t> sums, IntegerSums(g, args.inputs[0], args.inputs[1]));
  return FinishInteger(call, sums);
}

// ---- Gemm(a, b, c?) = alpha * a' * b' + beta * c

Result<Tensor> MaybeTransposed(const Tensor& tensor, bool yes) {
  if (!yes) return tensor;
  EVOQ_ASSIGN(const Tensor moved, Permuted(tensor, {1, 0}));
  return moved.WithType(PermutedAxes(tensor.type(), std::array<int64_t, 2>{1, 0}));
}

EvalResult EvaluateGemm(const EvalArgs& args) {
  const Attrs& attrs = args.node.attrs;
  EVOQ_ASSIGN(const Tensor a, MaybeTransposed(args.inputs[0], attrs.Int("transA") != 0));
  EVOQ_ASSIGN(const Tensor b, MaybeTransposed(args.inputs[1], attrs.Int("transB") != 0));
  EVOQ_ASSIGN(const Activation activation, ActivationFromAttrs(attrs));
  const MatMulGeometry g = MatMulGeometryOf(a.shape(), b.shape());
  if (args.has(2) && !IsFloat(args.inputs[2].dtype()))
    return InvalidInput("input 2 is {}, expected {} where the inputs are not quantized",
                        args.inputs[2].type().ToString(), DTypeName(a.dtype()));
  return EvaluateAsFloats(args, [&](auto tag) -> EvalResult {
    using T = decltype(tag);
    std::vector<double> sums = MatMulSums<T, double>(g, a.data<T>(), b.data<T>());
    for (double& sum : sums) sum *= attrs.Float("alpha", 1);
    if (args.has(2)) {
      const Tensor& c = args.inputs[2];
      const std::vector<int64_t> sizes = {g.m, g.n};
      const double beta = attrs.Float("beta", 1);
      ForEachIndex<1>(sizes, {BroadcastStrides(c.sizes(), sizes)},
                      [&](int64_t i, const auto& offset) {
                        sums[i] += beta * static_cast<double>(c.data<T>()[offset[0]]);
                      });
    }
    LinearCall call;
    call.activation = activation;
    call.y = args.output_types[0];
    call.channels = {g.m, g.n, 1};
    return FinishFloat(call, a.dtype(), sums);
  });
}

// With alpha = beta = 1 and c a row: MatMul with a bias.
EvalResult EvaluateGemmQuantized(const EvalArgs& args) {
  const Attrs& attrs = args.node.attrs;
  if (attrs.Float("alpha", 1) != 1 || attrs.Float("beta", 1) != 1)
    return Unsupported("alpha or beta other than 1");
  EVOQ_ASSIGN(const Tensor a, MaybeTransposed(args.inputs[0], attrs.Int("transA") != 0));
  EVOQ_ASSIGN(const Tensor b, MaybeTransposed(args.inputs[1], attrs.Int("transB") != 0));
  Tensor bias;
  if (args.has(2)) {
    const Tensor& c = args.inputs[2];
    if (c.elements() != b.shape()[1].value || c.shape().rank() == 0 ||
        c.shape()[c.shape().rank() - 1] != b.shape()[1])
      return Unsupported("input 2 is {}, not a row", c.type().ToString());
    if (c.type().quantized()) return Unsupported("input 2 is {}", c.type().ToString());
    bias = c.WithType(TensorType(c.dtype(), Shape{c.elements()}));
  }
  const std::vector<Tensor> inputs = {a, b, bias};
  return EvaluateMatMulQuantized(
      {.node = args.node, .inputs = inputs, .output_types = args.output_types});
}

// ---- MatMulInteger(a, b, a_zero_point?, b_zero_point?): int32 sums. Zero points are scalars, one
// per row of a, one per column of b, or as many with the leading sizes of the matrix.

// Elements minus their zero points. A 1-D zero point goes along `axis` of the matrix.
Result<std::vector<uint32_t>> CenteredBy(const Tensor& tensor, const Tensor& zero_point,
                                         int axis_from_end) {
  EVOQ_ASSIGN(std::vector<uint32_t> values, Centered(tensor));
  if (!zero_point.defined()) return values;
  EVOQ_ASSIGN(const std::vector<uint32_t> zeros, Centered(zero_point));
  std::vector<int64_t> sizes = tensor.sizes(), zero_sizes = zero_point.sizes();
  if (zeros.size() == 1) {
    zero_sizes.clear();
  } else if (zero_sizes.size() == 1 && axis_from_end == 2) {
    zero_sizes.push_back(1);
  }
  bool fits = zero_sizes.size() <= sizes.size();
  for (size_t i = 0; fits && i < zero_sizes.size(); ++i) {
    const int64_t size = sizes[sizes.size() - zero_sizes.size() + i];
    fits = zero_sizes[i] == 1 || zero_sizes[i] == size;
  }
  if (!fits)
    return InvalidInput("zero point {} for {}", zero_point.type().ToString(),
                        tensor.type().ToString());
  ForEachIndex<1>(sizes, {BroadcastStrides(zero_sizes, sizes)},
                  [&](int64_t i, const auto& offset) { values[i] -= zeros[offset[0]]; });
  return values;
}

EvalResult EvaluateMatMulInteger(const EvalArgs& args) {
  const Tensor &a = args.inputs[0], &b = args.inputs[1];
  const MatMulGeometry g = MatMulGeometryOf(a.shape(), b.shape());
  EVOQ_ASSIGN(const std::vector<uint32_t> left,
              CenteredBy(a, args.has(2) ? args.inputs[2] : Tensor(), 2));
  EVOQ_ASSIGN(const std::vector<uint32_t> right,
              CenteredBy(b, args.has(3) ? args.inputs[3] : Tensor(), 1));
  const std::vector<uint32_t> sums = MatMulSums<uint32_t, uint32_t>(g, left.data(), right.data());
  EVOQ_ASSIGN(Tensor y, AllocateOutput(args.output_types[0]));
  std::copy(sums.begin(), sums.end(), y.mutable_data<uint32_t>());
  return One(std::move(y));
}

// ---- QLinearMatMul(a, a_scale, a_zero_point, b, b_scale, b_zero_point, y_scale, y_zero_point)

EvalResult EvaluateQLinearMatMul(const EvalArgs& args) {
  EVOQ_ASSIGN(const Tensor a, QuantizedInput(args, 0, args.inputs[0].shape().rank() - 2));
  EVOQ_ASSIGN(const Tensor b, QuantizedInput(args, 3, args.inputs[3].shape().rank() - 1));
  const TensorType& plain = args.output_types[0];
  EVOQ_ASSIGN(const TensorType y,
              QuantizedType(plain.dtype, plain.shape, args.inputs[6], &args.inputs[7], -1));
  const std::vector<Tensor> inputs = {a, b};
  const std::vector<TensorType> types = {y};
  EVOQ_ASSIGN(
      std::vector<Tensor> outputs,
      EvaluateMatMulQuantized({.node = args.node, .inputs = inputs, .output_types = types}));
  return One(outputs[0].WithType(plain));
}

}  // namespace

Result<std::vector<uint32_t>> MatMulIntegerSums(const Tensor& a, const Tensor& b) {
  return IntegerSums(MatMulGeometryOf(a.shape(), b.shape()), a, b);
}

namespace reference {

extern const Definition kGemm = {
    .name = "Gemm", .evaluate = EvaluateGemm, .evaluate_quantized = EvaluateGemmQuantized};
extern const Definition kMatMul = {
    .name = "MatMul", .evaluate = EvaluateMatMul, .evaluate_quantized = EvaluateMatMulQuantized};
extern const Definition kMatMulInteger = {.name = "MatMulInteger",
                                          .evaluate = EvaluateMatMulInteger};
extern const Definition kQLinearMatMul = {.name = "QLinearMatMul",
                                          .evaluate = EvaluateQLinearMatMul};

}  // namespace reference
}  // namespace evoq
