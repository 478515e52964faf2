// NON_MAX_SUPPRESSION_V4 and _V5, and the custom TFLite_Detection_PostProcess, which ends the
// detectors that TensorFlow's Object Detection API converts.
#include <flatbuffers/flexbuffers.h>

#include <cmath>

#include "tflite/translator.h"

namespace evoq::tflite {
namespace {

Attrs Axis(int64_t axis) { return Attrs::Of("axis", axis); }

ValueId Reshaped(Translator& to, ValueId value, const std::vector<int64_t>& shape) {
  return to.Apply("Reshape", {value, to.Int64Constant(shape)});
}

ValueId Number(Translator& to, int64_t value) { return to.Constant(Tensor::Scalar(value)); }

// The greatest number below: ONNX compares with > where the operator here does with >=.
float Below(float value) { return std::nextafter(value, -INFINITY); }

// Column of rows (batch, class, box).
ValueId Column(Translator& to, ValueId rows, int64_t column) {
  return to.Apply("Gather", {rows, Number(to, column)}, Axis(1));
}

// Zeros behind what is there, up to `size` elements along axis `axis` of `rank` axes.
ValueId Padded(Translator& to, ValueId value, ValueId size, int64_t axis, int64_t rank) {
  Attrs attrs = Attrs::Of("start", axis);
  attrs.Set("end", axis + 1);
  const ValueId more = to.Apply("Sub", {size, to.Apply("Shape", {value}, std::move(attrs))});
  const std::vector<int64_t> before(static_cast<size_t>(rank + axis)),
      after(static_cast<size_t>(rank - axis - 1));
  const ValueId pads =
      to.Apply("Concat", {to.Int64Constant(before), more, to.Int64Constant(after)}, Axis(0));
  return to.Apply("Pad", {value, pads});
}

ValueId CastAs(Translator& to, ValueId value, size_t output) {
  return to.Apply("Cast", {value}, Attrs::Of("to", static_cast<int>(to.output(output).dtype)));
}

// Of boxes [n, 4] and scores [n]: the indices of those that stay, with zeros up to the greatest
// number of them, in V5 their scores, and how many they are.
Status Suppression(Translator& to, bool scored) {
  EVOQ_TRY(to.CheckRank(0, 2));
  EVOQ_TRY(to.CheckRank(1, 1));
  if (scored) {
    const auto sigma = to.is_constant(5) ? to.FloatOf(5) : std::nullopt;
    if (!sigma || *sigma != 0)
      return Unsupported("soft suppression, by a sigma that is not the constant 0");
  }
  const ValueId most = Reshaped(to, to.Int64s(2), {1}), scores = to.Real(1);
  const auto overlap = to.is_constant(3) ? to.FloatOf(3) : std::nullopt;
  const ValueId rows =
      to.Apply("NonMaxSuppression",
               {to.Apply("Unsqueeze", {to.Real(0), to.Int64Constant({0})}),
                to.Apply("Unsqueeze", {scores, to.Int64Constant({0, 1})}), most,
                Reshaped(to, overlap ? to.FloatConstant(Below(*overlap)) : to.Real(3), {1}),
                Reshaped(to, to.Real(4), {1})});
  const ValueId kept = Column(to, rows, 2);
  const auto whole = [&](ValueId value) {
    return to.Apply("Reshape", {Padded(to, value, most, 0, 1), most});
  };
  EVOQ_TRY(to.Set(0, CastAs(to, whole(kept), 0)));
  if (scored) EVOQ_TRY(to.Set(1, whole(to.Apply("Gather", {scores, kept}, Axis(0)))));
  const size_t last = scored ? 2 : 1;
  const ValueId count = Reshaped(to, to.Apply("Shape", {kept}), {});
  return to.Set(last, CastAs(to, count, last));
}
Status SuppressionV4(Translator& to) { return Suppression(to, /*scored=*/false); }
Status SuppressionV5(Translator& to) { return Suppression(to, /*scored=*/true); }

// ---- detections

struct Detection {
  int64_t most = 0, classes = 0, per_class = 100;
  bool regular = false;  // suppression within each class, else of the best class of each box
  float score = 0, overlap = 0;
  float scales[4] = {};  // y, x, height, width
};

Result<Detection> DetectionOf(const Translator& to) {
  const auto bytes = to.custom_options();
  std::vector<uint8_t> tracker;
  if (bytes.empty() || !flexbuffers::VerifyBuffer(bytes.data(), bytes.size(), &tracker))
    return InvalidInput("its options are no FlexBuffer");
  const auto root = flexbuffers::GetRoot(bytes.data(), bytes.size());
  if (!root.IsMap()) return InvalidInput("its options are no map");
  const auto map = root.AsMap();
  Detection d;
  d.most = map["max_detections"].AsInt64();
  d.classes = map["num_classes"].AsInt64();
  if (!map["detections_per_class"].IsNull()) d.per_class = map["detections_per_class"].AsInt64();
  d.regular = map["use_regular_nms"].AsBool();
  d.score = map["nms_score_threshold"].AsFloat();
  d.overlap = map["nms_iou_threshold"].AsFloat();
  const char* const names[] = {"y_scale", "x_scale", "h_scale", "w_scale"};
  for (size_t i = 0; i < 4; ++i) {
    d.scales[i] = map[names[i]].AsFloat();
    if (!(d.scales[i] > 0)) return InvalidInput("{} {}, expected above 0", names[i], d.scales[i]);
  }
  if (d.most < 1 || d.classes < 1 || d.per_class < 1 || d.most > INT32_MAX)
    return InvalidInput("{} detections, {} of each of {} classes, expected at least 1", d.most,
                        d.per_class, d.classes);
  const int64_t named = map["max_classes_per_detection"].AsInt64();
  if (!d.regular && named > 1) return Unsupported("{} classes of each detection", named);
  return d;
}

ValueId Columns(Translator& to, ValueId value, int64_t first, int64_t end) {
  return to.Apply(
      "Slice", {value, to.Int64Constant({first}), to.Int64Constant({end}), to.Int64Constant({-1})});
}

// center = code / scale * anchor size + anchor center;  half = exp(code / scale) * anchor size / 2
ValueId Boxes(Translator& to, const Detection& d) {
  const auto pair = [&](size_t i) {
    return to.Constant(Tensor::FromValues(std::vector<float>{d.scales[i], d.scales[i + 1]}));
  };
  const ValueId codes = to.Real(0), anchors = to.Real(2), sizes = Columns(to, anchors, 2, 4);
  const ValueId shifts = to.Apply("Div", {Columns(to, codes, 0, 2), pair(0)});
  const ValueId centers =
      to.Apply("Add", {to.Apply("Mul", {shifts, sizes}), Columns(to, anchors, 0, 2)});
  const ValueId growth = to.Apply("Exp", {to.Apply("Div", {Columns(to, codes, 2, 4), pair(2)})});
  const ValueId halves =
      to.Apply("Mul", {to.Apply("Mul", {growth, to.FloatConstant(0.5f)}), sizes});
  return to.Apply(
      "Concat", {to.Apply("Sub", {centers, halves}), to.Apply("Add", {centers, halves})}, Axis(-1));
}

struct Found {
  ValueId boxes, classes, scores;  // numbers of boxes and classes, [n]
};

ValueId Suppressed(Translator& to, const Detection& d, ValueId boxes, ValueId scores,
                   int64_t most) {
  return to.Apply("NonMaxSuppression", {boxes, scores, to.Int64Constant({most}),
                                        Reshaped(to, to.FloatConstant(d.overlap), {1}),
                                        Reshaped(to, to.FloatConstant(Below(d.score)), {1})});
}

// Each box stands for its best class.
Found BestOfEach(Translator& to, const Detection& d, ValueId boxes, ValueId scores) {
  const ValueId best = to.Apply("ReduceMax", {scores, to.Int64Constant({2})},
                                Attrs::Of("keepdims", 0));  // [1, boxes]
  Attrs attrs = Axis(2);
  attrs.Set("keepdims", 0);
  const ValueId classes = to.Apply("ArgMax", {scores}, std::move(attrs));
  const ValueId rows =
      Suppressed(to, d, boxes, to.Apply("Unsqueeze", {best, to.Int64Constant({1})}), d.most);
  const ValueId kept = Column(to, rows, 2);
  const auto pick = [&](ValueId from) {
    return to.Apply("Gather", {Reshaped(to, from, {-1}), kept}, Axis(0));
  };
  return {kept, pick(classes), pick(best)};
}

// The best of all that stay in their class.
Found BestOfAll(Translator& to, const Detection& d, ValueId boxes, ValueId scores) {
  const ValueId by_class = to.Transposed(scores, {0, 2, 1});
  const ValueId rows = Suppressed(to, d, boxes, by_class, d.per_class);
  const ValueId found = to.Apply("GatherND", {by_class, rows});
  const ValueId count = to.Apply("Min", {to.Apply("Shape", {found}), to.Int64Constant({d.most})});
  const std::vector<ValueId> top = to.ApplyMany("TopK", {found, count}, 2);
  const auto pick = [&](int64_t column) {
    return to.Apply("Gather", {Column(to, rows, column), top[1]}, Axis(0));
  };
  return {pick(2), pick(1), top[0]};
}

// Outputs: boxes [1, most, 4], classes and scores [1, most] with zeros behind what was found, and
// how many those are [1].
Status DetectionPostProcess(Translator& to) {
  EVOQ_ASSIGN(const Detection d, DetectionOf(to));
  EVOQ_TRY(to.CheckRank(0, 3));
  EVOQ_TRY(to.CheckRank(1, 3));
  EVOQ_TRY(to.CheckRank(2, 2));
  const int64_t columns = to.input(1).sizes[2];
  if (to.input(0).sizes[0] != 1 || columns < d.classes)
    return InvalidInput("a batch of {} and {} scores of each box, expected 1 and at least {}",
                        to.input(0).sizes[0], columns, d.classes);
  for (size_t i = 0; i < 4; ++i) {
    if (to.output(i).dtype != DType::kFloat32 || to.output(i).quant)
      return InvalidInput("output {} is {}, expected float32", to.output(i).name,
                          to.output(i).type().ToString());
  }
  const ValueId boxes = Boxes(to, d);
  const ValueId scores = Columns(to, to.Real(1), columns - d.classes, columns);
  const Found found =
      d.regular ? BestOfAll(to, d, boxes, scores) : BestOfEach(to, d, boxes, scores);
  const ValueId most = to.Int64Constant({d.most});
  const ValueId picked = to.Apply("Gather", {boxes, found.boxes}, Axis(1));
  EVOQ_TRY(to.Set(0, Reshaped(to, Padded(to, picked, most, 1, 3), {1, d.most, 4})));
  const ValueId classes = CastAs(to, found.classes, 1);
  EVOQ_TRY(to.Set(1, Reshaped(to, Padded(to, classes, most, 0, 1), {1, d.most})));
  EVOQ_TRY(to.Set(2, Reshaped(to, Padded(to, found.scores, most, 0, 1), {1, d.most})));
  return to.Set(3, CastAs(to, to.Apply("Shape", {found.boxes}), 3));
}

}  // namespace

extern const OpRow kNonMaxSuppressionV4 = {.name = "NON_MAX_SUPPRESSION_V4",
                                           .number = 120,
                                           .least_inputs = 5,
                                           .most_inputs = 5,
                                           .outputs = 2,
                                           .translate = SuppressionV4};
extern const OpRow kNonMaxSuppressionV5 = {.name = "NON_MAX_SUPPRESSION_V5",
                                           .number = 121,
                                           .least_inputs = 6,
                                           .most_inputs = 6,
                                           .outputs = 3,
                                           .translate = SuppressionV5};
extern const OpRow kDetectionPostProcess = {.name = "TFLite_Detection_PostProcess",
                                            .number = kCustom,
                                            .least_inputs = 3,
                                            .most_inputs = 3,
                                            .outputs = 4,
                                            .translate = DetectionPostProcess};

}  // namespace evoq::tflite
