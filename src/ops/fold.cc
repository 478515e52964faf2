// Operators that put elements elsewhere: Col2Im, MaxUnpool, CenterCropPad, TensorScatter; and Det,
// SwiGLU, BitCast.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/budget_scope.h"
#include "base/math.h"
#include "ops/indexing.h"
#include "ops/real.h"
#include "ops/util.h"

namespace evoq {
namespace {

constexpr int64_t kMaxSize = int64_t{1} << 30;

// The attribute as `count` numbers in [least, kMaxSize].
Result<std::vector<int64_t>> Sizes(const Node& node, const char* name, size_t count,
                                   int64_t fallback, int64_t least) {
  EVOQ_ASSIGN(std::vector<int64_t> values,
              IntsAttr(node, name, std::vector<int64_t>(count, fallback)));
  if (values.size() != count)
    return InvalidInput("attribute {} has {} numbers, expected {}", name, values.size(), count);
  for (int64_t v : values) {
    if (v < least || v > kMaxSize)
      return InvalidInput("attribute {} has {}, expected {} or more", name, v, least);
  }
  return values;
}

// ---- Col2Im(x [N, C * block, places], image_shape, block_shape): each column of x is a block of
// the image; blocks that overlap add up, in order of the place within the block, then of the block.

struct FoldPlan {
  std::vector<int64_t> image, block, dilations, strides, pads,
      counts;  // counts: blocks along each axis
  int64_t block_size = 1, places = 1, image_size = 1;
};

Result<FoldPlan> FoldPlanOf(const Node& node, std::vector<int64_t> image,
                            std::vector<int64_t> block) {
  FoldPlan p;
  const size_t axes = image.size();
  if (axes == 0 || block.size() != axes || axes > 16)
    return InvalidInput("{} sizes of the image and {} of the block", axes, block.size());
  EVOQ_ASSIGN(p.dilations, Sizes(node, "dilations", axes, 1, 1));
  EVOQ_ASSIGN(p.strides, Sizes(node, "strides", axes, 1, 1));
  EVOQ_ASSIGN(p.pads, Sizes(node, "pads", 2 * axes, 0, 0));
  for (size_t d = 0; d < axes; ++d) {
    if (image[d] < 1 || block[d] < 1 || image[d] > kMaxSize || block[d] > kMaxSize)
      return InvalidInput("a block of {} in an image of {}", block[d], image[d]);
    const int64_t room =
        image[d] + p.pads[d] + p.pads[d + axes] - p.dilations[d] * (block[d] - 1) - 1;
    if (room < 0)
      return InvalidInput("axis {}: a block of {} is larger than the image of {}", d, block[d],
                          image[d]);
    p.counts.push_back(room / p.strides[d] + 1);
  }
  const auto block_size = CheckedProduct(block), places = CheckedProduct(p.counts),
             image_size = CheckedProduct(image);
  if (!block_size || !places || !image_size)
    return Fail(ErrorCode::kTooLarge, "an image with more elements than fit");
  p.block_size = *block_size;
  p.places = *places;
  p.image_size = *image_size;
  p.image = std::move(image);
  p.block = std::move(block);
  return p;
}

InferResult InferCol2Im(const InferArgs& args) {
  EVOQ_TRY(CheckRank(args, 0, 3));
  EVOQ_ASSIGN(const auto image, ConstantInts(args, 1));
  EVOQ_ASSIGN(const auto block, ConstantInts(args, 2));
  const Shape& x = args.inputs[0].shape;
  if (!image || !block || !x.ranked())
    return std::vector<TensorType>{TensorType(args.inputs[0].dtype, Shape::UnknownRank())};
  EVOQ_ASSIGN(const FoldPlan p, FoldPlanOf(args.node, *image, *block));
  if (x[1].known() && x[1].value % p.block_size != 0)
    return InvalidInput("input 0 is {}, expected blocks of {}", x.ToString(), p.block_size);
  if (x[2].known() && x[2].value != p.places)
    return InvalidInput("input 0 is {}, expected {} blocks", x.ToString(), p.places);
  std::vector<Dim> dims = {x[0], x[1].known() ? Dim(x[1].value / p.block_size) : Dim()};
  dims.insert(dims.end(), image->begin(), image->end());
  return std::vector<TensorType>{TensorType(args.inputs[0].dtype, Shape(std::move(dims)))};
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
    for (int64_t i = 0; i < planes * p.block_size * p.places; ++i) {
      int64_t place = i % p.places, within = i / p.places % p.block_size, at = 0, step = 1;
      bool inside = true;
      for (size_t d = image.size(); d-- > 0;) {
        const int64_t pixel =
            place % p.counts[d] * p.strides[d] - p.pads[d] + within % p.block[d] * p.dilations[d];
        inside &= pixel >= 0 && pixel < p.image[d];
        at += pixel * step;
        step *= p.image[d];
        place /= p.counts[d];
        within /= p.block[d];
      }
      if (inside)
        y.mutable_data<T>()[i / p.places / p.block_size * p.image_size + at] += x.data<T>()[i];
    }
    return One(std::move(y));
  });
}

