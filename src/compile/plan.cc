#include "compile/plan.h"

namespace evoq {

Plan& PlanFor(Model& model, const Program& program) {
  const Graph& graph = *program.graph;
  Plan plan;
  for (const ValueId id : graph.inputs())
    plan.shapes[graph.value(id).name] = graph.value(id).type.shape.sizes();
  for (Plan& known : model.plans) {
    if (known.shapes == plan.shapes) return known;
  }
  for (const Step& step : program.steps) plan.decisions[graph.node(step.node).name] = step.decision;
  model.plans.push_back(std::move(plan));
  return model.plans.back();
}

}  // namespace evoq
