// Operators that put elements elsewhere: Col2Im, MaxUnpool, CenterCropPad, TensorScatter; and Det,
// SwiGLU, BitCast.
#include "ops/fold.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/budget_scope.h"
#include "base/math.h"
#include "reference/definition.h"
#include "reference/indexing.h"
#include "reference/real.h"
#include "reference/util.h"

namespace evoq {
namespace {

// ---- Col2Im(x [N, C * block, places], image_shape, block_shape): each column of x is a block of
// the image; blocks that overlap add up, in order of the place within the block, then of the block.

// Where the blocks' places number `within` fall along one axis.
struct BlockLine {
  int64_t offset = 0;          // the pixel of block 0
  int64_t first = 0, end = 0;  // blocks whose pixel is inside
};

std::vector<BlockLine> BlockLines(const FoldPlan& p, int64_t within) {
  std::vector<BlockLine> lines(p.image.size());
  for (size_t d = p.image.size(); d-- > 0;) {
    BlockLine& line = lines[d];
    line.offset = within % p.block[d] * p.dilations[d] - p.pads[d];
    within /= p.block[d];
    line.first = std::clamp<int64_t>(CeilDiv(-line.offset, p.strides[d]), 0, p.counts[d]);
    line.end = std::clamp<int64_t>(CeilDiv(p.image[d] - line.offset, p.strides[d]), line.first,
                                   p.counts[d]);
  }
  return lines;
}

// image += the places number `within` of all blocks.
template <typename T>
void AddPlaces(const FoldPlan& p, int64_t within, const T* x, T* image) {
  const std::vector<BlockLine> lines = BlockLines(p, within);
  const size_t last = p.image.size() - 1;
  const BlockLine& inner = lines[last];
  const int64_t step = p.strides[last];
  for (int64_t row = 0; row < p.places / p.counts[last]; ++row) {
    int64_t rest = row, at = 0, size = p.image[last];
    bool inside = true;
    for (size_t d = last; d-- > 0;) {
      const int64_t block = rest % p.counts[d];
      rest /= p.counts[d];
      inside = inside && block >= lines[d].first && block < lines[d].end;
      at += (block * p.strides[d] + lines[d].offset) * size;
      size *= p.image[d];
    }
    if (!inside) continue;
    const T* from = x + row * p.counts[last];
    T* to = image + at + inner.offset;
    for (int64_t i = inner.first; i < inner.end; ++i) to[i * step] += from[i];
  }
}

EvalResult EvaluateCol2Im(const EvalArgs& args) {
  const Tensor& x = args.inputs[0];
  EVOQ_ASSIGN(const std::vector<int64_t> image, ToInt64s(args.inputs[1]));
  EVOQ_ASSIGN(const std::vector<int64_t> block, ToInt64s(args.inputs[2]));
  EVOQ_ASSIGN(const FoldPlan p, FoldPlanOf(args.node, image, block));
  EVOQ_ASSIGN(Tensor y, AllocateGrown(args.output_types[0]));
  const int64_t planes = x.elements() == 0 ? 0 : x.sizes()[0] * x.sizes()[1] / p.block_size;
  return DispatchNumber(x.dtype(), [&](auto tag) -> EvalResult {
    using T = decltype(tag);
    const T* from = x.data<T>();
    T* const to = y.mutable_data<T>();
    for (int64_t plane = 0; plane < planes; ++plane) {
      for (int64_t within = 0; within < p.block_size; ++within, from += p.places)
        AddPlaces(p, within, from, to + plane * p.image_size);
    }
    return One(std::move(y));
  });
}

// ---- MaxUnpool(x, indices, output_shape?): y, zero elsewhere, has x at its index in the tensor
// that was pooled, which lies at the corner of the output.

EvalResult EvaluateMaxUnpool(const EvalArgs& args) {
  const Tensor &x = args.inputs[0], &indices = args.inputs[1];
  if (x.shape() != indices.shape())
    return InvalidInput("inputs {} and {}, expected equal shapes", x.type().ToString(),
                        indices.type().ToString());
  EVOQ_ASSIGN(const std::vector<Dim> dims, UnpoolDims(args.node, x.shape()));
  EVOQ_ASSIGN(Tensor y, AllocateGrown(args.output_types[0]));
  const std::vector<int64_t> inner = Shape(dims).sizes(), strides = RowMajorStrides(y.sizes());
  const int64_t count = CheckedProduct(inner).value_or(0);
  return DispatchWidth(x.dtype(), [&](auto tag) -> EvalResult {
    using T = decltype(tag);
    for (int64_t i = 0; i < x.elements(); ++i) {
      int64_t index = indices.data<int64_t>()[i], at = 0;
      if (index < 0 || index >= count) return InvalidInput("index {} of {} elements", index, count);
      for (size_t d = inner.size(); d-- > 0;) {
        at += index % inner[d] * strides[d];
        index /= inner[d];
      }
      y.mutable_data<T>()[at] = x.data<T>()[i];
    }
    return One(std::move(y));
  });
}

// ---- CenterCropPad(x, shape) on axes: cuts (an odd rest more at the end) or pads with zeros (an
// odd rest more at the end).

EvalResult EvaluateCenterCropPad(const EvalArgs& args) {
  const Tensor& x = args.inputs[0];
  EVOQ_ASSIGN(Tensor y, AllocateGrown(args.output_types[0]));
  const std::vector<int64_t> from = x.sizes(), to = y.sizes();
  const std::vector<int64_t> x_strides = RowMajorStrides(from), y_strides = RowMajorStrides(to);
  std::vector<int64_t> common;
  int64_t x_start = 0, y_start = 0;
  for (size_t d = 0; d < from.size(); ++d) {
    common.push_back(std::min(from[d], to[d]));
    x_start += std::max<int64_t>(from[d] - to[d], 0) / 2 * x_strides[d];
    y_start += std::max<int64_t>(to[d] - from[d], 0) / 2 * y_strides[d];
  }
  return DispatchWidth(x.dtype(), [&](auto tag) -> EvalResult {
    using T = decltype(tag);
    ForEachIndex<2>(common, {x_strides, y_strides}, [&](int64_t, const auto& at) {
      y.mutable_data<T>()[y_start + at[1]] = x.data<T>()[x_start + at[0]];
    });
    return One(std::move(y));
  });
}

// ---- TensorScatter(cache, update, write_indices?): the update takes the places of the cache along
// `axis` from the batch item's write index on; mode circular goes on at the beginning.

EvalResult EvaluateTensorScatter(const EvalArgs& args) {
  const Tensor &cache = args.inputs[0], &update = args.inputs[1];
  EVOQ_ASSIGN(const int axis, ScatterAxis(args.node, cache.shape().rank()));
  EVOQ_ASSIGN(const int64_t width, ElementBytes(cache));
  const AxisSplit to = SplitAt(cache.sizes(), axis), from = SplitAt(update.sizes(), axis);
  const int64_t batch = cache.sizes()[0];
  const bool circular = args.node.attrs.String("mode", "linear") == "circular";
  std::vector<int64_t> starts(static_cast<size_t>(batch), 0);
  if (args.has(2)) {
    EVOQ_ASSIGN(starts, ToInt64s(args.inputs[2]));
  }
  if (static_cast<int64_t>(starts.size()) != batch)
    return InvalidInput("{} write indices for a batch of {}", starts.size(), batch);
  Tensor y = cache.Clone();
  for (int64_t row = 0; row < from.outer; ++row) {
    const int64_t start = starts[row / (from.outer / batch)];
    if (start < 0 || start > (circular ? to.size : to.size - from.size))
      return InvalidInput("write index {} in a cache of {}", start, to.size);
    for (int64_t i = 0; i < from.size; ++i) {
      const int64_t place = (start + i) % to.size, bytes = from.inner * width;
      std::memcpy(y.mutable_raw() + (row * to.size + place) * bytes,
                  update.raw() + (row * from.size + i) * bytes, static_cast<size_t>(bytes));
    }
  }
  return One(std::move(y));
}

// ---- Det(x [..., n, n]), by elimination with pivots, in float64.

double Determinant(std::vector<double> a, int64_t n) {
  double result = 1;
  for (int64_t k = 0; k < n; ++k) {
    int64_t pivot = k;
    for (int64_t i = k + 1; i < n; ++i) {
      if (std::fabs(a[i * n + k]) > std::fabs(a[pivot * n + k])) pivot = i;
    }
    if (a[pivot * n + k] == 0) return 0;
    if (pivot != k) {
      result = -result;
      std::swap_ranges(a.begin() + k * n, a.begin() + (k + 1) * n, a.begin() + pivot * n);
    }
    result *= a[k * n + k];
    for (int64_t i = k + 1; i < n; ++i) {
      const double factor = a[i * n + k] / a[k * n + k];
      for (int64_t j = k; j < n; ++j) a[i * n + j] -= factor * a[k * n + j];
    }
  }
  return result;
}

EvalResult EvaluateDet(const EvalArgs& args) {
  const Tensor& x = args.inputs[0];
  const int64_t n = x.sizes().back();
  EVOQ_ASSIGN(Tensor y, AllocateOutput(args.output_types[0]));
  EVOQ_TRY(SpendWork({y.elements(), n, n, n}, "elimination"));
  return DispatchFloat(x.dtype(), [&](auto tag) -> EvalResult {
    using T = decltype(tag);
    for (int64_t i = 0; i < y.elements(); ++i) {
      const T* at = x.data<T>() + i * n * n;
      y.mutable_data<T>()[i] = static_cast<T>(Determinant(std::vector<double>(at, at + n * n), n));
    }
    return One(std::move(y));
  });
}

// ---- SwiGLU(a, b) = a * sigmoid(alpha * a) * b

EvalResult EvaluateSwiGlu(const EvalArgs& args) {
  const Tensor &a = args.inputs[0], &b = args.inputs[1];
  if (a.shape() != b.shape())
    return InvalidInput("inputs {} and {}, expected equal shapes", a.type().ToString(),
                        b.type().ToString());
  return EvaluateAsFloats(args, [&](auto tag) -> EvalResult {
    using T = decltype(tag);
    const T alpha = args.node.attrs.Float("alpha", 1);
    Tensor y = Tensor::Allocate(a.type());
    for (int64_t i = 0; i < a.elements(); ++i) {
      const T v = a.data<T>()[i];
      y.mutable_data<T>()[i] = v * SigmoidOf(alpha * v) * b.data<T>()[i];
    }
    return One(std::move(y));
  });
}

// ---- BitCast(x, to): the same bits under a type of the same width.

EvalResult EvaluateBitCast(const EvalArgs& args) {
  const TensorType& type = args.output_types[0];
  if (type.dtype != DType::kBool) return One(args.inputs[0].WithType(type));
  Tensor y = Tensor::Allocate(type);  // a bool is 0 or 1
  for (int64_t i = 0; i < y.elements(); ++i)
    y.mutable_data<bool>()[i] = args.inputs[0].raw()[i] != std::byte{0};
  return One(std::move(y));
}

}  // namespace

namespace reference {

extern const Definition kBitCast = {.name = "BitCast", .evaluate = EvaluateBitCast};
extern const Definition kCenterCropPad = {.name = "CenterCropPad",
                                          .evaluate = EvaluateCenterCropPad};
extern const Definition kCol2Im = {.name = "Col2Im", .evaluate = EvaluateCol2Im};
extern const Definition kDet = {.name = "Det", .evaluate = EvaluateDet};
extern const Definition kMaxUnpool = {.name = "MaxUnpool", .evaluate = EvaluateMaxUnpool};
extern const Definition kSwiGLU = {.name = "SwiGLU", .evaluate = EvaluateSwiGlu};
extern const Definition kTensorScatter = {.name = "TensorScatter",
                                          .evaluate = EvaluateTensorScatter};

}  // namespace reference
}  // namespace evoq
