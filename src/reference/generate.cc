// Values made from shapes and scalars: Shape, Size, ConstantOfShape, Range, EyeLike.
#include "ops/generate.h"

#include <algorithm>
#include <cstring>

#include "reference/definition.h"
#include "reference/indexing.h"
#include "reference/util.h"

namespace evoq {
namespace {

// ---- Shape(x) with start and end: the sizes of axes [start, end), clamped to the rank.

EvalResult EvaluateShape(const EvalArgs& args) {
  const std::vector<int64_t> sizes = args.inputs[0].sizes();
  const AxisRange range = ShapeRange(args.node, static_cast<int64_t>(sizes.size()));
  const std::vector<int64_t> part(sizes.begin() + range.start, sizes.begin() + range.end);
  return One(Tensor::FromValues(part));
}

EvalResult EvaluateSize(const EvalArgs& args) {
  return One(Tensor::Scalar<int64_t>(args.inputs[0].elements()));
}

// ---- ConstantOfShape(shape): every element is the attribute `value` (float32 0 by default).

EvalResult EvaluateConstantOfShape(const EvalArgs& args) {
  EVOQ_ASSIGN(const std::vector<TensorType> types, InferFromValues(args));
  EVOQ_ASSIGN(const Tensor value, FillValue(args.node));
  EVOQ_ASSIGN(const int64_t width, ElementBytes(value));
  EVOQ_ASSIGN(Tensor y, AllocateGrown(types[0]));
  // What is filled is copied behind itself.
  std::byte* const to = y.mutable_raw();
  const int64_t bytes = y.elements() * width;
  for (int64_t filled = 0; filled < bytes;) {
    const int64_t more = filled == 0 ? width : std::min(filled, bytes - filled);
    std::memcpy(to + filled, filled == 0 ? value.raw() : to, static_cast<size_t>(more));
    filled += more;
  }
  return One(std::move(y));
}

// ---- Range(start, limit, delta): start + i * delta for i < max(0, ceil((limit - start) / delta))

EvalResult EvaluateRange(const EvalArgs& args) {
  EVOQ_ASSIGN(const std::vector<TensorType> types, InferFromValues(args));
  return DispatchNumber(types[0].dtype, [&](auto tag) -> EvalResult {
    using T = decltype(tag);
    EVOQ_ASSIGN(Tensor y, AllocateGrown(types[0]));
    const T start = args.inputs[0].data<T>()[0], delta = args.inputs[2].data<T>()[0];
    T* const to = y.mutable_data<T>();
    const int64_t count = y.elements();
    for (int64_t i = 0; i < count; ++i) {
      if constexpr (std::is_integral_v<T>) {
        to[i] = static_cast<T>(static_cast<uint64_t>(start) +
                               static_cast<uint64_t>(i) * static_cast<uint64_t>(delta));
      } else {
        to[i] = start + static_cast<T>(i) * delta;
      }
    }
    return One(std::move(y));
  });
}

// ---- EyeLike(x): ones on the k-th diagonal of a matrix of x's shape

EvalResult EvaluateEyeLike(const EvalArgs& args) {
  EVOQ_ASSIGN(const std::vector<TensorType> types, InferFromValues(args));
  const int64_t k = args.node.attrs.Int("k");
  return DispatchElement(types[0].dtype, [&](auto tag) -> EvalResult {
    using T = decltype(tag);
    EVOQ_ASSIGN(Tensor y, AllocateOutput(types[0]));
    const int64_t rows = y.shape()[0].value, columns = y.shape()[1].value;
    if (k <= -rows || k >= columns) return One(std::move(y));
    for (int64_t row = std::max<int64_t>(0, -k); row < rows && row + k < columns; ++row)
      y.mutable_data<T>()[row * columns + row + k] = T{1};
    return One(std::move(y));
  });
}

}  // namespace

namespace reference {

extern const Definition kShape = {.name = "Shape", .evaluate = EvaluateShape};
extern const Definition kSize = {.name = "Size", .evaluate = EvaluateSize};
extern const Definition kConstantOfShape = {.name = "ConstantOfShape",
                                            .evaluate = EvaluateConstantOfShape};
extern const Definition kRange = {.name = "Range", .evaluate = EvaluateRange};
extern const Definition kEyeLike = {.name = "EyeLike", .evaluate = EvaluateEyeLike};

}  // namespace reference
}  // namespace evoq
