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

// A kernel that takes a visible part of the run and uses a few percent of what the machine allows.
std::optional<Slow> FarFromRoofline(const Program& program, const StepProfile& profile, size_t i) {
  constexpr double kVisible = 0.02, kFar = 0.05, kFixedMs = 0.02;
  const StepTime& step = profile.steps[i];
  if (WithoutClockMs(profile, i) < std::max(kVisible * profile.total_ms, kFixedMs) ||
      step.roofline_share <= 0 || step.roofline_share >= kFar)
    return std::nullopt;
  return Slow{i, "far-from-roofline",
              fmt::format("{} reaches {:.1f}% of the roofline", program.steps[i].decision.kernel,
                          100 * step.roofline_share),
              "it has no fast form for this shape: --tune measures the forms that there are"};
}

// What is not worth a line each.
constexpr double kLeastShare = 0.0005;
constexpr size_t kMostLines = 20;

}  // namespace

Told SlowSteps(const Program& program, const StepProfile& profile) {
  std::vector<Slow> found;
  for (size_t i = 0; i < program.steps.size(); ++i) {
    auto slow = SlowStep(program, i);
    if (!slow) slow = FarFromRoofline(program, profile, i);
    if (slow) found.push_back(std::move(*slow));
  }
  const auto ms = [&](const Slow& slow) { return WithoutClockMs(profile, slow.step); };
  std::ranges::sort(found, [&](const Slow& a, const Slow& b) { return ms(a) > ms(b); });
  Told told;
  told.json = nlohmann::json::array();
  if (!found.empty()) told.text = "steps without a fast kernel:\n";
  size_t lines = 0;
  double rest = 0;
  for (const Slow& slow : found) {
    const Node& node = program.graph->node(program.steps[slow.step].node);
    told.json.push_back({{"name", node.name},
                         {"op", node.op},
                         {"code", slow.code},
                         {"ms", ms(slow)},
                         {"why", slow.why},
                         {"fix", slow.fix}});
    const double share = ms(slow) / std::max(profile.total_ms, 1e-9);
    if (lines == kMostLines || (lines > 0 && share < kLeastShare)) {
      rest += share;
      continue;
    }
    ++lines;
    told.text += FormatPrintable("  {:5.1f}%  {} ({}): {}; {}\n", 100 * share, node.name, node.op,
                                 slow.why, slow.fix);
  }
  if (found.size() > lines)
    told.text +=
        fmt::format("  {:5.1f}%  in {} more (--json has them)\n", 100 * rest, found.size() - lines);
  return told;
}

}  // namespace evoq
