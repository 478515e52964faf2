// Values made from shapes and scalars: Shape, Size, ConstantOfShape, Range, EyeLike.
#include "ops/generate.h"

#include <algorithm>
#include <cmath>

#include "ops/indexing.h"
#include "ops/op.h"
#include "ops/util.h"

namespace evoq {
namespace {

// ---- Shape(x) with start and end

}  // namespace

AxisRange ShapeRange(const Node& node, int64_t rank) {
  const auto clamp = [&](int64_t at) {
    return std::clamp<int64_t>(at < 0 ? at + rank : at, 0, rank);
  };
  const int64_t start = clamp(node.attrs.Int("start", 0)), end = clamp(node.attrs.Int("end", rank));
  return {start, std::max(start, end)};
}

namespace {

InferResult InferShape(const InferArgs& args) {
  EVOQ_TRY(IntAttr(args.node, "start", 0));
  EVOQ_TRY(IntAttr(args.node, "end", 0));
  const Shape& x = args.inputs[0].shape;
  if (!x.ranked())
    return std::vector<TensorType>{TensorType(DType::kInt64, Shape(std::vector<Dim>(1)))};
  const AxisRange range = ShapeRange(args.node, x.rank());
  return std::vector<TensorType>{TensorType(DType::kInt64, Shape{range.end - range.start})};
}

InferResult InferSize(const InferArgs&) {
  return std::vector<TensorType>{TensorType(DType::kInt64, Shape{})};
}

// ---- ConstantOfShape(shape)

}  // namespace

Result<Tensor> FillValue(const Node& node) {
  if (!node.attrs.Has("value")) return Tensor::Scalar(0.0f);
  if (!node.attrs.KindIs<Tensor>("value")) return InvalidInput("attribute value is not a tensor");
  Tensor value = node.attrs.TensorOr("value");
  if (!value.defined() || value.elements() != 1 || !value.layout().empty())
    return InvalidInput("attribute value is {}, expected one element", value.type().ToString());
  return value;
}

namespace {

InferResult InferConstantOfShape(const InferArgs& args) {
  EVOQ_ASSIGN(const Tensor value, FillValue(args.node));
  EVOQ_ASSIGN(const auto sizes, ConstantInts(args, 0));
  Shape shape = Shape::UnknownRank();
  if (sizes) {
    EVOQ_TRY(CheckRankLimit(static_cast<int64_t>(sizes->size())));
    for (int64_t s : *sizes) {
      if (s < 0) return InvalidInput("input 0 (shape) has the size {}", s);
    }
    shape = Shape(*sizes);
  } else if (const Shape& list = args.inputs[0].shape;
             list.ranked() && list.rank() == 1 && list[0].known()) {
    EVOQ_TRY(CheckRankLimit(list[0].value));
    shape = Shape(std::vector<Dim>(list[0].value));
  }
  return std::vector<TensorType>{TensorType(value.dtype(), std::move(shape))};
}

// ---- Range(start, limit, delta)

// The number of elements. Errors: delta 0, NaN or more than 2^40 elements.
template <typename T>
Result<int64_t> RangeCount(T start, T limit, T delta) {
  constexpr double kMost = 0x1p40;
  if (delta == 0) return InvalidInput("input 2 (delta) is 0");
  double count;
  if constexpr (std::is_integral_v<T>) {
    const __int128 span = static_cast<__int128>(limit) - static_cast<__int128>(start), step = delta;
    const __int128 exact =
        (span > 0) == (step > 0) ? (span + step + (step > 0 ? -1 : 1)) / step : 0;
    count = static_cast<double>(exact);
  } else {
    count = std::ceil((static_cast<double>(limit) - static_cast<double>(start)) /
                      static_cast<double>(delta));
  }
  if (!(count <= kMost))
    return Fail(ErrorCode::kTooLarge, "range from {} to {} by {}", start, limit, delta);
  return count > 0 ? static_cast<int64_t>(count) : 0;
}

InferResult InferRange(const InferArgs& args) {
  const DType dtype = args.inputs[0].dtype;
  for (size_t i = 0; i < 3; ++i) {
    EVOQ_TRY(CheckDType(args, i, std::array{dtype}));
    const Shape& shape = args.inputs[i].shape;
    if (shape.is_static() && shape.elements() != 1)
      return InvalidInput("input {} is {}, expected a scalar", i, args.inputs[i].ToString());
  }
  Dim size;
  if (args.constant(0) && args.constant(1) && args.constant(2)) {
    EVOQ_TRY(DispatchNumber(dtype, [&](auto tag) -> Status {
      using T = decltype(tag);
      EVOQ_ASSIGN(size, RangeCount(args.constant(0)->data<T>()[0], args.constant(1)->data<T>()[0],
                                   args.constant(2)->data<T>()[0]));
      return {};
    }));
  }
  return std::vector<TensorType>{TensorType(dtype, Shape(std::vector<Dim>{size}))};
}

// ---- EyeLike(x)

InferResult InferEyeLike(const InferArgs& args) {
  EVOQ_TRY(CheckRank(args, 0, 2));
  EVOQ_TRY(IntAttr(args.node, "k", 0));
  EVOQ_ASSIGN(const int64_t to,
              IntAttr(args.node, "dtype", static_cast<int64_t>(args.inputs[0].dtype)));
  const auto dtype = to > 0 && to < 1000 ? DTypeFromOnnx(static_cast<int>(to)) : std::nullopt;
  if (!dtype) return Unsupported("ONNX element type {}", to);
  return std::vector<TensorType>{TensorType(*dtype, args.inputs[0].shape)};
}

}  // namespace

extern const OpDef kShape = {.name = "Shape", .infer = InferShape, .axes = AxisUse::kShapeOf};
extern const OpDef kSize = {.name = "Size", .infer = InferSize, .axes = AxisUse::kSizeOf};
extern const OpDef kConstantOfShape = {.name = "ConstantOfShape", .infer = InferConstantOfShape};
extern const OpDef kRange = {
    .name = "Range", .min_inputs = 3, .max_inputs = 3, .infer = InferRange};
extern const OpDef kEyeLike = {.name = "EyeLike", .infer = InferEyeLike};

}  // namespace evoq
