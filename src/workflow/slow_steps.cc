#include "workflow/slow_steps.h"

#include <algorithm>

#include "base/printable.h"
#include "kernels/slower.h"
#include "program/node_call.h"

namespace evoq {
namespace {

struct Slow {
  size_t step;
  const char* code;
  std::string why, fix;
};

bool HasReals(const NodeCall& args) {
  const auto real = [](const TensorType& type) { return type.quantized() || IsFloat(type.dtype); };
  return std::ranges::any_of(args.inputs, real) || std::ranges::any_of(args.outputs, real);
}

std::optional<Slow> SlowStep(const Program& program, size_t i) {
  const Step& step = program.steps[i];
  const Node& node = program.graph->node(step.node);
  const NodeCall args(*program.graph, node);
  if (step.decision.kernel == kReferenceKernel) {
    if (!HasReals(args)) return std::nullopt;
    return Slow{i, "by-definition",
                "no kernel computes it: it runs by its definition, one value "
                "at a time",
                "compute it outside the model, or replace it by operators that have kernels, where "
                "some do the same (docs/operators.md)"};
  }
  const KernelDef* kernel = FindKernel(step.decision.kernel);
  const auto slower = kernel == nullptr ? std::nullopt : SlowerThanFloat(*kernel, args.call);
  if (!slower) return std::nullopt;
  return Slow{i, "slower-than-float",
              fmt::format("{} is slower than float32 here: {}", kernel->name, slower->sentence),
              fmt::format("quantize with --exclude {}", node.name)};
}

}  // namespace

Told SlowSteps(const Program& program, const StepProfile& profile) {
  std::vector<Slow> found;
  for (size_t i = 0; i < program.steps.size(); ++i) {
    if (auto slow = SlowStep(program, i)) found.push_back(std::move(*slow));
  }
  const auto ms = [&](const Slow& slow) { return WithoutClockMs(profile, slow.step); };
  std::ranges::sort(found, [&](const Slow& a, const Slow& b) { return ms(a) > ms(b); });
  Told told;
  told.json = nlohmann::json::array();
  if (!found.empty()) told.text = "steps without a fast kernel:\n";
  for (const Slow& slow : found) {
    const Node& node = program.graph->node(program.steps[slow.step].node);
    told.json.push_back({{"name", node.name},
                         {"op", node.op},
                         {"code", slow.code},
                         {"ms", ms(slow)},
                         {"why", slow.why},
                         {"fix", slow.fix}});
    told.text += FormatPrintable("  {:5.1f}%  {} ({}): {}; {}\n",
                                 100 * ms(slow) / std::max(profile.total_ms, 1e-9), node.name,
                                 node.op, slow.why, slow.fix);
  }
  return told;
}

}  // namespace evoq
