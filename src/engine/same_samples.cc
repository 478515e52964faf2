#include "engine/same_samples.h"

#include "program/node_call.h"
#include "runtime/bind_step.h"

namespace evoq {
namespace {

bool SameConstant(const Tensor* a, const Tensor* b) {
  if (a == nullptr || b == nullptr) return a == b;
  return a->raw() == b->raw() || (a->layout() == b->layout() && BitEqual(*a, *b));
}

bool SameStep(const Program& a, const Program& b, size_t i) {
  const Node &one = a.graph->node(a.steps[i].node), &other = b.graph->node(b.steps[i].node);
  if (one.name != other.name || one.op != other.op || one.inputs.size() != other.inputs.size() ||
      one.attrs.ToString() != other.attrs.ToString())
    return false;
  for (size_t k = 0; k < one.inputs.size(); ++k) {
    if (!SameConstant(a.graph->ConstantInput(one, k), b.graph->ConstantInput(other, k)))
      return false;
  }
  return true;
}

// Whether the ways to compute the step may give other bits.
bool HasWays(const Program& program, const Step& step, const BindOptions& options) {
  if (step.kernel == nullptr || step.kernel->variants == nullptr ||
      step.kernel->precision == Precision::kInt8)
    return false;
  const NodeCall args(*program.graph, program.graph->node(step.node));
  return !step.kernel->variants(args.call, options).empty();
}

}  // namespace

bool SameStepsAtSizes(const Program& a, const Program& b) {
  if (a.steps.size() != b.steps.size()) return false;
  for (size_t i = 0; i < a.steps.size(); ++i) {
    if (!SameStep(a, b, i)) return false;
  }
  return true;
}

bool SameBits(const Program& program, const Executor& executor, Isa isa, DerivedWeights& derived) {
  const Program& other = executor.program();
  if (!SameStepsAtSizes(program, other)) return false;
  const BindOptions options{isa, executor.repeats() > 1 ? 1 : executor.threads(), {}};
  const auto failure = std::make_shared<Failure>();
  const DerivedScope share(&derived);
  for (size_t i = 0; i < program.steps.size(); ++i) {
    const Step& step = program.steps[i];
    if (step.decision.kernel != other.steps[i].decision.kernel) return false;
    if (!HasWays(program, step, options)) continue;
    const auto bound = BindStep(program, step, options, failure);
    if (!bound || bound->plan.method != executor.plans()[i].method) return false;
  }
  return true;
}

}  // namespace evoq
