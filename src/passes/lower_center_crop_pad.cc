#include "passes/match.h"

namespace evoq {
namespace {

bool Rewrite(Graph& graph, NodeId id) {
  if (!IsOp(graph, id, "CenterCropPad")) return false;
  const Node node = graph.node(id);
  const TensorType &x = graph.value(node.input(0)).type, &y = graph.value(node.outputs[0]).type;
  const auto sizes = IntsOf(graph, node.input(1));
  if (x.quantized() || y.quantized() || !x.shape.ranked() || !sizes) return false;
  const int rank = x.shape.rank();
  std::vector<int64_t> given(static_cast<size_t>(rank));
  for (int i = 0; i < rank; ++i) given[static_cast<size_t>(i)] = i;
  given = node.attrs.Ints("axes", given);
  if (given.size() != sizes->size()) return false;
  std::vector<int64_t> cut, starts, ends, padded, before, behind;
  for (size_t i = 0; i < given.size(); ++i) {
    const auto axis = NormalizeAxis(given[i], rank);
    if (!axis || !x.shape[*axis].known()) return false;
    const int64_t from = x.shape[*axis].value, to = (*sizes)[i];
    if (to < 0) return false;
    if (from > to) {  // an odd rest goes at the end
      cut.push_back(*axis);
      starts.push_back((from - to) / 2);
      ends.push_back(starts.back() + to);
    } else if (from < to) {
      padded.push_back(*axis);
      before.push_back((to - from) / 2);
      behind.push_back(to - from - before.back());
    }
  }
  const auto ints = [&](const char* suffix, const std::vector<int64_t>& values) {
    return AddInts(graph, node.name + suffix, values);
  };
  std::vector<ValueId> inputs{node.input(0)};
  if (!cut.empty()) {
    inputs.insert(inputs.end(), {ints("_starts", starts), ints("_ends", ends), ints("_cut", cut)});
    if (padded.empty()) {
      ReplaceNode(graph, id, "Slice", "", std::move(inputs));
      return true;
    }
    inputs = {graph.Apply("Slice", node.name + "_cropped", std::move(inputs))};
  }
  if (padded.empty()) {
    ReplaceNode(graph, id, "Identity", "", std::move(inputs));
    return true;
  }
  before.insert(before.end(), behind.begin(), behind.end());
  inputs.insert(inputs.end(), {ints("_pads", before), ValueId(), ints("_padded", padded)});
  ReplaceNode(graph, id, "Pad", "", std::move(inputs));
  return true;
}

Result<int> Run(Graph& graph) { return CountChanges(graph, Rewrite); }

}  // namespace

extern const PassDef kLowerCenterCropPad;
const PassDef kLowerCenterCropPad = {
    .name = "lower-center-crop-pad",
    .doc = "CenterCropPad becomes Slice and Pad.",
    .stage = Stage::kLower,
    .level = 0,
    .run = Run,
};

}  // namespace evoq
