#include "program/node_call.h"

namespace evoq {

NodeCall::NodeCall(const Graph& graph, const Node& node) : call{node.op, node.attrs, {}, {}, {}} {
  for (ValueId id : node.inputs) {
    inputs.push_back(id.valid() ? graph.value(id).type : TensorType());
    constants.push_back(id.valid() && graph.value(id).is_constant() ? &graph.value(id).constant
                                                                    : nullptr);
  }
  for (ValueId id : node.outputs)
    outputs.push_back(id.valid() ? graph.value(id).type : TensorType());
  call.inputs = inputs;
  call.outputs = outputs;
  call.constants = constants;
}

}  // namespace evoq
