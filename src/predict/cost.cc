#include "predict/cost.h"

#include <algorithm>

#include "base/core_kind.h"
#include "base/text.h"
#include "kernels/activation.h"
#include "ops/experts.h"

namespace evoq {

#define EVOQ_ROW_TYPE CostFamily
#define EVOQ_ROW_FILE "predict/families.inc"
#include "base/rows.inl.h"

namespace {

constexpr Efficiency kEfficiencies[] = {
#define EVOQ_EFFICIENCY(core, isa, family, shared, fork, remote, spread, ...) \
  {{core, isa}, family, {__VA_ARGS__}, shared, fork, remote, spread},
#include "predict/efficiency.inc"
#undef EVOQ_EFFICIENCY
};

bool MatchesOne(std::string_view patterns, std::string_view name) {
  while (!patterns.empty()) {
    const size_t space = patterns.find(' ');
    if (GlobMatch(patterns.substr(0, space), name)) return true;
    if (space == std::string_view::npos) break;
    patterns.remove_prefix(space + 1);
  }
  return false;
}

// The rows of one set: they stand together. Of the instruction set, those of the nearest cores.
Efficiencies FindSet(Isa isa, const Limits& limits) {
  Efficiencies found;
  for (const Efficiency& e : kEfficiencies) {
    if (e.on.isa != isa) continue;
    if (!found.empty() && std::string_view(e.on.core) == found.front().on.core) {
      found = {found.data(), found.size() + 1};
    } else if (found.empty() || SharedWords(e.on.core, limits.core) >
                                    SharedWords(found.front().on.core, limits.core)) {
      found = {&e, 1};
    }
  }
  return found;
}

}  // namespace

const char* TermName(Term term) {
  static constexpr const char* kNames[kTermCount] = {"call",    "arithmetic", "feed",   "rows",
                                                     "outputs", "curve",      "tiles",  "edges",
                                                     "copies",  "stream",     "weights"};
  return kNames[term];
}

std::span<const CostFamily* const> AllCostFamilies() { return kAllRows; }

const CostFamily& FamilyOf(const Step& step, std::string_view op, std::string_view method) {
  const std::string& kernel = step.decision.kernel;
  const std::string name = kernel == kReferenceKernel ? fmt::format("{}/{}", kernel, op) : kernel;
  for (const CostFamily* family : AllCostFamilies()) {
    if (MatchesOne(family->kernels, name) && GlobMatch(family->method, method)) return *family;
  }
  return *AllCostFamilies().back();
}

Efficiencies EfficienciesFor(const Limits& limits) {
  for (Isa named : AllIsas()) {
    const Efficiencies found = limits.isa.Has(named) ? FindSet(named, limits) : Efficiencies();
    if (!found.empty()) return found;
  }
  return FindSet(Isa::kAvx512, limits);
}

const Efficiency& EfficiencyOf(Efficiencies constants, std::string_view family) {
  const auto found = std::ranges::find(constants, family, &Efficiency::family);
  EVOQ_CHECK(found != constants.end(), "no efficiency of {}", family);
  return *found;
}

double CommonSpread(const FittedOn& on, const Limits& limits) {
  constexpr double kOwn = 0.08, kOfOtherCores = 0.15, kOfOtherIsa = 0.4;
  if (!limits.isa.Has(on.isa)) return kOfOtherIsa;
  return limits.core == on.core ? kOwn : kOfOtherCores;
}

Rates::Rates(const MachineLimits& l)
    : cycle_ns(1 / l.clock_ghz), limits(l), efficiencies(EfficienciesFor(l)) {}

double Rates::mac_ns(Peak peak) const {
  const double giga = PeakGops(limits, peak);
  return giga > 0 ? 2 * limits.threads / giga : cycle_ns;
}

double Rates::stream_ns(double bytes, double working_set) const {
  // The share that a cache does not hold grows from none, where the working set just fits, to all,
  // where it is twice that.
  const auto beyond = [&](double cache) { return std::clamp(working_set / cache - 1, 0.0, 1.0); };
  const double l2 = beyond(0.75 * static_cast<double>(limits.l2_bytes)),
               l3 = beyond(0.5 * static_cast<double>(limits.l3_bytes) / limits.threads);
  const double per_byte = (1 - l2) / limits.l2_read_gbps +
                          l2 * ((1 - l3) / limits.l3_read_gbps + l3 / limits.dram_read_gbps);
  return bytes * limits.threads * per_byte;
}

CostInput::CostInput(const Graph& g, const Step& s, const KernelPlan& p, int64_t bytes)
    : graph(g), node(g.node(s.node)), step(s), plan(p), run_bytes(bytes), args(g, node) {}

int64_t CostInput::Elements(const TensorType& type) const {
  return type.dtype == DType::kUndefined ? 0 : type.shape.elements().value_or(0);
}

int64_t CostInput::out_elements() const {
  int64_t sum = 0;
  for (const TensorType& type : args.outputs) sum += Elements(type);
  return sum;
}

int64_t CostInput::in_elements() const {
  int64_t sum = 0;
  for (size_t i = 0; i < args.inputs.size(); ++i) {
    if (args.constants[i] == nullptr) sum += Elements(args.inputs[i]);
  }
  return sum;
}

int64_t CostInput::activation_bytes() const {
  int64_t sum = 0;
  for (size_t i = 0; i < args.inputs.size(); ++i) {
    if (args.constants[i] == nullptr) sum += args.inputs[i].bytes().value_or(0);
  }
  for (const TensorType& type : args.outputs) sum += type.bytes().value_or(0);
  return sum;
}

int64_t CostInput::weight_bytes() const {
  const OpDef* op = FindOp(node);
  const size_t alternatives = op != nullptr && op->alternatives >= 0
                                  ? static_cast<size_t>(op->alternatives)
                                  : args.constants.size();
  int64_t sum = 0, chosen = 0;
  for (size_t i = 0; i < args.constants.size(); ++i) {
    const Tensor* constant = args.constants[i];
    if (constant == nullptr) continue;
    int64_t& to = i < alternatives ? sum : chosen;
    const auto stored = static_cast<int64_t>(constant->bytes());
    const bool narrow = constant->type().quantized() || constant->dtype() == DType::kFloat16 ||
                        constant->dtype() == DType::kBfloat16;
    to += plan.widened && narrow ? std::max<int64_t>(stored, 4 * Elements(args.inputs[i])) : stored;
  }
  const ReadShare share = ReadShareOf(node, args.inputs);
  return sum + chosen / share.of * share.read;
}

bool CostInput::has_curve() const {
  const auto activation = ActivationFromAttrs(node.attrs);
  if (!activation) return false;
  switch (activation->kind) {
    case ActivationKind::kNone:
    case ActivationKind::kRelu:
    case ActivationKind::kClip:
    case ActivationKind::kLeakyRelu: return false;
    default: return true;
  }
}

StepCost CostOf(const CostInput& input, const Rates& rates, const Cut& cut, int threads) {
  StepCost cost{};
  cost.family = &FamilyOf(input.step, input.node.op, input.plan.method);
  cost.terms[kCall] = 1000 * rates.cycle_ns;
  cost.family->count(input, rates, cost.terms);
  const Efficiency& e = EfficiencyOf(rates.efficiencies, cost.family->name);
  for (int t = 0; t < kTermCount; ++t) {
    cost.weighed[t] = cost.terms[t] * e.times[t];
    cost.serial_ns += cost.weighed[t];
  }
  cost.ns = cost.serial_ns * (1 - e.shared * (1 - cut.share));
  if (cut.loops > 0) {
    const double n = threads;
    cost.ns += cut.loops * e.fork * rates.limits.fork_ns +
               e.remote * cost.terms[kStream] * (1 - 1 / n) / n;
  }
  cost.spread = e.spread;
  return cost;
}

}  // namespace evoq