// ---- MaxUnpool(x, indices, output_shape?): y, zero elsewhere, has x at its index in the tensor
// that was pooled, which lies at the corner of the output.

Result<std::vector<Dim>> UnpoolDims(const Node& node, const Shape& x) {
  if (x.rank() < 3) return InvalidInput("input 0 is {}, expected rank 3 or more", x.ToString());
  const size_t axes = static_cast<size_t>(x.rank()) - 2;
  if (!node.attrs.Has("kernel_shape")) return InvalidInput("attribute kernel_shape is missing");
  EVOQ_ASSIGN(const auto kernel, Sizes(node, "kernel_shape", axes, 1, 1));
  EVOQ_ASSIGN(const auto strides, Sizes(node, "strides", axes, 1, 1));
  EVOQ_ASSIGN(const auto pads, Sizes(node, "pads", 2 * axes, 0, 0));
  std::vector<Dim> dims = {x[0], x[1]};
  for (size_t d = 0; d < axes; ++d) {
    const Dim& size = x[static_cast<int>(d) + 2];
    const auto scaled = size.known() ? CheckedMul(size.value - 1, strides[d]) : std::nullopt;
    const int64_t whole = scaled ? *scaled - pads[d] - pads[d + axes] + kernel[d] : 0;
    if (scaled && whole < 0) return InvalidInput("the pads are larger than {}", x.ToString());
    dims.push_back(scaled ? Dim(whole) : Dim());
  }
  return dims;
}

InferResult InferMaxUnpool(const InferArgs& args) {
  EVOQ_TRY(CheckDType(args, 1, std::array{DType::kInt64}));
  EVOQ_ASSIGN(const auto wanted, ConstantInts(args, 2));
  const TensorType& x = args.inputs[0];
  if (!x.shape.ranked()) return SameAsInput0(args);
  EVOQ_ASSIGN(std::vector<Dim> dims, UnpoolDims(args.node, x.shape));
  if (!args.has(2)) return std::vector<TensorType>{TensorType(x.dtype, Shape(std::move(dims)))};
  if (!wanted)
    return std::vector<TensorType>{TensorType(x.dtype, Shape(std::vector<Dim>(dims.size())))};
  if (wanted->size() != dims.size())
    return InvalidInput("input 2 has {} sizes, expected {}", wanted->size(), dims.size());
  for (size_t d = 0; d < dims.size(); ++d) {
    if ((*wanted)[d] < 0 || (dims[d].known() && (*wanted)[d] < dims[d].value))
      return InvalidInput("input 2 asks for {} on axis {}, expected at least {}", (*wanted)[d], d,
                          dims[d].value);
  }
  return std::vector<TensorType>{TensorType(x.dtype, Shape(*wanted))};
}

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

Result<std::vector<int>> CropAxes(const Node& node, int rank) {
  std::vector<int64_t> all;
  for (int d = 0; d < rank; ++d) all.push_back(d);
  EVOQ_ASSIGN(const std::vector<int64_t> axes, IntsAttr(node, "axes", all));
  return NormalizeAxes(axes, rank);
}

InferResult InferCenterCropPad(const InferArgs& args) {
  EVOQ_TRY(CheckIndexType(args, 1));
  EVOQ_ASSIGN(const auto sizes, ConstantInts(args, 1));
  TensorType y = args.inputs[0];
  if (!y.shape.ranked()) return SameAsInput0(args);
  EVOQ_ASSIGN(const std::vector<int> axes, CropAxes(args.node, y.shape.rank()));
  if (sizes && sizes->size() != axes.size())
    return InvalidInput("{} sizes for {} axes", sizes->size(), axes.size());
  for (size_t i = 0; i < axes.size(); ++i) {
    if (sizes && (*sizes)[i] < 0)
      return InvalidInput("the size {} on axis {}", (*sizes)[i], axes[i]);
    y.shape[axes[i]] = sizes ? Dim((*sizes)[i]) : Dim();
  }
  return std::vector<TensorType>{y};
}

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

Result<int> ScatterAxis(const Node& node, int rank) {
  EVOQ_ASSIGN(const int64_t axis, IntAttr(node, "axis", -2));
  EVOQ_ASSIGN(const int normal, NormalizeAxis(axis, rank));
  if (normal == 0) return InvalidInput("attribute axis is {}, the batch", axis);
  return normal;
}

