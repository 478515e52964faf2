// MatMul, Gemm, MatMulInteger and QLinearMatMul.
#include "ops/matmul.h"

#include <algorithm>

#include "base/math.h"
#include "kernels/activation.h"
#include "kernels/gemm/blocks/block_data.h"
#include "ops/linear.h"
#include "ops/util.h"

namespace evoq {
namespace {

// The sizes as matrices: a 1-D `a` is a row, a 1-D `b` a column.
std::vector<Dim> AsMatrix(const Shape& shape, bool is_a) {
  std::vector<Dim> dims = shape.dims();
  if (dims.size() == 1) dims.insert(is_a ? dims.begin() : dims.end(), Dim(1));
  return dims;
}

}  // namespace

MatMulGeometry MatMulGeometryOf(const Shape& a, const Shape& b) {
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

namespace {

// ---- MatMul(a, b, bias?, residual?, table?)

InferResult InferMatMul(const InferArgs& args) {
  if (args.inputs[0].dtype != args.inputs[1].dtype)
    return InvalidInput("input 1 is {}, expected {} as input 0", args.inputs[1].ToString(),
                        DTypeName(args.inputs[0].dtype));
  EVOQ_ASSIGN(Shape y, MatMulShape(args.inputs[0].shape, args.inputs[1].shape));
  const Shape& b = args.inputs[1].shape;
  EVOQ_TRY(CheckLinearExtras(args, b.ranked() ? AsMatrix(b, false).back() : Dim(), y));
  EVOQ_ASSIGN(const DType dtype, LinearOutputDType(args));
  EVOQ_ASSIGN(const int64_t data_block, IntAttr(args.node, kDataBlock, 0));
  if (data_block < 0 || (data_block > 0 && !IsFloat(args.inputs[0].dtype)))
    return InvalidInput("attribute {} is {} for {} data, expected 1 or more for a float type",
                        kDataBlock, data_block, DTypeName(args.inputs[0].dtype));
  return std::vector<TensorType>{TensorType(dtype, std::move(y))};
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
      fits = !y[i].known() || !all[i].known() || y[i].value == all[i].value;
    if (!fits)
      return InvalidInput("input 2 is {}, expected a shape that broadcasts to {}",
                          args.inputs[2].ToString(), y.ToString());
  }
  return std::vector<TensorType>{TensorType(args.inputs[0].dtype, std::move(y))};
}

int64_t GemmMacs(const Node& node, std::span<const TensorType> inputs,
                 std::span<const TensorType> outputs) {
  const int64_t k = inputs[0].shape[node.attrs.Int("transA") != 0 ? 0 : 1].value;
  return outputs[0].shape.elements().value_or(0) * k;
}

// ---- MatMulInteger(a, b, a_zero_point?, b_zero_point?)

constexpr DType kBytes[] = {DType::kUint8, DType::kInt8};

InferResult InferMatMulInteger(const InferArgs& args) {
  EVOQ_TRY(CheckDType(args, 0, kBytes));
  EVOQ_TRY(CheckDType(args, 1, kBytes));
  EVOQ_ASSIGN(Shape y, MatMulShape(args.inputs[0].shape, args.inputs[1].shape));
  return std::vector<TensorType>{TensorType(DType::kInt32, std::move(y))};
}

// ---- QLinearMatMul(a, a_scale, a_zero_point, b, b_scale, b_zero_point, y_scale, y_zero_point)

InferResult InferQLinearMatMul(const InferArgs& args) {
  EVOQ_TRY(CheckDType(args, 0, kBytes));
  EVOQ_TRY(CheckDType(args, 3, kBytes));
  EVOQ_TRY(CheckDType(args, 7, kBytes));
  EVOQ_ASSIGN(Shape y, MatMulShape(args.inputs[0].shape, args.inputs[3].shape));
  return std::vector<TensorType>{TensorType(args.inputs[7].dtype, std::move(y))};
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

int64_t MatMulMacs(const Node&, std::span<const TensorType> inputs, std::span<const TensorType>) {
  const MatMulGeometry g = MatMulGeometryOf(inputs[0].shape, inputs[1].shape);
  return g.batches() * g.m * g.k * g.n;
}

extern const OpDef kGemm = {.name = "Gemm",
                            .min_inputs = 2,
                            .max_inputs = 3,
                            .quant = QuantTrait::kLinear,
                            .infer = InferGemm,
                            .macs = GemmMacs,
                            .roles = {Role::kData, Role::kWeight, Role::kBias},
                            .linear = &kGemmForm};
extern const OpDef kMatMul = {
    .name = "MatMul",
    .min_inputs = 2,
    .max_inputs = 5,
    .quant = QuantTrait::kLinear,
    .infer = InferMatMul,
    .macs = MatMulMacs,
    .roles = {Role::kData, Role::kWeight, Role::kBias, Role::kResidual, Role::kTable},
    .linear = &kMatMulForm};
extern const OpDef kMatMulInteger = {
    .name = "MatMulInteger",
    .min_inputs = 2,
    .max_inputs = 4,
    .infer = InferMatMulInteger,
    .macs = MatMulMacs,
    .roles = {Role::kData, Role::kWeight, Role::kZeroPoint, Role::kZeroPoint},
    .linear = &kMatMulIntegerForm};
extern const OpDef kQLinearMatMul = {
    .name = "QLinearMatMul", .min_inputs = 8, .max_inputs = 8, .infer = InferQLinearMatMul};

}  // namespace evoq
