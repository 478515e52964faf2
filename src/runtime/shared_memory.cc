#include "runtime/shared_memory.h"

#include "kernels/kernel.h"

namespace evoq {
namespace {

// The input of the program whose memory this is, or -1: the input itself or a view of it.
int32_t InputAt(const Program& program, ValueId id) {
  if (!id.valid()) return -1;
  const Placement& place = program.placements[id.index];
  return place.kind == Placement::Kind::kInput ? static_cast<int32_t>(place.offset) : -1;
}

// The inputs of the step that its output 0 may overwrite.
uint32_t Overwritable(const Program& program, const Step& step) {
  if (step.kernel == nullptr || step.kernel->in_place == nullptr) return 0;
  const Graph& graph = *program.graph;
  const Node& node = graph.node(step.node);
  const auto types_of = [&](const std::vector<ValueId>& ids) {
    std::vector<TensorType> types;
    for (ValueId id : ids) types.push_back(id.valid() ? graph.value(id).type : TensorType());
    return types;
  };
  const std::vector<TensorType> inputs = types_of(node.inputs), outputs = types_of(node.outputs);
  std::vector<const Tensor*> constants;
  for (ValueId id : node.inputs)
    constants.push_back(id.valid() && graph.value(id).is_constant() ? &graph.value(id).constant
                                                                    : nullptr);
  return step.kernel->in_place(KernelCall{node.op, node.attrs, inputs, outputs, constants});
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
    const uint32_t mask = Overwritable(program, step);
    for (size_t i = 0; i < node.inputs.size() && i < 32; ++i) {
      const int32_t input = InputAt(program, node.inputs[i]);
      if ((mask >> i & 1) == 0 || input < 0 || last_reader[input] != s) continue;
      // It may come in again, as an input that must not change.
      bool only = graph.value(graph.inputs()[input]).type.bytes() ==
                  graph.value(graph.outputs()[place.offset]).type.bytes();
      for (size_t k = 0; k < node.inputs.size(); ++k)
        only &= InputAt(program, node.inputs[k]) != input || (k < 32 && (mask >> k & 1) != 0);
      if (only) shared[place.offset] = input;
    }
  }
  return shared;
}

}  // namespace evoq
