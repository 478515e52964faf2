#include "passes/match.h"

namespace evoq {
namespace {

// The least and the largest number of a type whose numbers float32 has all of.
std::optional<std::pair<float, float>> RangeOf(DType dtype) {
  switch (dtype) {
    case DType::kUint8: return std::pair{0.0f, 255.0f};
    case DType::kInt8: return std::pair{-128.0f, 127.0f};
    case DType::kUint16: return std::pair{0.0f, 65535.0f};
    case DType::kInt16: return std::pair{-32768.0f, 32767.0f};
    default: return std::nullopt;
  }
}

bool Rewrite(Graph& graph, NodeId id) {
  if (!IsOp(graph, id, "Resize")) return false;
  const Node resize = graph.node(id);
  const TensorType& type = graph.value(resize.input(0)).type;
  const auto range = RangeOf(type.dtype);
  const std::string mode = resize.attrs.String("mode", "nearest");
  if (!range || type.quantized() || mode == "nearest" ||
      resize.attrs.String("coordinate_transformation_mode", "half_pixel") == "tf_crop_and_resize")
    return false;
  const auto cast = [](DType to) { return Attrs::Of("to", static_cast<int64_t>(to)); };
  const DType dtype = type.dtype;
  graph.RemoveNode(id);
  std::vector<ValueId> inputs = resize.inputs;
  inputs[0] = graph.Apply("Cast", resize.name + "_real", {inputs[0]}, cast(DType::kFloat32));
  ValueId y = graph.Apply("Resize", resize.name, std::move(inputs), resize.attrs);
  if (mode == "cubic" || resize.attrs.Int("antialias") != 0) {  // else a Cast does it
    y = graph.Apply("Round", resize.name + "_round", {y});
    const ValueId low = AddFloat(graph, resize.name + "_low", range->first),
                  high = AddFloat(graph, resize.name + "_high", range->second);
    y = graph.Apply("Clip", resize.name + "_clip", {y, low, high});
  }
  const ValueId whole = graph.Apply("Cast", resize.name + "_whole", {y}, cast(dtype));
  graph.SetOutput(graph.value(whole).producer, 0, resize.outputs[0]);
  return true;
}

Result<int> Run(Graph& graph) { return CountChanges(graph, Rewrite); }

}  // namespace

extern const PassDef kLowerResize;
const PassDef kLowerResize = {
    .name = "lower-resize",
    .doc = "A linear or cubic Resize of 8- or 16-bit integers is one of float32 between Casts.",
    .stage = Stage::kLower,
    .level = 0,
    .run = Run,
};

}  // namespace evoq
