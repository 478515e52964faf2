#include "onnx/upgrade.h"

#include <algorithm>

namespace evoq {
namespace {

// Opset 6 broadcast the second value only when told to, with its axes starting at `axis` of the
// first.
Status OldBroadcast(Upgrade& u) {
  const int64_t broadcast = u.attrs().Int("broadcast", 0);
  const bool has_axis = u.attrs().Has("axis");
  const int64_t axis = u.attrs().Int("axis");
  u.attrs().Erase("broadcast");
  u.attrs().Erase("axis");
  if (broadcast == 0 || !has_axis) return {};
  const Shape a = u.InputType(0).shape, b = u.InputType(1).shape;
  if (!a.ranked() || !b.ranked())
    return Unsupported("broadcast at an axis of values of unknown rank");
  const bool within = axis >= -a.rank() && axis <= a.rank();
  const int64_t behind = within ? a.rank() - (axis < 0 ? axis + a.rank() : axis) - b.rank() : -1;
  if (behind < 0)
    return InvalidInput("{} at axis {} of {} does not fit", b.ToString(), axis, a.ToString());
  if (behind == 0) return {};
  std::vector<int64_t> axes;
  for (int64_t i = 0; i < behind; ++i) axes.push_back(b.rank() + i);
  const ValueId list = u.AddConstant("axes", Tensor::FromValues<int64_t>(Shape{behind}, axes));
  u.graph().SetInput(u.id(), 1, u.Apply("Unsqueeze", "unsqueeze", {u.node().input(1), list}));
  return {};
}

// Opset 6 gave PRelu a slope per channel, on axis 1.
Status SlopePerChannel(Upgrade& u) {
  const Shape x = u.InputType(0).shape, slope = u.InputType(1).shape;
  if (!x.ranked() || !slope.ranked())
    return Unsupported("a slope per channel of values of unknown rank");
  if (slope.rank() != 1 || x.rank() <= 2) return {};
  std::vector<int64_t> axes;
  for (int64_t i = 1; i + 1 < x.rank(); ++i) axes.push_back(i);
  const Shape count{static_cast<int64_t>(axes.size())};
  const ValueId list = u.AddConstant("axes", Tensor::FromValues<int64_t>(count, axes));
  u.graph().SetInput(u.id(), 1, u.Apply("Unsqueeze", "unsqueeze", {u.node().input(1), list}));
  return {};
}

Status DropBroadcast(Upgrade& u) {
  u.attrs().Erase("broadcast");
  return {};
}

// A scalar constant of the type of the node's input 0.
Result<ValueId> ScalarLikeInput(Upgrade& u, std::string_view suffix, float value) {
  switch (u.InputType(0).dtype) {
    case DType::kUndefined:
    case DType::kFloat32: return u.AddConstant(suffix, Tensor::Scalar(value));
    case DType::kFloat64: return u.AddConstant(suffix, Tensor::Scalar(static_cast<double>(value)));
    case DType::kInt32: return u.AddConstant(suffix, Tensor::Scalar(static_cast<int32_t>(value)));
    case DType::kInt64: return u.AddConstant(suffix, Tensor::Scalar(static_cast<int64_t>(value)));
    default: return Unsupported("input of type {}", u.InputType(0).ToString());
  }
}

// Clip of opset < 11: bounds are attributes.
Status ClipBounds(Upgrade& u) {
  const char* const names[] = {"min", "max"};
  for (size_t i = 0; i < 2; ++i) {
    if (!u.attrs().Has(names[i])) continue;
    EVOQ_ASSIGN(const ValueId bound, ScalarLikeInput(u, names[i], u.attrs().Float(names[i])));
    u.graph().SetInput(u.id(), i + 1, bound);
    u.attrs().Erase(names[i]);
  }
  return {};
}

// Pad of opset < 11: amounts and value are attributes.
Status PadInputs(Upgrade& u) {
  if (!u.attrs().Has("pads")) return InvalidInput("attribute pads is missing");
  EVOQ_TRY(u.AttrToInput("pads", 1));
  EVOQ_ASSIGN(const ValueId value, ScalarLikeInput(u, "value", u.attrs().Float("value", 0)));
  u.graph().SetInput(u.id(), 2, value);
  u.attrs().Erase("value");
  return {};
}

Status SliceInputs(Upgrade& u) {
  if (!u.attrs().Has("starts") || !u.attrs().Has("ends"))
    return InvalidInput("attributes starts and ends are missing");
  EVOQ_TRY(u.AttrToInput("starts", 1));
  EVOQ_TRY(u.AttrToInput("ends", 2));
  return u.AttrToInput("axes", 3);
}

Status AxesInput(Upgrade& u) { return u.AttrToInput("axes", 1); }

Status SplitInput(Upgrade& u) { return u.AttrToInput("split", 1); }

// Split of opset < 18 without sizes splits into as many equal parts as it has outputs.
Status SplitCount(Upgrade& u) {
  if (!u.HasInput(1)) u.attrs().Set("num_outputs", static_cast<int>(u.node().outputs.size()));
  return {};
}

Status TopKInput(Upgrade& u) {
  if (!u.attrs().Has("k")) return InvalidInput("attribute k is missing");
  u.SetInts(1, "k", {u.attrs().Int("k")});
  u.attrs().Erase("k");
  return {};
}

// Upsample, and Resize of opset 10, map output pixel y to y / scale, and with mode nearest to the
// pixel below it, where an axis shrinks to the one above (the case test_resize_downsample_nearest
// of ONNX 1.5).
void SetOldResizeMode(Upgrade& u, const char* nearest_mode) {
  if (u.attrs().String("mode") == "bilinear") u.attrs().Set("mode", "linear");
  u.attrs().Set("coordinate_transformation_mode", "asymmetric");
  u.attrs().Set("nearest_mode", nearest_mode);
}

Status UpsampleToResize(Upgrade& u) {
  ValueId scales = u.node().input(1);
  if (!scales.valid()) {
    if (!u.attrs().KindIs<std::vector<float>>("scales"))
      return InvalidInput("attribute scales is missing");
    const std::vector<float> values = u.attrs().Floats("scales");
    scales = u.AddConstant("scales", Tensor::FromValues(values));
    u.attrs().Erase("scales");
  }
  u.graph().SetOp(u.id(), "Resize");
  u.graph().SetInput(u.id(), 1, ValueId{});
  u.graph().SetInput(u.id(), 2, scales);
  SetOldResizeMode(u, "floor");
  return {};
}

// Whether some of the scales are below 1, and whether some are above; both where they are computed.
std::pair<bool, bool> ShrinksAndGrows(const Tensor* scales) {
  if (scales == nullptr || scales->dtype() != DType::kFloat32) return {true, true};
  const auto values = scales->values<float>();
  return {std::ranges::any_of(values, [](float s) { return s < 1; }),
          std::ranges::any_of(values, [](float s) { return s > 1; })};
}

// Where some axes shrink and others grow, a Resize of each kind.
Status ResizeInputs(Upgrade& u) {
  ValueId scales = u.node().input(1);
  if (!scales.valid() || u.node().inputs.size() > 2)
    return InvalidInput("inputs must be x and scales in opset 10");
  const bool nearest = u.attrs().String("mode", "nearest") == "nearest";
  const auto [shrinks, grows] = ShrinksAndGrows(u.Constant(1));
  if (nearest && shrinks && grows) {
    const ValueId one = u.AddConstant("one", Tensor::Scalar(1.0f)),
                  down = u.Apply("Min", "down", {scales, one});
    Attrs attrs = Attrs::Of("coordinate_transformation_mode", std::string("asymmetric"));
    attrs.Set("nearest_mode", "ceil");
    u.graph().SetInput(u.id(), 0,
                       u.Apply("Resize", "shrunk", {u.node().input(0), ValueId{}, down}, attrs));
    scales = u.Apply("Max", "up", {scales, one});
  }
  u.graph().SetInput(u.id(), 1, ValueId{});
  u.graph().SetInput(u.id(), 2, scales);
  SetOldResizeMode(u, shrinks && !grows ? "ceil" : "floor");
  return {};
}

// Opset 11 wrote an omitted roi or scales as an empty tensor; later files still do.
Status ResizeEmptyInputs(Upgrade& u) {
  for (size_t i = 1; i < u.node().inputs.size(); ++i) {
    const Tensor* constant = u.Constant(i);
    if (constant != nullptr && constant->elements() == 0) u.graph().SetInput(u.id(), i, ValueId{});
  }
  return {};
}

// In training an element stays with probability 1 - ratio, and is divided by it.
Status TrainingDropout(Upgrade& u) {
  const ValueId x = u.node().input(0), training = u.node().input(2);
  const auto is_float = [&](size_t i) { return u.InputType(i).dtype == DType::kFloat32; };
  if (!x.valid() || !is_float(0) || (u.HasInput(1) && !is_float(1)) ||
      u.InputType(2).dtype != DType::kBool)
    return Unsupported("training of {}", u.InputType(0).ToString());
  const ValueId ratio =
      u.HasInput(1) ? u.node().input(1) : u.AddConstant("ratio", Tensor::Scalar(0.5f));
  Attrs seed;
  if (u.attrs().Has("seed")) seed.Set("seed", static_cast<float>(u.attrs().Int("seed")));
  const ValueId stays =
      u.Apply("GreaterOrEqual", "stays",
              {u.Apply("RandomUniformLike", "random", {x}, std::move(seed)), ratio});
  const ValueId share =
      u.Apply("Sub", "share", {u.AddConstant("one", Tensor::Scalar(1.0f)), ratio});
  const ValueId scaled = u.Apply("Div", "scaled", {x, share});
  const ValueId dropped =
      u.Apply("Where", "dropped", {stays, scaled, u.AddConstant("zero", Tensor::Scalar(0.0f))});
  if (u.OutputUsed(1)) {
    const ValueId mask = u.Apply("Or", "mask", {stays, u.Apply("Not", "inference", {training})});
    u.graph().ReplaceUses(u.node().outputs[1], mask);
  }
  u.ReplaceBy(u.Apply("Where", "", {training, dropped, x}));
  return {};
}

// Inference: the input passes; a mask that someone reads is all true.
Status DropDropout(Upgrade& u) {
  const Tensor* training = u.Constant(2);
  if (u.HasInput(2) && (training == nullptr || training->dtype() != DType::kBool ||
                        training->elements() != 1 || training->data<bool>()[0]))
    return TrainingDropout(u);
  if (u.OutputUsed(1)) {
    const ValueId shape = u.Apply("Shape", "shape", {u.node().input(0)});
    const ValueId mask = u.Apply("ConstantOfShape", "mask", {shape},
                                 Attrs::Of("value", Tensor::FromValues<bool>(Shape{1}, {true})));
    u.graph().ReplaceUses(u.node().outputs[1], mask);
  }
  const ValueId x = u.node().input(0);
  if (u.graph().IsOutput(u.node().outputs[0]) || !x.valid()) {
    u.ReplaceBy(u.Apply("Identity", "identity", {x}));
  } else {
    u.graph().ReplaceUses(u.node().outputs[0], x);
    u.graph().RemoveNode(u.id());
  }
  return {};
}

// Training mode: normalizes by the batch's own statistics, and moves the running ones towards them.
Status TrainingBatchNormalization(Upgrade& u) {
  const TensorType x = u.InputType(0);
  if (!x.shape.ranked() || x.dtype != DType::kFloat32)
    return Unsupported("training_mode=1 of {}", x.ToString());
  std::vector<int64_t> axes;
  for (int d = 0; d < x.shape.rank(); ++d) {
    if (d != 1) axes.push_back(d);
  }
  const ValueId input = u.node().input(0);
  const ValueId list = u.AddConstant("axes", Tensor::FromValues(axes));
  const auto mean_of = [&](const char* name, ValueId v, bool keep) {
    return u.Apply("ReduceMean", name, {v, list}, Attrs::Of("keepdims", keep ? 1 : 0));
  };
  const ValueId mean = mean_of("mean", input, false);
  const ValueId centred = u.Apply("Sub", "centred", {input, mean_of("mean_kept", input, true)});
  const ValueId variance =
      mean_of("variance", u.Apply("Mul", "squares", {centred, centred}), false);
  const float momentum = u.attrs().Float("momentum", 0.9f);
  const auto moved = [&](const char* name, size_t i, ValueId now) {
    const ValueId old_part =
        u.Apply("Mul", std::string(name) + "_old",
                {u.node().input(i), u.AddConstant("momentum", Tensor::Scalar(momentum))});
    const ValueId new_part = u.Apply("Mul", std::string(name) + "_new",
                                     {now, u.AddConstant("rest", Tensor::Scalar(1 - momentum))});
    return u.Apply("Add", name, {old_part, new_part});
  };
  if (u.node().outputs.size() > 3)
    return InvalidInput("{} outputs, expected at most 3", u.node().outputs.size());
  if (u.OutputUsed(1)) u.graph().ReplaceUses(u.node().outputs[1], moved("running_mean", 3, mean));
  if (u.OutputUsed(2))
    u.graph().ReplaceUses(u.node().outputs[2], moved("running_variance", 4, variance));
  Attrs attrs;
  attrs.Set("epsilon", u.attrs().Float("epsilon", 1e-5f));
  u.ReplaceBy(u.Apply("BatchNormalization", "",
                      {input, u.node().input(1), u.node().input(2), mean, variance},
                      std::move(attrs)));
  return {};
}

Status CheckBatchNormalization(Upgrade& u) {
  if (u.version() < 9 && u.attrs().Int("spatial", 1) != 1)
    return Unsupported("spatial=0: statistics per element");
  if (u.attrs().Int("training_mode", 0) != 0) return TrainingBatchNormalization(u);
  for (size_t i = 1; i < u.node().outputs.size(); ++i) {
    if (u.OutputUsed(i)) return Unsupported("output {} (training statistics) is read", i);
  }
  for (const char* old : {"spatial", "is_test", "consumed_inputs", "momentum"})
    u.attrs().Erase(old);
  if (u.node().outputs.size() == 1) return {};
  Attrs attrs;
  attrs.Set("epsilon", u.attrs().Float("epsilon", 1e-5f));
  u.ReplaceBy(u.Apply("BatchNormalization", "", u.node().inputs, std::move(attrs)));
  return {};
}

// Softmax and its relatives of opset < 13 work on the matrix [product of dims before axis, product
// of the rest].
Status FlatSoftmax(Upgrade& u) {
  const int64_t axis = u.attrs().Int("axis", 1);
  const TensorType x = u.InputType(0);
  if (x.shape.ranked() && x.dtype != DType::kUndefined) {
    EVOQ_ASSIGN(const int first, NormalizeAxis(axis, x.shape.rank()));
    const auto& dims = x.shape.dims();
    const bool one_axis = std::all_of(dims.begin() + first + 1, dims.end(),
                                      [](const Dim& d) { return d.value == 1; });
    if (one_axis) {
      u.attrs().Set("axis", first);
      return {};
    }
  }
  Attrs flatten = Attrs::Of("axis", AttrValue(axis));
  const ValueId input = u.node().input(0);
  if (!input.valid()) return InvalidInput("input 0 is missing");
  const ValueId flat = u.Apply("Flatten", "flatten", {input}, std::move(flatten));
  const ValueId y = u.Apply(u.node().op, "flat", {flat}, Attrs::Of("axis", 1));
  const ValueId shape = u.Apply("Shape", "shape", {input});
  // A size of 0 is that, not a copy of the matrix's.
  u.ReplaceBy(u.Apply("Reshape", "reshape", {y, shape}, Attrs::Of("allowzero", int64_t{1})));
  return {};
}

Status ScatterToElements(Upgrade& u) {
  u.graph().SetOp(u.id(), "ScatterElements");
  return {};
}

Status RoiAlignHalfPixel(Upgrade& u) {
  if (!u.attrs().Has("coordinate_transformation_mode"))
    u.attrs().Set("coordinate_transformation_mode", "output_half_pixel");
  return {};
}

Status GridSampleModes(Upgrade& u) {
  const std::string mode = u.attrs().String("mode", "bilinear");
  if (mode == "bilinear") u.attrs().Set("mode", "linear");
  if (mode == "bicubic") u.attrs().Set("mode", "cubic");
  return {};
}

Status DftAxisInput(Upgrade& u) {
  u.graph().SetInput(u.id(), 2, u.AddConstant("axis", Tensor::Scalar(u.attrs().Int("axis", 1))));
  u.attrs().Erase("axis");
  return {};
}

// Opset 18 had one scale and bias per group; now one per channel.
Status GroupNormalizationPerChannel(Upgrade& u) {
  const TensorType x = u.InputType(0);
  const int64_t groups = u.attrs().Int("num_groups");
  const bool known = x.shape.ranked() && x.shape.rank() >= 2 && x.shape[1].known();
  if (groups <= 0 || (x.shape.ranked() && x.shape.rank() < 2) ||
      (known && x.shape[1].value % groups != 0))
    return InvalidInput("{} in {} groups, expected channels that the groups divide",
                        x.shape.ToString(), groups);
  const auto ints = [&](const std::string& what, std::vector<int64_t> v) {
    return u.AddConstant(what, Tensor::FromValues(v));
  };
  ValueId size;  // groups, channels of a group
  if (known) {
    size = ints("group_size", {groups, x.shape[1].value / groups});
  } else {
    const ValueId count = ints("groups", {groups}),
                  channels = u.Apply("Gather", "channels",
                                     {u.Apply("Shape", "x_shape", {u.node().input(0)}),
                                      ints("channel_axis", {1})});
    size = u.Apply("Concat", "group_size", {count, u.Apply("Div", "of_group", {channels, count})},
                   Attrs::Of("axis", int64_t{0}));
  }
  for (size_t i = 1; i <= 2; ++i) {
    const std::string tag = i == 1 ? "scale" : "bias";
    const ValueId column =
        u.Apply("Reshape", tag + "_column", {u.node().input(i), ints(tag + "_shape", {groups, 1})});
    const ValueId wide = u.Apply("Expand", tag + "_wide", {column, size});
    u.graph().SetInput(u.id(), i,
                       u.Apply("Reshape", tag + "_flat", {wide, ints(tag + "_flat_shape", {-1})}));
  }
  return {};
}

// In version order: a node passes each row that is newer than its file.
constexpr UpgradeRule kRules[] = {
    {"Add", "", 7, OldBroadcast},
    {"And", "", 7, OldBroadcast},
    {"Div", "", 7, OldBroadcast},
    {"Equal", "", 7, OldBroadcast},
    {"Greater", "", 7, OldBroadcast},
    {"Less", "", 7, OldBroadcast},
    {"Mul", "", 7, OldBroadcast},
    {"Or", "", 7, OldBroadcast},
    {"Pow", "", 7, OldBroadcast},
    {"Sub", "", 7, OldBroadcast},
    {"Xor", "", 7, OldBroadcast},
    {"Gemm", "", 7, DropBroadcast},
    {"PRelu", "", 7, SlopePerChannel},
    {"BatchNormalization", "", kAnyVersion, CheckBatchNormalization},
    {"Dropout", "", kAnyVersion, DropDropout},
    {"Slice", "", 10, SliceInputs},
    {"TopK", "", 10, TopKInput},
    {"Clip", "", 11, ClipBounds},
    {"Pad", "", 11, PadInputs},
    {"Resize", "", 11, ResizeInputs},
    {"Upsample", "", kAnyVersion, UpsampleToResize},
    {"Resize", "", kAnyVersion, ResizeEmptyInputs},
    {"Scatter", "", kAnyVersion, ScatterToElements},
    {"Softmax", "", 13, FlatSoftmax},
    {"LogSoftmax", "", 13, FlatSoftmax},
    {"Hardmax", "", 13, FlatSoftmax},
    {"Squeeze", "", 13, AxesInput},
    {"Unsqueeze", "", 13, AxesInput},
    {"ReduceSum", "", 13, AxesInput},
    {"Split", "", 13, SplitInput},
    {"RoiAlign", "", 16, RoiAlignHalfPixel},
    {"Split", "", 18, SplitCount},
    {"ReduceL1", "", 18, AxesInput},
    {"ReduceL2", "", 18, AxesInput},
    {"ReduceLogSum", "", 18, AxesInput},
    {"ReduceLogSumExp", "", 18, AxesInput},
    {"ReduceMax", "", 18, AxesInput},
    {"ReduceMean", "", 18, AxesInput},
    {"ReduceMin", "", 18, AxesInput},
    {"ReduceProd", "", 18, AxesInput},
    {"ReduceSumSquare", "", 18, AxesInput},
    {"DFT", "", 20, DftAxisInput},
    {"GridSample", "", 20, GridSampleModes},
    {"GroupNormalization", "", 21, GroupNormalizationPerChannel},
};

}  // namespace

std::span<const UpgradeRule> OnnxRules() { return kRules; }

}  // namespace evoq
