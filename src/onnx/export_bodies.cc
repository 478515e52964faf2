// Subgraphs on their way into a file: there, a subgraph reads outer values by name.
#include "onnx/export.h"
#include "ops/control.h"
#include "reference/reference.h"

namespace evoq {
namespace {

// `wanted`, or it with a number, so that it is in no graph of the file.
std::string FreshName(const std::string& wanted, std::set<std::string>& names) {
  std::string name = wanted;
  for (int i = 1; !names.insert(name).second; ++i) name = fmt::format("{}_{}", wanted, i);
  return name;
}

// Each output gets a node of its own: no input, constant or other output is one.
Status SeparateOutputs(Graph& body) {
  std::set<ValueId> seen;
  for (size_t i = 0; i < body.outputs().size(); ++i) {
    const ValueId out = body.outputs()[i];
    if (body.value(out).producer.valid() && seen.insert(out).second) continue;
    body.ReplaceOutput(
        i, body.Apply("Identity", "copy_" + body.value(out).name, {out}, {}, body.value(out).type));
  }
  return body.Sort();
}

}  // namespace

size_t OwnInputsOf(const Node& node) {
  return node.inputs.size() - (node.bodies.empty() ? 0 : CapturedInputs(node).value_or(0));
}

Result<Graph> BodyForExport(const Graph& graph, const Node& node, size_t i,
                            const std::vector<std::string>& captured,
                            std::set<std::string>& names) {
  Graph body = node.bodies[i]->Compacted();
  std::vector<TensorType> inputs;
  for (ValueId in : node.inputs)
    inputs.push_back(in.valid() ? graph.value(in).type.Dequantized() : TensorType());
  EVOQ_ASSIGN(const std::vector<TensorType> types, BodyInputTypes(node, i, inputs));
  for (size_t k = 0; k < types.size(); ++k) body.SetType(body.inputs()[k], types[k]);
  EVOQ_TRY(SeparateOutputs(body));
  // A branch that is never taken may be impossible: it is written with the types that it has.
  if (Graph inferred = body; InferTypes(inferred)) body = std::move(inferred);
  for (int v = 0; v < body.value_count(); ++v)
    body.Rename(ValueId{v}, FreshName(body.value(ValueId{v}).name, names));
  for (NodeId id : body.order()) body.RenameNode(id, FreshName(body.node(id).name, names));
  const size_t first = body.inputs().size() - captured.size();
  for (size_t k = 0; k < captured.size(); ++k) {
    const ValueId in = body.inputs()[first + k];
    if (const ValueId same = body.FindValue(captured[k]); same.valid()) {
      body.ReplaceUses(in, same);
    } else {
      body.Rename(in, captured[k]);
    }
  }
  return body;
}

}  // namespace evoq
