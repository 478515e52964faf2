#include "llm/gate_function.h"

namespace evoq {
namespace {

struct Row {
  std::string_view name;
  GateFunction function;
};
constexpr Row kNames[] = {
    {.name = "silu", .function = GateFunction::kSilu},
    {.name = "swish", .function = GateFunction::kSilu},
    {.name = "gelu", .function = GateFunction::kGelu},
    {.name = "gelu_python", .function = GateFunction::kGelu},
    {.name = "gelu_new", .function = GateFunction::kGeluTanh},
    {.name = "gelu_fast", .function = GateFunction::kGeluTanh},
    {.name = "gelu_pytorch_tanh", .function = GateFunction::kGeluTanh},
    {.name = "relu", .function = GateFunction::kRelu},
    {.name = "relu2", .function = GateFunction::kReluSquared},
};

}  // namespace

Result<GateFunction> FindGateFunction(std::string_view name) {
  std::string names;
  for (const Row& row : kNames) {
    if (row.name == name) return row.function;
    names += (names.empty() ? "" : ", ") + std::string(row.name);
  }
  return Unsupported("hidden_act is \"{}\", expected one of {}", name.substr(0, 60), names);
}

ValueId AddFunction(Graph& graph, GateFunction function, const std::string& name, ValueId x) {
  if (function == GateFunction::kSilu) {
    const ValueId y = graph.Apply("Silu", name, {x});
    graph.SetOp(graph.value(y).producer, "Silu", "evoq");
    return y;
  }
  if (function == GateFunction::kRelu) return graph.Apply("Relu", name, {x});
  if (function == GateFunction::kReluSquared) {
    const ValueId y = graph.Apply("Relu", name + ".root", {x});
    return graph.Apply("Mul", name, {y, y});
  }
  return graph.Apply(
      "Gelu", name, {x},
      Attrs::Of("approximate", std::string(function == GateFunction::kGeluTanh ? "tanh" : "none")));
}

}  // namespace evoq
