// MatMul, Gemm, MatMulInteger and QLinearMatMul.
#include "ops/matmul.h"

#include <algorithm>
#include <array>

#include "base/math.h"
#include "ops/linear.h"
#include "ops/real.h"
#include "tensor/permute.h"

namespace evoq {
namespace {

// y[batch, m, n] = sum_k a[batch_a, m, k] * b[batch_b, k, n].
struct MatMulGeometry {
  std::vector<int64_t> batch, a_strides, b_strides;  // strides in matrices, 0 where broadcast
  int64_t m = 1, k = 1, n = 1;
  int64_t batches() const { return CheckedProduct(batch).value_or(0); }
};

// The sizes as matrices: a 1-D `a` is a row, a 1-D `b` a column.
std::vector<Dim> AsMatrix(const Shape& shape, bool is_a) {
  std::vector<Dim> dims = shape.dims();
  if (dims.size() == 1) dims.insert(is_a ? dims.begin() : dims.end(), Dim(1));
  return dims;
}

MatMulGeometry GeometryOf(const Shape& a, const Shape& b) {
  const std::vector<int64_t> x = Shape(AsMatrix(a, true)).sizes(),
                             y = Shape(AsMatrix(b, false)).sizes();
  const std::vector<int64_t> x_batch(x.begin(), x.end() - 2), y_batch(y.begin(), y.end() - 2);
  MatMulGeometry g;
  g.m = x[x.size() - 2];
  g.k = x.back();
  g.n = y.back();
  g.batch.assign(std::max(x_batch.size(), y_batch.size()), 1);
  for (size_t i = 0; i < g.batch.size(); ++i) {
    const int64_t from_x = i + x_batch.size() - g.batch.size(),
                  from_y = i + y_batch.size() - g.batch.size();
    if (i + x_batch.size() >= g.batch.size() && x_batch[from_x] != 1) g.batch[i] = x_batch[from_x];
    if (i + y_batch.size() >= g.batch.size() && y_batch[from_y] != 1) g.batch[i] = y_batch[from_y];
  }
  g.a_strides = BroadcastStrides(x_batch, g.batch);
  g.b_strides = BroadcastStrides(y_batch, g.batch);
  return g;
}

template <typename In, typename Acc>
std::vector<Acc> MatMulSums(const MatMulGeometry& g, const In* a, const In* b) {
  std::vector<Acc> sums(g.batches() * g.m * g.n);
  ForEachIndex<2>(g.batch, {g.a_strides, g.b_strides}, [&](int64_t i, const auto& offset) {
    const In* left = a + offset[0] * g.m * g.k;
    const In* right = b + offset[1] * g.k * g.n;
    for (int64_t m = 0; m < g.m; ++m) {
      Acc* row = sums.data() + (i * g.m + m) * g.n;
      for (int64_t k = 0; k < g.k; ++k) {
        const Acc x = static_cast<Acc>(left[m * g.k + k]);
        for (int64_t n = 0; n < g.n; ++n) row[n] += x * static_cast<Acc>(right[k * g.n + n]);
      }
    }
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

InferResult InferMatMul(const InferArgs& args) {
  if (args.inputs[0].dtype != args.inputs[1].dtype)
    return InvalidInput("input 1 is {}, expected {} as input 0", args.inputs[1].ToString(),
                        DTypeName(args.inputs[0].dtype));
  EVOQ_ASSIGN(Shape y, MatMulShape(args.inputs[0].shape, args.inputs[1].shape));
  const Shape& b = args.inputs[1].shape;
  EVOQ_TRY(CheckLinearExtras(args, b.ranked() ? AsMatrix(b, false).back() : Dim(), y));
  EVOQ_ASSIGN(const DType dtype, LinearOutputDType(args));
  return std::vector<TensorType>{TensorType(dtype, std::move(y))};
}

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
  const MatMulGeometry g = GeometryOf(a.shape(), b.shape());
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
  return DispatchFloat(a.dtype(), [&](auto tag) -> EvalResult {
    using T = decltype(tag);
    return FinishFloat(CallOf(args, g, activation), a.dtype(),
                       MatMulSums<T, double>(g, a.data<T>(), b.data<T>()));
  });
}

EvalResult EvaluateMatMulQuantized(const EvalArgs& args) {
  EVOQ_ASSIGN(const Activation activation, ActivationFromAttrs(args.node.attrs));
  const MatMulGeometry g = GeometryOf(args.inputs[0].shape(), args.inputs[1].shape());
  const LinearCall call = CallOf(args, g, activation);
  EVOQ_TRY(CheckInteger(call));
  EVOQ_ASSIGN(const std::vector<uint32_t> sums, IntegerSums(g, args.inputs[0], args.inputs[1]));
  return FinishInteger(call, sums);
}

// ---- Gemm(a, b, c?) = alpha * a' * b' + beta * c

Shape Transposed(const Shape& shape, bool yes) {
  if (!yes || !shape.ranked() || shape.rank() != 2) return shape;
  return Shape(std::vector<Dim>{shape[1], shape[0]});
}

InferResult InferGemm(const InferArgs& args) {
  EVOQ_TRY(CheckRank(args, 0, 2));
  EVOQ_TRY(CheckRank(args, 1, 2));
  EVOQ_ASSIGN(const int64_t trans_a, IntAttr(args.node, "transA", 0));
  EVOQ_ASSIGN(const int64_t trans_b, IntAttr(args.node, "transB", 0));
  EVOQ_TRY(FloatAttr(args.node, "alpha", 1));
  EVOQ_TRY(FloatAttr(args.node, "beta", 1));
  EVOQ_TRY(ActivationFromAttrs(args.node.attrs));
  if (args.inputs[0].dtype != args.inputs[1].dtype)
    return InvalidInput("input 1 is {}, expected {} as input 0", args.inputs[1].ToString(),
                        DTypeName(args.inputs[0].dtype));
  EVOQ_ASSIGN(Shape y, MatMulShape(Transposed(args.inputs[0].shape, trans_a != 0),
                                   Transposed(args.inputs[1].shape, trans_b != 0)));
  if (args.has(2) && y.ranked()) {
    EVOQ_ASSIGN(const Shape all, BroadcastShapes(y, args.inputs[2].shape));
    bool fits = !all.ranked() || all.rank() == 2;
    for (int i = 0; fits && all.ranked() && i < 2; ++i)
      fits = !y[i].known() || y[i].value == all[i].value;
    if (!fits)
      return InvalidInput("input 2 is {}, expected a shape that broadcasts to {}",
                          args.inputs[2].ToString(), y.ToString());
  }
  return std::vector<TensorType>{TensorType(args.inputs[0].dtype, std::move(y))};
}

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
  const MatMulGeometry g = GeometryOf(a.shape(), b.shape());
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

int64_t GemmMacs(const Node& node, std::span<const TensorType> inputs,
                 std::span<const TensorType> outputs) {
  const int64_t k = inputs[0].shape[node.attrs.Int("transA") != 0 ? 0 : 1].value;
  return outputs[0].shape.elements().value_or(0) * k;
}

// ---- MatMulInteger(a, b, a_zero_point?, b_zero_point?): int32 sums. Zero points are scalars, one
// per row of a, one per column of b, or as many with the leading sizes of the matrix.

constexpr DType kBytes[] = {DType::kUint8, DType::kInt8};

InferResult InferMatMulInteger(const InferArgs& args) {
  EVOQ_TRY(CheckDType(args, 0, kBytes));
  EVOQ_TRY(CheckDType(args, 1, kBytes));
  EVOQ_ASSIGN(Shape y, MatMulShape(args.inputs[0].shape, args.inputs[1].shape));
  return std::vector<TensorType>{TensorType(DType::kInt32, std::move(y))};
}

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
  const MatMulGeometry g = GeometryOf(a.shape(), b.shape());
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

InferResult InferQLinearMatMul(const InferArgs& args) {
  EVOQ_TRY(CheckDType(args, 0, kBytes));
  EVOQ_TRY(CheckDType(args, 3, kBytes));
  EVOQ_TRY(CheckDType(args, 7, kBytes));
  EVOQ_ASSIGN(Shape y, MatMulShape(args.inputs[0].shape, args.inputs[3].shape));
  return std::vector<TensorType>{TensorType(args.inputs[7].dtype, std::move(y))};
}

EvalResult EvaluateQLinearMatMul(const EvalArgs& args) {
  const auto typed = [&](const Tensor& t, size_t scale, int axis) -> Result<Tensor> {
    EVOQ_ASSIGN(TensorType type, QuantizedType(t.dtype(), t.shape(), args.inputs[scale],
                                               &args.inputs[scale + 1], axis));
    return t.WithType(std::move(type));
  };
  EVOQ_ASSIGN(const Tensor a, typed(args.inputs[0], 1, args.inputs[0].shape().rank() - 2));
  EVOQ_ASSIGN(const Tensor b, typed(args.inputs[3], 4, args.inputs[3].shape().rank() - 1));
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

constexpr LinearForm kMatMulForm = {.out_axis = -1,
                                    .in_axis = -2,
                                    .channel_axis = -1,
                                    .two_operands = true,
                                    .integer_form = "MatMulInteger"};
constexpr LinearForm kGemmForm = {
    .out_axis = -1, .in_axis = -2, .channel_axis = -1, .transposed = "transB"};
constexpr LinearForm kMatMulIntegerForm = {.out_axis = -1,
                                           .in_axis = -2,
                                           .channel_axis = -1,
                                           .real_form = "MatMul",
                                           .dynamic_form = "DynamicMatMul"};

}  // namespace

Result<Shape> MatMulShape(const Shape& a, const Shape& b) {
  if ((a.ranked() && a.rank() == 0) || (b.ranked() && b.rank() == 0))
    return InvalidInput("a scalar input, expected rank 1 or more");
  if (!a.ranked() || !b.ranked()) return Shape::UnknownRank();
  std::vector<Dim> x = AsMatrix(a, true), y = AsMatrix(b, false);
  const Dim &kx = x.back(), &ky = y[y.size() - 2];
  if (kx.known() && ky.known() && kx != ky)
    return InvalidInput("{} by {}: {} columns, expected {}", a.ToString(), b.ToString(), kx.value,
                        ky.value);
  EVOQ_ASSIGN(const Shape batch, BroadcastShapes(Shape(std::vector<Dim>(x.begin(), x.end() - 2)),
                                                 Shape(std::vector<Dim>(y.begin(), y.end() - 2))));
  std::vector<Dim> dims = batch.dims();
  if (a.rank() > 1) dims.push_back(x[x.size() - 2]);
  if (b.rank() > 1) dims.push_back(y.back());
  return Shape(std::move(dims));
}

Result<std::vector<uint32_t>> MatMulIntegerSums(const Tensor& a, const Tensor& b) {
  return IntegerSums(GeometryOf(a.shape(), b.shape()), a, b);
}

int64_t MatMulMacs(const Node&, std::span<const TensorType> inputs, std::span<const TensorType>) {
  const MatMulGeometry g = GeometryOf(inputs[0].shape, inputs[1].shape);
  return g.batches() * g.m * g.k * g.n;
}

extern const OpDef kGemm = {.name = "Gemm",
                            .min_inputs = 2,
                            .max_inputs = 3,
                            .quant = QuantTrait::kLinear,
                            .infer = InferGemm,
                            .evaluate = EvaluateGemm,
                            .evaluate_quantized = EvaluateGemmQuantized,
                            .macs = GemmMacs,
                            .roles = {Role::kData, Role::kWeight, Role::kBias},
                            .linear = &kGemmForm};
extern const OpDef kMatMul = {
    .name = "MatMul",
    .min_inputs = 2,
    .max_inputs = 5,
    .quant = QuantTrait::kLinear,
    .infer = InferMatMul,
    .evaluate = EvaluateMatMul,
    .evaluate_quantized = EvaluateMatMulQuantized,
    .macs = MatMulMacs,
    .roles = {Role::kData, Role::kWeight, Role::kBias, Role::kResidual, Role::kTable},
    .linear = &kMatMulForm};
extern const OpDef kMatMulInteger = {
    .name = "MatMulInteger",
    .min_inputs = 2,
    .max_inputs = 4,
    .infer = InferMatMulInteger,
    .evaluate = EvaluateMatMulInteger,
    .macs = MatMulMacs,
    .roles = {Role::kData, Role::kWeight, Role::kZeroPoint, Role::kZeroPoint},
    .linear = &kMatMulIntegerForm};
extern const OpDef kQLinearMatMul = {.name = "QLinearMatMul",
                                     .min_inputs = 8,
                                     .max_inputs = 8,
                                     .infer = InferQLinearMatMul,
                                     .evaluate = EvaluateQLinearMatMul};

}  // namespace evoq
