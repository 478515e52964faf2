#include "runtime/run_watch.h"

#include <algorithm>
#include <cmath>

#include "kernels/activation.h"
#include "ops/op.h"

namespace evoq {
namespace {

// What a look at one value costs, and how fast a program gets on, to the accuracy that "a percent
// of the time" needs: a slow guess of the first, a fast one of the others.
constexpr double kLookNs = 120, kMacsPerNs = 100, kBytesPerNs = 40, kStepNs = 200;
constexpr double kShare = 0.005;
constexpr double kMostRuns = 64;

bool Moves(const Graph& graph, const Node& node) {
  const OpDef* const op = FindOp(node);
  return op != nullptr && op->quant == QuantTrait::kMove && !node.inputs.empty() &&
         node.inputs[0].valid() && graph.value(node.inputs[0]).type.quantized();
}

// The ends that the step's own activation gives its results.
FusedEnds EndsOf(const Node& node) {
  FusedEnds ends;
  const auto activation = ActivationFromAttrs(node.attrs);
  if (!activation) return ends;
  if (activation->kind == ActivationKind::kRelu) ends.low = 0;
  if (activation->kind == ActivationKind::kClip) ends = {activation->alpha, activation->beta};
  return ends;
}

}  // namespace

bool SameStepsAndPlaces(const Program& a, const Program& b) {
  const auto same_step = [](const Step& x, const Step& y) {
    return x.node == y.node && x.backend == y.backend && x.writes == y.writes;
  };
  const auto same_place = [](const Placement& x, const Placement& y) {
    return x.kind == y.kind && x.offset == y.offset && x.space == y.space;
  };
  return std::ranges::equal(a.steps, b.steps, same_step) &&
         std::ranges::equal(a.placements, b.placements, same_place) &&
         a.arenas.size() == b.arenas.size() && a.arenas[0].bytes == b.arenas[0].bytes;
}

RunWatch::RunWatch(std::span<const std::shared_ptr<const Program>> sets, Adapter& adapter)
    : sets_(sets.size()) {
  const Program& program = *sets[0];
  double run_ns = 0;
  std::vector<size_t> tensors;
  for (size_t s = 0; s < program.steps.size(); ++s) {
    const Step& step = program.steps[s];
    run_ns += kStepNs + std::max(static_cast<double>(step.macs) / kMacsPerNs,
                                 static_cast<double>(step.bytes) / kBytesPerNs);
    const Node& node = program.graph->node(step.node);
    if (Moves(*program.graph, node) || node.outputs.empty() || !node.outputs[0].valid()) continue;
    const ValueId output = node.outputs[0];
    std::vector<TensorType> types;
    for (const auto& set : sets) types.push_back(set->graph->value(output).type);
    if (!RangeWatch::Tells(types)) continue;
    Value& value = values_.emplace_back();
    value.step = s;
    for (size_t set = 0; set < sets.size(); ++set)
      value.by_set.emplace_back(types, set, EndsOf(node));
    tensors.push_back(adapter.Register(program.graph->value(output).name));
  }
  outside_.resize(values_.size() * sets_);
  for (size_t i = 0; i < values_.size(); ++i) counts_.push_back({tensors[i], 0, Outside(i)});
  const double look_ns = kLookNs * static_cast<double>(values_.size());
  every_ = static_cast<int>(std::clamp(std::ceil(look_ns / (kShare * run_ns)), 1.0, kMostRuns));
}

}  // namespace evoq