InferResult InferTensorScatter(const InferArgs& args) {
  EVOQ_ASSIGN(const std::string mode, StringAttr(args.node, "mode", "linear"));
  if (mode != "linear" && mode != "circular")
    return InvalidInput("attribute mode is '{}', expected linear or circular", mode);
  if (args.inputs[1].dtype != args.inputs[0].dtype)
    return InvalidInput("input 1 is {}, expected {}", args.inputs[1].ToString(),
                        DTypeName(args.inputs[0].dtype));
  if (args.has(2)) EVOQ_TRY(CheckIndexType(args, 2));
  const Shape &cache = args.inputs[0].shape, &update = args.inputs[1].shape;
  if (!cache.ranked() || !update.ranked()) return SameAsInput0(args);
  EVOQ_ASSIGN(const int axis, ScatterAxis(args.node, cache.rank()));
  bool fits = update.rank() == cache.rank();
  for (int d = 0; fits && d < cache.rank(); ++d) {
    if (!cache[d].known() || !update[d].known()) continue;
    fits = d == axis ? update[d].value <= cache[d].value : update[d].value == cache[d].value;
  }
  if (!fits)
    return InvalidInput("an update of {} for a cache of {}", update.ToString(), cache.ToString());
  return SameAsInput0(args);
}

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

InferResult InferDet(const InferArgs& args) {
  EVOQ_TRY(CheckFloat(args, 0));
  const Shape& x = args.inputs[0].shape;
  if (!x.ranked()) return SameAsInput0(args);
  if (x.rank() < 2) return InvalidInput("input 0 is {}, expected rank 2 or more", x.ToString());
  const Dim &rows = x[x.rank() - 2], &columns = x[x.rank() - 1];
  if (rows.known() && columns.known() && rows.value != columns.value)
    return InvalidInput("input 0 is {}, expected square matrices", x.ToString());
  return std::vector<TensorType>{TensorType(
      args.inputs[0].dtype, Shape(std::vector<Dim>(x.dims().begin(), x.dims().end() - 2)))};
}

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

InferResult InferSwiGlu(const InferArgs& args) {
  EVOQ_TRY(CheckFloat(args, 0));
  EVOQ_TRY(FloatAttr(args.node, "alpha", 1));
  return BroadcastInputs(args);
}

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

InferResult InferBitCast(const InferArgs& args) {
  EVOQ_ASSIGN(const int64_t to, IntAttr(args.node, "to", 0));
  const auto dtype = to > 0 && to < 128 ? DTypeFromOnnx(static_cast<int>(to)) : std::nullopt;
  if (!dtype || *dtype == DType::kString || DTypeBits(*dtype) != DTypeBits(args.inputs[0].dtype))
    return InvalidInput("{} as ONNX element type {}, expected one of the same width",
                        args.inputs[0].ToString(), to);
  return std::vector<TensorType>{TensorType(*dtype, args.inputs[0].shape)};
}

EvalResult EvaluateBitCast(const EvalArgs& args) {
  const TensorType& type = args.output_types[0];
  if (type.dtype != DType::kBool) return One(args.inputs[0].WithType(type));
  Tensor y = Tensor::Allocate(type);  // a bool is 0 or 1
  for (int64_t i = 0; i < y.elements(); ++i)
    y.mutable_data<bool>()[i] = args.inputs[0].raw()[i] != std::byte{0};
  return One(std::move(y));
}

}  // namespace

extern const OpDef kBitCast = {
    .name = "BitCast", .infer = InferBitCast, .evaluate = EvaluateBitCast};
extern const OpDef kCenterCropPad = {.name = "CenterCropPad",
                                     .min_inputs = 2,
                                     .max_inputs = 2,
                                     .infer = InferCenterCropPad,
                                     .evaluate = EvaluateCenterCropPad};
extern const OpDef kCol2Im = {.name = "Col2Im",
                              .min_inputs = 3,
                              .max_inputs = 3,
                              .infer = InferCol2Im,
                              .evaluate = EvaluateCol2Im};
extern const OpDef kDet = {.name = "Det", .infer = InferDet, .evaluate = EvaluateDet};
extern const OpDef kMaxUnpool = {.name = "MaxUnpool",
                                 .min_inputs = 2,
                                 .max_inputs = 3,
                                 .infer = InferMaxUnpool,
                                 .evaluate = EvaluateMaxUnpool};
extern const OpDef kSwiGLU = {.name = "SwiGLU",
                              .min_inputs = 2,
                              .max_inputs = 2,
                              .elementwise = true,
                              .infer = InferSwiGlu,
                              .evaluate = EvaluateSwiGlu};
extern const OpDef kTensorScatter = {.name = "TensorScatter",
                                     .min_inputs = 2,
                                     .max_inputs = 3,
                                     .infer = InferTensorScatter,
                                     .evaluate = EvaluateTensorScatter};

}  // namespace evoq
