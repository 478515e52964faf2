#include "runtime/shared_memory.h"

#include "program/node_call.h"

namespace evoq {
namespace {

// The input of the program whose memory this is, or -1: the input itself or a view of it.
int32_t InputAt(const Program& program, ValueId id) {
  if (!id.valid()) return -1;
  const Placement& place = program.placements[id.index];
  return place.kind == Placement::Kind::kInput ? static_cast<int32_t>(place.offset) : -1;
}

}  // namespace

std::vector<int32_t> SharedInputs(const Program& program) {
  const Graph& graph = *program.graph;
  std::vector<size_t> last_reader(graph.inputs().size(), 0);
  for (size_t s = 0; s < program.steps.size(); ++s) {
    for (ValueId id : graph.node(program.steps[s].node).inputs) {
      if (const int32_t input = InputAt(program, id); input >= 0) last_reader[input] = s;
    }
  }
  std::vector<int32_t> shared(graph.outputs().size(), -1);
  for (size_t s = 0; s < program.steps.size(); ++s) {
    const Step& step = program.steps[s];
    const Node& node = graph.node(step.node);
    if (node.outputs.empty() || !node.outputs[0].valid()) continue;
    const Placement& place = program.placements[node.outputs[0].index];
    if (place.kind != Placement::Kind::kOutput) continue;
    const auto bytes = graph.value(graph.outputs()[place.offset]).type.bytes();
    const auto memory_of = [&](ValueId id) { return InputAt(program, id); };
    const int input = OverwritableInput(graph, node, step.kernel, memory_of, [&](ValueId id) {
      const int32_t at = InputAt(program, id);
      return last_reader[at] == s && graph.value(graph.inputs()[at]).type.bytes() == bytes;
    });
    if (input >= 0) shared[place.offset] = InputAt(program, node.inputs[input]);
  }
  return shared;
}

}  // namespace evoq
