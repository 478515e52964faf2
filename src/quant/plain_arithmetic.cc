#include "quant/plain_arithmetic.h"

#include <cmath>
#include <functional>

#include "ops/op.h"
#include "passes/match.h"

namespace evoq {
namespace {

struct Form {
  const char* op;
  const char* plain;
  float (*operand)(float);
};

constexpr Form kForms[] = {
    {"Sub", "Add", [](float x) { return -x; }},
    {"Div", "Mul", [](float x) { return 1 / x; }},
};

// The constant of the plain form, or nothing where one of its elements is no usable number.
std::optional<Tensor> OperandOf(const Form& form, const Tensor& constant) {
  Tensor made = Tensor::Allocate(constant.type());
  const auto values = constant.values<float>();
  for (size_t i = 0; i < values.size(); ++i) {
    const float v = form.operand(values[i]);
    if (v != 0 && !std::isnormal(v)) return std::nullopt;
    made.mutable_data<float>()[i] = v;
  }
  return made;
}

bool Rewrite(Graph& graph, NodeId id, const Form& form, std::vector<PlainArithmetic>& done) {
  if (!IsOp(graph, id, form.op)) return false;
  const Node node = graph.node(id);
  const Tensor* constant = FloatConstant(graph, node.input(1));
  if (constant == nullptr || graph.value(node.input(0)).is_constant()) return false;
  auto operand = OperandOf(form, *constant);
  if (!operand) return false;
  done.push_back({id, node.op, node.input(1)});
  graph.SetOp(id, form.plain);
  graph.SetInput(id, 1, graph.AddConstant(node.name + ".operand", *std::move(operand)));
  return true;
}

}  // namespace

std::vector<PlainArithmetic> MakeArithmeticPlain(Graph& graph) {
  std::vector<PlainArithmetic> done;
  const std::vector<NodeId> nodes = graph.order();
  for (NodeId id : nodes) {
    for (const Form& form : kForms) {
      if (Rewrite(graph, id, form, done)) break;
    }
  }
  return done;
}

void Undo(Graph& graph, const PlainArithmetic& rewritten) {
  graph.SetOp(rewritten.node, rewritten.op);
  graph.SetInput(rewritten.node, 1, rewritten.operand);
}

}  // namespace evoq
