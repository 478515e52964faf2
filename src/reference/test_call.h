// For tests: what calls of operators, written as text, give.
#pragma once

#include <string>
#include <vector>

#include "ops/test_call.h"
#include "reference/reference.h"

namespace evoq {

// The outputs as constants (at most 8 elements have their values), or the message. Inputs without
// values are zeros.
inline std::string EvalCall(const WrittenCall& call) {
  const Graph graph = GraphOf(call, true);
  if (graph.order().empty()) return "";
  const Node& node = graph.node(graph.order()[0]);
  std::vector<Tensor> inputs;
  for (ValueId id : node.inputs) inputs.push_back(id.valid() ? graph.value(id).constant : Tensor());
  const std::vector<TensorType> types(node.outputs.size());
  auto outputs = EvaluateNode(node, inputs, types);
  if (!outputs) return MessageOf(outputs.error());
  std::string text;
  for (Tensor& output : *outputs) {
    Graph one;
    one.MarkOutput(one.AddConstant("y", std::move(output)));
    const std::string line = Print(one);
    text += (text.empty() ? "" : ", ") + line.substr(10, line.find('\n') - 10);
  }
  return text;
}

inline void CheckEvaluated(const std::vector<CallRow>& rows) { CheckCalls(rows, EvalCall); }

}  // namespace evoq
