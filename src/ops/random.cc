// Random values: Bernoulli, Multinomial, RandomNormal, RandomUniform and the -Like forms.
#include "ops/indexing.h"
#include "ops/util.h"

namespace evoq {
namespace {

// The attribute dtype, or `fallback`.
Result<DType> DTypeAttr(const Node& node, DType fallback) {
  EVOQ_ASSIGN(const int64_t number, IntAttr(node, "dtype", static_cast<int>(fallback)));
  const auto dtype =
      number > 0 && number < 128 ? DTypeFromOnnx(static_cast<int>(number)) : std::nullopt;
  if (!dtype || *dtype == DType::kUndefined) return Unsupported("attribute dtype is {}", number);
  return *dtype;
}

InferResult InferShape(const InferArgs& args) {
  EVOQ_ASSIGN(const DType dtype, DTypeAttr(args.node, DType::kFloat32));
  if (!IsFloat(dtype))
    return InvalidInput("attribute dtype is {}, expected a floating-point type", DTypeName(dtype));
  EVOQ_ASSIGN(const std::vector<int64_t> sizes, IntsAttr(args.node, "shape"));
  EVOQ_TRY(CheckRankLimit(static_cast<int64_t>(sizes.size())));
  for (int64_t size : sizes) {
    if (size < 0) return InvalidInput("attribute shape has the size {}", size);
  }
  return std::vector<TensorType>{TensorType(dtype, Shape(sizes))};
}

InferResult InferLike(const InferArgs& args) {
  EVOQ_ASSIGN(const DType dtype, DTypeAttr(args.node, args.inputs[0].dtype));
  return std::vector<TensorType>{TensorType(dtype, args.inputs[0].shape)};
}

InferResult InferFloatLike(const InferArgs& args) {
  EVOQ_ASSIGN(std::vector<TensorType> types, InferLike(args));
  if (!IsFloat(types[0].dtype))
    return InvalidInput("values of type {}, expected a floating-point type",
                        DTypeName(types[0].dtype));
  return types;
}

// ---- Multinomial(x)

InferResult InferMultinomial(const InferArgs& args) {
  EVOQ_TRY(CheckFloat(args, 0));
  EVOQ_TRY(CheckRank(args, 0, 2));
  EVOQ_ASSIGN(const DType dtype, DTypeAttr(args.node, DType::kInt32));
  EVOQ_ASSIGN(const int64_t samples, IntAttr(args.node, "sample_size", 1));
  if (dtype != DType::kInt32 && dtype != DType::kInt64)
    return InvalidInput("attribute dtype is {}, expected int32 or int64", DTypeName(dtype));
  if (samples < 0) return InvalidInput("attribute sample_size is {}", samples);
  const Shape& x = args.inputs[0].shape;
  return std::vector<TensorType>{
      TensorType(dtype, Shape(std::vector<Dim>{x.ranked() ? x[0] : Dim(), Dim(samples)}))};
}

}  // namespace

extern const OpDef kBernoulli = {.name = "Bernoulli", .random = true, .infer = InferLike};
extern const OpDef kMultinomial = {
    .name = "Multinomial", .random = true, .infer = InferMultinomial};
extern const OpDef kRandomNormal = {
    .name = "RandomNormal", .min_inputs = 0, .max_inputs = 0, .random = true, .infer = InferShape};
extern const OpDef kRandomNormalLike = {
    .name = "RandomNormalLike", .random = true, .infer = InferFloatLike};
extern const OpDef kRandomUniform = {
    .name = "RandomUniform", .min_inputs = 0, .max_inputs = 0, .random = true, .infer = InferShape};
extern const OpDef kRandomUniformLike = {
    .name = "RandomUniformLike", .random = true, .infer = InferFloatLike};

}  // namespace evoq
