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

// Whether tuning has more than one way to compute a step.
bool HasForms(const Program& program, const Step& step, int threads) {
  if (step.kernel == nullptr) return false;
  if (threads > 1) return true;
  const auto isa = SelectIsa();
  if (step.kernel->variants == nullptr || !isa) return false;
  const NodeCall args(*program.graph, program.graph->node(step.node));
  return !step.kernel->variants(args.call, {*isa, threads, {}}).empty();
}

// The part of a step's time that is no accident of the calm blocks: what it took in the middle of
// all runs, where that is less.
double SteadyShare(const StepTime& step) {
  return step.median_ms > 0 && step.median_ms < step.ms ? step.median_ms / step.ms : 1;
}

// A kernel that takes a visible part of the run and uses a few percent of what the machine allows.
std::optional<Slow> FarFromRoofline(const Program& program, const StepProfile& profile, size_t i,
                                    int threads) {
  constexpr double kVisible = 0.02, kFar = 0.05, kFixedMs = 0.02;
  const StepTime& step = profile.steps[i];
  const double steady = SteadyShare(step), reached = step.roofline_share / steady;
  if (WithoutClockMs(profile, i) * steady < std::max(kVisible * profile.total_ms, kFixedMs) ||
      reached <= 0 || reached >= kFar)
    return std::nullopt;
  return Slow{i, "far-from-roofline",
              fmt::format("{} reaches {:.1f}% of the roofline", program.steps[i].decision.kernel,
                          100 * reached),
              HasForms(program, program.steps[i], threads)
                  ? "evoq compile MODEL.etm --tune measures its other forms"
                  : "it has one form, which is slow at this shape"};
}

// What is not worth a line each.
constexpr double kLeastShare = 0.0005;
constexpr size_t kMostLines = 20;

}  // namespace

Told SlowSteps(const Program& program, const StepProfile& profile, int threads) {
  std::vector<Slow> found;
  for (size_t i = 0; i < program.steps.size(); ++i) {
    auto slow = SlowStep(program, i);
    if (!slow) slow = FarFromRoofline(program, profile, i, threads);
    if (slow) found.push_back(std::move(*slow));
  }
  const auto ms = [&](const Slow& slow) {
    return WithoutClockMs(profile, slow.step) * SteadyShare(profile.steps[slow.step]);
  };
  std::ranges::sort(found, [&](const Slow& a, const Slow& b) { return ms(a) > ms(b); });
  // Where the machine was busy, its steps may take longer than the calmest runs do.
  double whole = 1e-9;
  for (size_t i = 0; i < profile.steps.size(); ++i) whole += WithoutClockMs(profile, i);
  whole = std::max(whole, profile.total_ms);
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
    const double share = ms(slow) / whole;
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
