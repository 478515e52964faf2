// Sampling of regions: RoiAlign, MaxRoiPool, AffineGrid, DeformConv.
#include "ops/regions.h"

#include <algorithm>

#include "base/math.h"
#include "ops/indexing.h"
#include "ops/util.h"

namespace evoq {
namespace {

constexpr int64_t kMaxSize = int64_t{1} << 20;

// ---- RoiAlign(x, rois, batch_indices)

InferResult InferRoiAlign(const InferArgs& args) {
  for (size_t i : {0, 1}) EVOQ_TRY(CheckFloat(args, i));
  EVOQ_TRY(CheckRank(args, 0, 4));
  EVOQ_TRY(CheckRank(args, 1, 2));
  EVOQ_TRY(CheckRank(args, 2, 1));
  EVOQ_TRY(CheckIndexType(args, 2));
  EVOQ_ASSIGN(const std::string mode, StringAttr(args.node, "mode", "avg"));
  if (mode != "avg" && mode != "max")
    return InvalidInput("attribute mode is '{}', expected avg or max", mode);
  EVOQ_ASSIGN(const int64_t height, IntAttr(args.node, "output_height", 1));
  EVOQ_ASSIGN(const int64_t width, IntAttr(args.node, "output_width", 1));
  EVOQ_ASSIGN(const int64_t ratio, IntAttr(args.node, "sampling_ratio", 0));
  EVOQ_TRY(FloatAttr(args.node, "spatial_scale", 1));
  if (height < 1 || width < 1 || height > kMaxSize || width > kMaxSize || ratio < 0 || ratio > 1024)
    return InvalidInput("{} x {} bins of {} samples", height, width, ratio);
  const Shape &x = args.inputs[0].shape, &rois = args.inputs[1].shape;
  if (rois.ranked() && rois[1].known() && rois[1].value != 4)
    return InvalidInput("input 1 is {}, expected 4 coordinates", rois.ToString());
  return std::vector<TensorType>{
      TensorType(args.inputs[0].dtype,
                 Shape(std::vector<Dim>{rois.ranked() ? rois[0] : Dim(), x.ranked() ? x[1] : Dim(),
                                        Dim(height), Dim(width)}))};
}

// ---- MaxRoiPool(x, rois)

InferResult InferMaxRoiPool(const InferArgs& args) {
  for (size_t i : {0, 1}) EVOQ_TRY(CheckFloat(args, i));
  EVOQ_TRY(CheckRank(args, 0, 4));
  EVOQ_TRY(CheckRank(args, 1, 2));
  EVOQ_TRY(FloatAttr(args.node, "spatial_scale", 1));
  EVOQ_ASSIGN(const std::vector<int64_t> pooled, IntsAttr(args.node, "pooled_shape"));
  if (pooled.size() != 2 || pooled[0] < 1 || pooled[1] < 1 || pooled[0] > kMaxSize ||
      pooled[1] > kMaxSize)
    return InvalidInput("attribute pooled_shape must be two sizes");
  const Shape &x = args.inputs[0].shape, &rois = args.inputs[1].shape;
  if (rois.ranked() && rois[1].known() && rois[1].value != 5)
    return InvalidInput("input 1 is {}, expected 5 values", rois.ToString());
  return std::vector<TensorType>{
      TensorType(args.inputs[0].dtype,
                 Shape(std::vector<Dim>{rois.ranked() ? rois[0] : Dim(), x.ranked() ? x[1] : Dim(),
                                        Dim(pooled[0]), Dim(pooled[1])}))};
}

// ---- AffineGrid(theta, size)

InferResult InferAffineGrid(const InferArgs& args) {
  EVOQ_TRY(CheckFloat(args, 0));
  EVOQ_TRY(CheckRank(args, 0, 3));
  EVOQ_TRY(IntAttr(args.node, "align_corners", 0));
  EVOQ_ASSIGN(const auto size, ConstantInts(args, 1));
  const Shape& theta = args.inputs[0].shape;
  const DType dtype = args.inputs[0].dtype;
  if (!size) {
    const Shape& sizes = args.inputs[1].shape;
    if (!sizes.ranked() || sizes.rank() != 1 || !sizes[0].known())
      return std::vector<TensorType>{TensorType(dtype, Shape::UnknownRank())};
    EVOQ_TRY(CheckRankLimit(sizes[0].value));
    return std::vector<TensorType>{
        TensorType(dtype, Shape(std::vector<Dim>(static_cast<size_t>(sizes[0].value))))};
  }
  if (size->size() != 4 && size->size() != 5)
    return InvalidInput("input 1 has {} sizes, expected 4 or 5", size->size());
  const int64_t axes = static_cast<int64_t>(size->size()) - 2;
  for (int64_t s : *size) {
    if (s < 0) return InvalidInput("input 1 has the size {}", s);
  }
  const std::vector<Dim> wanted = {Dim((*size)[0]), Dim(axes), Dim(axes + 1)};
  for (int d = 0; theta.ranked() && d < 3; ++d) {
    if (theta[d].known() && theta[d].value != wanted[d].value)
      return InvalidInput("input 0 is {}, expected {}", theta.ToString(), Shape(wanted).ToString());
  }
  std::vector<Dim> dims = {wanted[0]};
  for (size_t d = 2; d < size->size(); ++d) dims.emplace_back((*size)[d]);
  dims.emplace_back(axes);
  return std::vector<TensorType>{TensorType(dtype, Shape(std::move(dims)))};
}

// ---- DeformConv(x, w, offset, bias?, mask?)

}  // namespace

Result<DeformPlan> DeformPlanOf(const Node& node, const Shape& w) {
  DeformPlan p{};
  EVOQ_ASSIGN(const std::vector<int64_t> strides, IntsAttr(node, "strides", {1, 1}));
  EVOQ_ASSIGN(const std::vector<int64_t> dilations, IntsAttr(node, "dilations", {1, 1}));
  EVOQ_ASSIGN(const std::vector<int64_t> pads, IntsAttr(node, "pads", {0, 0, 0, 0}));
  EVOQ_ASSIGN(const std::vector<int64_t> kernel,
              IntsAttr(node, "kernel_shape", {w[2].value, w[3].value}));
  EVOQ_ASSIGN(p.group, IntAttr(node, "group", 1));
  EVOQ_ASSIGN(p.offset_group, IntAttr(node, "offset_group", 1));
  if (strides.size() != 2 || dilations.size() != 2 || pads.size() != 4 || kernel.size() != 2)
    return Unsupported("a deformable convolution of other than two spatial axes");
  if (p.group < 1 || p.offset_group < 1)
    return InvalidInput("{} groups and {} offset groups", p.group, p.offset_group);
  for (int d = 0; d < 2; ++d) {
    if (w[2 + d].known() && kernel[d] != w[2 + d].value)
      return InvalidInput("attribute kernel_shape differs from input 1, {}", w.ToString());
    if (strides[d] < 1 || dilations[d] < 1 || strides[d] > kMaxSize || dilations[d] > kMaxSize)
      return InvalidInput("strides and dilations must be at least 1");
  }
  for (int64_t pad : pads) {
    if (pad < 0 || pad > kMaxSize) return InvalidInput("a pad of {}", pad);
  }
  std::copy_n(strides.begin(), 2, p.strides);
  std::copy_n(dilations.begin(), 2, p.dilations);
  std::copy_n(kernel.begin(), 2, p.kernel);
  std::copy_n(pads.begin(), 4, p.pads);
  return p;
}

namespace {

InferResult InferDeformConv(const InferArgs& args) {
  for (size_t i = 0; i < 5; ++i) EVOQ_TRY(CheckFloat(args, i));
  const Shape &x = args.inputs[0].shape, &w = args.inputs[1].shape, &offset = args.inputs[2].shape;
  const auto unknown = [&] {
    return std::vector<TensorType>{TensorType(args.inputs[0].dtype, Shape::UnknownRank())};
  };
  if (!x.ranked() || !w.ranked() || !offset.ranked()) return unknown();
  for (size_t i : {0, 1, 2, 4}) {
    if (args.has(i) && args.inputs[i].shape.ranked() && args.inputs[i].shape.rank() != 4)
      return Unsupported("input {} is {}, expected rank 4: two spatial axes", i,
                         args.inputs[i].ToString());
  }
  EVOQ_TRY(CheckRank(args, 3, 1));
  EVOQ_ASSIGN(const DeformPlan p, DeformPlanOf(args.node, w));
  const auto differ = [](const Dim& a, int64_t b) { return a.known() && a.value != b; };
  if (x[1].known() && w[1].known() &&
      (x[1].value % p.group != 0 || differ(w[1], x[1].value / p.group) ||
       x[1].value % p.offset_group != 0))
    return InvalidInput("{} channels, {} weights, {} groups, {} offset groups", x[1].value,
                        w.ToString(), p.group, p.offset_group);
  if (w[0].known() && w[0].value % p.group != 0)
    return InvalidInput("{} output channels in {} groups", w[0].value, p.group);
  std::vector<Dim> dims = {x[0], w[0]};
  for (int d = 0; d < 2; ++d) {
    Dim size = offset[2 + d];
    if (x[2 + d].known() && p.kernel[d] >= 0) {
      const int64_t room =
          x[2 + d].value + p.pads[d] + p.pads[2 + d] - (p.kernel[d] - 1) * p.dilations[d] - 1;
      if (room < 0) return InvalidInput("the kernel is larger than {}", x.ToString());
      size = Dim(room / p.strides[d] + 1);
      if (differ(offset[2 + d], size.value))
        return InvalidInput("input 2 is {}, expected {} places on axis {}", offset.ToString(),
                            size.value, 2 + d);
    }
    dims.push_back(size);
  }
  if (args.has(3) && args.inputs[3].shape.ranked() && w[0].known() &&
      differ(args.inputs[3].shape[0], w[0].value))
    return InvalidInput("input 3 is {}, expected {} biases", args.inputs[3].ToString(), w[0].value);
  if (p.kernel[0] >= 0 && p.kernel[1] >= 0) {
    const int64_t taps =
        CheckedProduct(std::vector<int64_t>{p.offset_group, p.kernel[0], p.kernel[1], 2})
            .value_or(-1);
    if (differ(offset[1], taps))
      return InvalidInput("input 2 is {}, expected {} channels", offset.ToString(), taps);
    if (args.has(4) && args.inputs[4].shape.ranked() && differ(args.inputs[4].shape[1], taps / 2))
      return InvalidInput("input 4 is {}, expected {} channels", args.inputs[4].ToString(),
                          taps / 2);
  }
  return std::vector<TensorType>{TensorType(args.inputs[0].dtype, Shape(std::move(dims)))};
}

}  // namespace

extern const OpDef kAffineGrid = {
    .name = "AffineGrid", .min_inputs = 2, .max_inputs = 2, .infer = InferAffineGrid};
extern const OpDef kDeformConv = {
    .name = "DeformConv", .min_inputs = 3, .max_inputs = 5, .infer = InferDeformConv};
extern const OpDef kMaxRoiPool = {
    .name = "MaxRoiPool", .min_inputs = 2, .max_inputs = 2, .infer = InferMaxRoiPool, .indices = 1};
extern const OpDef kRoiAlign = {
    .name = "RoiAlign", .min_inputs = 3, .max_inputs = 3, .infer = InferRoiAlign, .indices = 2};

}  // namespace evoq
