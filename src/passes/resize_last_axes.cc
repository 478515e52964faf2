// A Resize of [N, H, W, C] is one of [N, C, H, W] between Transposes: the axes on which kernels
// resize. channels-last takes the Transposes away again.
#include <algorithm>

#include "passes/match.h"

namespace evoq {
namespace {

// What a Resize has for each axis.
struct Lists {
  std::optional<std::vector<int64_t>> axes;  // the attribute
  const Tensor* scales = nullptr;            // float32
  std::optional<std::vector<int64_t>> sizes;
};

// Whether each element keeps its place on the axis, for certain.
bool Stays(const Lists& lists, const Shape& x, int axis) {
  if (lists.axes)
    return std::ranges::none_of(*lists.axes, [&](int64_t a) {
      const auto normal = NormalizeAxis(a, x.rank());
      return !normal || *normal == axis;
    });
  const auto i = static_cast<size_t>(axis);
  if (lists.scales != nullptr) return lists.scales->data<float>()[i] == 1.0f;
  return lists.sizes && x[axis].known() && x[axis].value == (*lists.sizes)[i];
}

template <typename T>
std::vector<T> Ordered(std::span<const T> list, const Permutation& perm) {
  std::vector<T> ordered;
  for (int64_t axis : perm) ordered.push_back(list[static_cast<size_t>(axis)]);
  return ordered;
}

std::optional<Lists> ListsOf(const Graph& graph, const Node& node, size_t rank) {
  Lists lists;
  if (node.attrs.Has("axes")) {
    lists.axes = node.attrs.Ints("axes", {});
    return lists;
  }
  if (node.input(2).valid()) lists.scales = FloatConstant(graph, node.input(2));
  if (node.input(3).valid()) lists.sizes = IntsOf(graph, node.input(3));
  if (lists.scales != nullptr && lists.scales->elements() == 0) lists.scales = nullptr;
  const bool scaled =
                 lists.scales != nullptr && lists.scales->elements() == static_cast<int64_t>(rank),
             sized = lists.sizes && lists.sizes->size() == rank;
  if (scaled == sized) return std::nullopt;
  return lists;
}

bool Rewrite(Graph& graph, NodeId id) {
  if (!IsOp(graph, id, "Resize")) return false;
  const Node node = graph.node(id);
  const TensorType x = graph.value(node.input(0)).type, y = graph.value(node.outputs[0]).type;
  const int rank = x.shape.ranked() ? x.shape.rank() : 0;
  if (rank < 3 || node.attrs.Int("channels_last") != 0 ||
      (x.quantized() && !x.quant->per_tensor()) || (y.quantized() && !y.quant->per_tensor()) ||
      node.attrs.String("coordinate_transformation_mode", "half_pixel") == "tf_crop_and_resize" ||
      node.attrs.String("keep_aspect_ratio_policy", "stretch") != "stretch")
    return false;
  const auto lists = ListsOf(graph, node, static_cast<size_t>(rank));
  if (!lists || Stays(*lists, x.shape, 1) || !Stays(*lists, x.shape, 0) ||
      !Stays(*lists, x.shape, rank - 1))
    return false;
  const Permutation last = ChannelsLast(rank), first = Inverse(last);
  std::vector<ValueId> inputs{ValueId(), ValueId()};  // a roi has no meaning here
  Attrs attrs = node.attrs, to_first, to_last;
  if (lists->axes) {
    std::vector<int64_t> axes;
    for (int64_t a : *lists->axes) axes.push_back(last[static_cast<size_t>(a < 0 ? a + rank : a)]);
    attrs.Set("axes", axes);
    for (size_t i = 2; i < node.inputs.size(); ++i) inputs.push_back(node.inputs[i]);
  } else if (lists->scales != nullptr) {
    const std::span<const float> scales(lists->scales->data<float>(), static_cast<size_t>(rank));
    inputs.push_back(graph.AddConstant(node.name + "_scales",
                                       Tensor::FromValues(Shape{rank}, Ordered(scales, first))));
  } else {
    const std::span<const int64_t> sizes(*lists->sizes);
    inputs.push_back(ValueId());
    inputs.push_back(AddInts(graph, node.name + "_sizes", Ordered(sizes, first)));
  }
  to_first.Set("perm", first);
  to_last.Set("perm", last);
  graph.RemoveNode(id);
  inputs[0] = graph.Apply("Transpose", node.name + "_planes", {node.input(0)}, to_first,
                          Permuted(x, first));
  TensorType resized = y;
  resized.shape = Shape::UnknownRank();
  const ValueId planes =
      graph.Apply("Resize", node.name, std::move(inputs), std::move(attrs), resized);
  const ValueId back = graph.Apply("Transpose", node.name + "_pixels", {planes}, to_last, resized);
  graph.SetOutput(graph.value(back).producer, 0, node.outputs[0]);
  return true;
}

Result<int> Run(Graph& graph) { return CountChanges(graph, Rewrite); }

}  // namespace

extern const PassDef kResizeLastAxes;
const PassDef kResizeLastAxes = {
    .name = "resize-last-axes",
    .doc = "A Resize of [N, H, W, C] becomes one of [N, C, H, W] between Transposes.",
    .stage = Stage::kLower,
    .level = 0,
    .run = Run,
};

}  // namespace evoq
