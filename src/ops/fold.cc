// Operators that put elements elsewhere: Col2Im, MaxUnpool, CenterCropPad, TensorScatter; and Det,
// SwiGLU, BitCast.
#include "ops/fold.h"

#include <cstring>

#include "base/math.h"
#include "ops/indexing.h"
#include "ops/util.h"

namespace evoq {
namespace {

constexpr int64_t kMaxSize = int64_t{1} << 30;

// The attribute as `count` numbers in [least, kMaxSize].
Result<std::vector<int64_t>> AxisSizes(const Node& node, const char* name, size_t count,
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

// ---- Col2Im(x [N, C * block, places], image_shape, block_shape)

}  // namespace

Result<FoldPlan> FoldPlanOf(const Node& node, std::vector<int64_t> image,
                            std::vector<int64_t> block) {
  FoldPlan p;
  const size_t axes = image.size();
  if (axes == 0 || block.size() != axes || axes > 16)
    return InvalidInput("{} sizes of the image and {} of the block", axes, block.size());
  EVOQ_ASSIGN(p.dilations, AxisSizes(node, "dilations", axes, 1, 1));
  EVOQ_ASSIGN(p.strides, AxisSizes(node, "strides", axes, 1, 1));
  EVOQ_ASSIGN(p.pads, AxisSizes(node, "pads", 2 * axes, 0, 0));
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

namespace {

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

// ---- MaxUnpool(x, indices, output_shape?)

}  // namespace

Result<std::vector<Dim>> UnpoolDims(const Node& node, const Shape& x) {
  if (x.rank() < 3) return InvalidInput("input 0 is {}, expected rank 3 or more", x.ToString());
  const size_t axes = static_cast<size_t>(x.rank()) - 2;
  if (!node.attrs.Has("kernel_shape")) return InvalidInput("attribute kernel_shape is missing");
  EVOQ_ASSIGN(const auto kernel, AxisSizes(node, "kernel_shape", axes, 1, 1));
  EVOQ_ASSIGN(const auto strides, AxisSizes(node, "strides", axes, 1, 1));
  EVOQ_ASSIGN(const auto pads, AxisSizes(node, "pads", 2 * axes, 0, 0));
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

namespace {

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

// ---- CenterCropPad(x, shape) on axes

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

// ---- TensorScatter(cache, update, write_indices?)

}  // namespace

Result<int> ScatterAxis(const Node& node, int rank) {
  EVOQ_ASSIGN(const int64_t axis, IntAttr(node, "axis", -2));
  EVOQ_ASSIGN(const int normal, NormalizeAxis(axis, rank));
  if (normal == 0) return InvalidInput("attribute axis is {}, the batch", axis);
  return normal;
}

namespace {

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

// ---- SwiGLU(a, b) = a * sigmoid(alpha * a) * b

InferResult InferSwiGlu(const InferArgs& args) {
  EVOQ_TRY(CheckFloat(args, 0));
  EVOQ_TRY(FloatAttr(args.node, "alpha", 1));
  return BroadcastInputs(args);
}

// ---- BitCast(x, to)

InferResult InferBitCast(const InferArgs& args) {
  EVOQ_ASSIGN(const int64_t to, IntAttr(args.node, "to", 0));
  const auto dtype = to > 0 && to < 128 ? DTypeFromOnnx(static_cast<int>(to)) : std::nullopt;
  if (!dtype || *dtype == DType::kString || DTypeBits(*dtype) != DTypeBits(args.inputs[0].dtype))
    return InvalidInput("{} as ONNX element type {}, expected one of the same width",
                        args.inputs[0].ToString(), to);
  return std::vector<TensorType>{TensorType(*dtype, args.inputs[0].shape)};
}

}  // namespace

extern const OpDef kBitCast = {.name = "BitCast", .infer = InferBitCast};
extern const OpDef kCenterCropPad = {
    .name = "CenterCropPad", .min_inputs = 2, .max_inputs = 2, .infer = InferCenterCropPad};
extern const OpDef kCol2Im = {
    .name = "Col2Im", .min_inputs = 3, .max_inputs = 3, .infer = InferCol2Im};
extern const OpDef kDet = {.name = "Det", .infer = InferDet};
extern const OpDef kMaxUnpool = {
    .name = "MaxUnpool", .min_inputs = 2, .max_inputs = 3, .infer = InferMaxUnpool, .indices = 1};
extern const OpDef kSwiGLU = {
    .name = "SwiGLU", .min_inputs = 2, .max_inputs = 2, .elementwise = true, .infer = InferSwiGlu};
extern const OpDef kTensorScatter = {.name = "TensorScatter",
                                     .min_inputs = 2,
                                     .max_inputs = 3,
                                     .infer = InferTensorScatter,
                                     .indices = 2};

}  // namespace evoq
