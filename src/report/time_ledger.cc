#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <optional>

#include "graph/float_reason.h"
#include "ops/op.h"
#include "profile/interval.h"
#include "report/explain_rule.h"
#include "report/ledger.h"
#include "report/step_causes.h"

namespace evoq {
namespace {

// Of ONNX, or of the dialect (Silu, Lookup, DynamicConv, ...).
const OpDef* OpOf(const StepTime& step) {
  const OpDef* op = FindOp(step.op);
  return op != nullptr ? op : FindOp(step.op, "evoq");
}

bool HasReals(const Program& program, size_t s) {
  const Node& node = program.graph->node(program.steps[s].node);
  const auto real = [&](ValueId id) {
    return id.valid() && (IsFloat(program.graph->value(id).type.dtype) ||
                          program.graph->value(id).type.quantized());
  };
  return std::any_of(node.inputs.begin(), node.inputs.end(), real) ||
         std::any_of(node.outputs.begin(), node.outputs.end(), real);
}

bool WritesNarrow(const Program& program, size_t s) {
  const Node& node = program.graph->node(program.steps[s].node);
  if (node.outputs.empty() || !node.outputs[0].valid()) return false;
  const TensorType& type = program.graph->value(node.outputs[0]).type;
  return type.quantized() || type.dtype == DType::kBfloat16;
}

// What a step needs at most, whatever its kernel takes: ten times the roofline time, and what a
// step costs beside it. A kernel that is slower is no measure of what narrower types allow.
double MostNeededMs(const StepTime& step) {
  constexpr double kTimes = 10, kFixedMs = 2e-3;
  if (step.roofline_share <= 0) return std::numeric_limits<double>::infinity();  // not known
  return kTimes * step.ms * step.roofline_share + kFixedMs;
}

// Bytes of what step `s` reads and writes that stay as wide as they are: the model's outputs, which
// a caller takes as floats.
double KeptBytes(const Program& program, size_t s) {
  const Node& node = program.graph->node(program.steps[s].node);
  double bytes = 0;
  for (const auto* values : {&node.inputs, &node.outputs}) {
    for (ValueId v : *values) {
      if (!v.valid() || !program.graph->IsOutput(v)) continue;
      bytes += static_cast<double>(program.graph->value(v).type.bytes().value_or(0));
    }
  }
  return bytes;
}

// What narrower types allow for step `s` of the float run, from its measured time `ms`.
double IdealMs(const LedgerRun& run, size_t s, double ms, const Limits& limits, bool bf16) {
  const StepTime& step = run.profile->steps[s];
  if (!HasReals(*run.program, s)) return ms;
  ms = std::min(ms, MostNeededMs(step));
  const OpDef* op = OpOf(step);
  const auto bytes = static_cast<double>(step.bytes), ratio = bf16 ? 2.0 : 4.0,
             kept = std::min(KeptBytes(*run.program, s), bytes);
  const auto at_memory = [&](double read_or_written) {
    return RooflineNs(limits, Peak::kMemory, 0, static_cast<int64_t>(read_or_written)) / 1e6;
  };
  if (Multiplies(run.program->graph->node(run.program->steps[s].node))) {
    const double peak = std::max(PeakGops(limits, bf16 ? Peak::kBf16 : Peak::kInt8), 1e-9);
    return std::max(ms * limits.fp32_gflops / peak, std::min(ms, at_memory(kept)));
  }
  const double narrow = kept + (bytes - kept) / ratio;
  if (op == nullptr || op->quant == QuantTrait::kFloat) return std::min(ms, at_memory(narrow));
  return bytes > 0 ? ms * narrow / bytes : ms / ratio;
}

constexpr int kNone = -1;

// For each step of `a` its counterpart in `b`, or kNone: by name; where exporters renamed nodes,
// the n-th linear step of a shape meets the n-th.
std::vector<int> Pairs(const StepProfile& a, const StepProfile& b) {
  std::map<std::string, int> by_name;
  for (size_t i = 0; i < b.steps.size(); ++i) by_name.emplace(b.steps[i].name, static_cast<int>(i));
  std::vector<int> pairs(a.steps.size(), kNone);
  std::vector<bool> taken(b.steps.size());
  for (size_t i = 0; i < a.steps.size(); ++i) {
    const auto it = by_name.find(a.steps[i].name);
    if (it == by_name.end()) continue;
    pairs[i] = it->second;
    taken[static_cast<size_t>(it->second)] = true;
  }
  for (size_t i = 0; i < a.steps.size(); ++i) {
    if (pairs[i] != kNone || a.steps[i].macs == 0) continue;
    for (size_t k = 0; k < b.steps.size(); ++k) {
      if (taken[k] || b.steps[k].macs != a.steps[i].macs || b.steps[k].shape != a.steps[i].shape)
        continue;
      pairs[i] = static_cast<int>(k);
      taken[k] = true;
      break;
    }
  }
  return pairs;
}

// Of a step's measured time, what is left without what timing it adds.
double UntaxedShare(const StepProfile& run) {
  return run.steps_ms > 0 ? (run.steps_ms - run.tax_ms()) / run.steps_ms : 1;
}

// What the steps of `run` take, by the `count` steps of the float run that they are paired with; -1
// where none is.
std::vector<double> LeastTaken(const StepProfile& run, const std::vector<int>& pairs,
                               size_t count) {
  std::vector<double> taken(count, -1);
  const double untaxed = UntaxedShare(run);
  for (size_t i = 0; i < pairs.size(); ++i) {
    if (pairs[i] == kNone) continue;
    double& least = taken[static_cast<size_t>(pairs[i])];
    const double ms = run.steps[i].ms * untaxed;
    least = least < 0 ? ms : std::min(least, ms);
  }
  return taken;
}

// Whether step `s` of `a` and step `t` of `b`, measured in turn, differ by more than parts of the
// time do.
bool Differ(const StepProfile& a, size_t s, const StepProfile& b, size_t t) {
  const size_t count = a.parts.size();
  if (b.parts.size() != count) return false;
  std::vector<double> differences;
  for (size_t i = 0; i < count; ++i)
    differences.push_back(a.parts[i].steps_ms[s] - b.parts[i].steps_ms[t]);
  return SurelyNotZero(differences);
}

class Account {
 public:
  void Add(const std::string& code, double ms, const std::string& step,
           const std::string& why = "") {
    TimeCause& cause = causes_[code];
    if (cause.code.empty()) {
      const ExplainRule* rule = FindExplainRule(code, LedgerKind::kTime);
      cause.code = code;
      cause.sentence = rule != nullptr ? rule->sentence : why;
      cause.fix = rule != nullptr ? rule->fix : "";
    }
    cause.ms += ms;
    if (step.empty()) return;
    if (std::find(cause.steps.begin(), cause.steps.end(), step) == cause.steps.end())
      cause.steps.push_back(step);
    step_ms_[{code, step}] += ms;
  }

  void Close(TimeLedger& ledger) {
    ledger.unexplained_ms = ledger.actual_ms - ledger.ideal_ms;
    ledger.attainable_ms = ledger.actual_ms;
    for (auto& [code, cause] : causes_) {
      std::stable_sort(cause.steps.begin(), cause.steps.end(), [&](const auto& a, const auto& b) {
        return step_ms_[{code, a}] > step_ms_[{code, b}];
      });
      const ExplainRule* rule = FindExplainRule(code, LedgerKind::kTime);
      cause.gain_ms = rule != nullptr ? rule->recoverable * std::max(cause.ms, 0.0) : 0;
      ledger.attainable_ms -= cause.gain_ms;
      ledger.unexplained_ms -= cause.ms;
      ledger.causes.push_back(std::move(cause));
    }
    ledger.attainable_ms = std::max(ledger.attainable_ms, ledger.ideal_ms);
    std::sort(ledger.causes.begin(), ledger.causes.end(),
              [](const TimeCause& a, const TimeCause& b) {
                return a.ms != b.ms ? a.ms > b.ms : a.code < b.code;
              });
  }

 private:
  std::map<std::string, TimeCause> causes_;
  std::map<std::pair<std::string, std::string>, double> step_ms_;  // by cause and step
};

class TimeLedgerBuilder {
 public:
  TimeLedgerBuilder(const LedgerRun& real, const LedgerRun& quantized, const LedgerRun& attainable,
                    const Limits& limits)
      : real_(real),
        quantized_(quantized),
        attainable_(attainable),
        causes_(*quantized.program),
        f_of_q_(Pairs(*quantized.profile, *real.profile)) {
    const bool bf16 = NarrowsToBf16(*quantized.program);
    const StepProfile& run = *real.profile;
    const double untaxed = UntaxedShare(run);
    for (size_t f = 0; f < run.steps.size(); ++f)
      ideal_.push_back(IdealMs(real, f, run.steps[f].ms * untaxed, limits, bf16));
    // What was measured is possible: no step's ideal is above it, and a step that another run does
    // without need not take anything.
    const std::vector<double> taken = LeastTaken(*quantized.profile, f_of_q_, ideal_.size());
    const std::vector<double> best =
        attainable.profile
            ? LeastTaken(*attainable.profile, Pairs(*attainable.profile, run), ideal_.size())
            : taken;
    for (size_t f = 0; f < ideal_.size(); ++f) {
      needed_.push_back(taken[f] >= 0);
      if (taken[f] >= 0) ideal_[f] = std::min(ideal_[f], taken[f]);
      if (best[f] >= 0) ideal_[f] = std::min(ideal_[f], best[f]);
      if (!needed_[f]) ideal_[f] = 0;
    }
  }

  TimeLedger Build() {
    TimeLedger ledger;
    const StepProfile& run = *quantized_.profile;
    ledger.float_ms = real_.profile->total_ms;
    ledger.actual_ms = run.total_ms;
    for (double ms : ideal_) ledger.ideal_ms += ms;
    if (attainable_.profile != nullptr) {
      AgainstAttainable();
    } else {
      AgainstEstimates();
    }
    account_.Add("host-time", run.host_ms, "");
    account_.Add("measurement-tax", -run.tax_ms(), "");
    account_.Close(ledger);
    return ledger;
  }

 private:
  const StepTime& step(size_t q) const { return quantized_.profile->steps[q]; }
  double IdealOf(int f) const { return f == kNone ? 0 : ideal_[static_cast<size_t>(f)]; }
  const std::string& Why(size_t q) const {
    return quantized_.program->steps[q].decision.float_reason.sentence;
  }

  void AgainstAttainable();
  void AgainstEstimates();
  std::string CodeOfLacking(size_t r, const std::vector<int>& q_of_r) const;
  std::string CodeOfDifference(size_t q) const;
  std::string KnockOn(size_t q, bool differs) const;
  // Step q takes what it takes instead of `ms`.
  void Differs(size_t q, double ms) {
    const std::string code = CodeOfDifference(q);
    if (causes_.IsCopy(q))
      account_.Add(code, step(q).ms - ms, step(q).name, Why(q));
    else
      Charge(code, step(q).ms - ms, step(q).name, Why(q));
  }
  // To a fault.
  void Charge(const std::string& code, double ms, const std::string& step,
              const std::string& why = "") {
    account_.Add(code, ms, step, why);
    charged_[code] += ms;
  }
  // Steps of the quantized and of the attainable run that are the same.
  using SoundSteps = std::vector<std::pair<size_t, size_t>>;
  void ShareKnockOn(const SoundSteps& sound, const std::vector<std::string>& codes);

  const LedgerRun &real_, &quantized_, &attainable_;
  StepCauses causes_;
  std::vector<int> f_of_q_;
  std::vector<double> ideal_;  // by step of the float run
  std::vector<bool> needed_;   // by the same: whether the quantized run has it
  Account account_;
  std::map<std::string, double> charged_;  // what each fault costs, ms
};

// Why a step runs otherwise than in the attainable run.
std::string TimeLedgerBuilder::CodeOfDifference(size_t q) const {
  if (std::string code = causes_.Fault(q); !code.empty()) return code;
  if (OnlyRescales(quantized_.program->graph->node(quantized_.program->steps[q].node)))
    return "extra-conversion";
  if (std::string code = causes_.Beside(q); !code.empty()) return code;
  return "other-kernel";
}

// The fault that makes a sound step take another time than in the attainable run: one beside it,
// or, where the step's time surely differs, the one that ran before it and left other data in the
// caches; "" where there is none.
std::string TimeLedgerBuilder::KnockOn(size_t q, bool differs) const {
  const std::string code = causes_.Neighbour(q);
  return code.empty() && differs ? causes_.Before(q) : code;
}

// What a step of the attainable run that the quantized one lacks would have been there for: it is
// made up for by the fault beside it (the input of an excluded first layer is quantized behind it
// instead). "" where none is: it is not needed.
std::string TimeLedgerBuilder::CodeOfLacking(size_t r, const std::vector<int>& q_of_r) const {
  const Program& best = *attainable_.program;
  const Graph& graph = *best.graph;
  std::vector<NodeId> reached = {best.steps[r].node};  // lacking steps and views from here on
  const auto reach = [&](NodeId id) {
    if (id.valid() && std::find(reached.begin(), reached.end(), id) == reached.end())
      reached.push_back(id);
  };
  for (size_t i = 0; i < reached.size(); ++i) {
    size_t step = 0;
    while (step < best.steps.size() && best.steps[step].node != reached[i]) ++step;
    if (step < best.steps.size() && q_of_r[step] != kNone) {
      const auto q = static_cast<size_t>(q_of_r[step]);
      if (!SameStep(*quantized_.program, q, best, step)) return CodeOfDifference(q);
      continue;
    }
    for (ValueId v : graph.node(reached[i]).outputs) {
      if (!v.valid()) continue;
      for (NodeId user : graph.value(v).users) reach(user);
    }
    for (ValueId v : graph.node(reached[i]).inputs) {
      if (v.valid()) reach(graph.value(v).producer);
    }
  }
  return "";
}

void TimeLedgerBuilder::AgainstAttainable() {
  const StepProfile& best = *attainable_.profile;
  const std::vector<int> f_of_r = Pairs(best, *real_.profile),
                         q_of_r = Pairs(best, *quantized_.profile);
  const StepCauses best_causes(*attainable_.program);
  std::vector<int> r_of_q(quantized_.profile->steps.size(), kNone);
  std::vector<bool> f_seen(ideal_.size());
  SoundSteps sound;
  std::vector<std::string> sound_codes;
  for (size_t r = 0; r < best.steps.size(); ++r) {
    const int q = q_of_r[r], f = f_of_r[r];
    if (q != kNone) r_of_q[static_cast<size_t>(q)] = static_cast<int>(r);
    const bool same = q != kNone && SameStep(*quantized_.program, static_cast<size_t>(q),
                                             *attainable_.program, r);
    const bool differ = same && Differ(*quantized_.profile, static_cast<size_t>(q), best, r);
    const std::string knock_on = same ? KnockOn(static_cast<size_t>(q), differ) : "";
    // Two runs of one step differ by noise only, unless a fault took its data out of the caches.
    const double ms = same && knock_on.empty() ? step(static_cast<size_t>(q)).ms : best.steps[r].ms;
    std::string lacking = q == kNone ? CodeOfLacking(r, q_of_r) : "";
    if (q == kNone && lacking.empty()) {
      if (f == kNone || !needed_[static_cast<size_t>(f)]) continue;
      lacking = "other-kernel";  // another step does its work
    }
    if (f != kNone) f_seen[static_cast<size_t>(f)] = true;
    const std::string code = best_causes.Of(r, f != kNone);
    account_.Add(code, ms - IdealOf(f), best.steps[r].name,
                 attainable_.program->steps[r].decision.float_reason.sentence);
    if (q == kNone) {
      Charge(lacking, -ms, best.steps[r].name);
    } else if (!same) {
      Differs(static_cast<size_t>(q), ms);
    } else if (!knock_on.empty()) {
      Charge(knock_on, step(static_cast<size_t>(q)).ms - ms, differ ? best.steps[r].name : "");
    } else {
      sound.emplace_back(static_cast<size_t>(q), r);
      sound_codes.push_back(code);
    }
  }
  for (size_t q = 0; q < r_of_q.size(); ++q) {
    if (r_of_q[q] != kNone) continue;
    const int f = f_of_q_[q];  // of no other step: names are unique
    Differs(q, f != kNone && !f_seen[static_cast<size_t>(f)] ? IdealOf(f) : 0);
  }
  ShareKnockOn(sound, sound_codes);
}

// What the sound steps take longer in sum, though none of them surely does alone: caches are colder
// behind the faults, each of which has its share by what it costs. `codes`: what the steps' times
// are under so far.
void TimeLedgerBuilder::ShareKnockOn(const SoundSteps& sound,
                                     const std::vector<std::string>& codes) {
  const StepProfile& best = *attainable_.profile;
  const size_t parts = quantized_.profile->parts.size();
  if (best.parts.size() != parts) return;
  std::vector<double> sums(parts);
  for (const auto& [q, r] : sound) {
    for (size_t p = 0; p < parts; ++p)
      sums[p] += quantized_.profile->parts[p].steps_ms[q] - best.parts[p].steps_ms[r];
  }
  double cost = 0, sum = 0;
  for (const auto& [code, ms] : charged_) cost += std::max(ms, 0.0);
  if (cost <= 0 || !SurelyNotZero(sums)) return;
  for (size_t i = 0; i < sound.size(); ++i) {
    const double ms = step(sound[i].first).ms - best.steps[sound[i].second].ms;
    account_.Add(codes[i], -ms, "");
    sum += ms;
  }
  for (const auto& [code, ms] : charged_) {
    if (ms > 0) account_.Add(code, sum * ms / cost, "");
  }
}

// Without an attainable run: a faulty step could take its ideal times what the sound steps of its
// operator take over theirs, one that moves or combines values and has none what all sound ones of
// that kind do; another one its ideal, a conversion nothing.
void TimeLedgerBuilder::AgainstEstimates() {
  std::vector<std::string> codes;
  struct Sum {
    double measured = 0, ideal = 0;
  };
  std::map<std::string, Sum> sound;  // by operator
  Sum moving;
  for (size_t q = 0; q < quantized_.profile->steps.size(); ++q) {
    codes.push_back(causes_.Of(q, f_of_q_[q] != kNone));
    const bool moves = codes[q] == "moves-bytes";
    if ((codes[q] != "kernel-below-ideal" && !moves) || f_of_q_[q] == kNone) continue;
    if (moves && !WritesNarrow(*quantized_.program, q)) continue;  // it stays float as it is
    for (Sum* sum : {&sound[step(q).op], moves ? &moving : nullptr}) {
      if (sum == nullptr) continue;
      sum->measured += step(q).ms;
      sum->ideal += IdealOf(f_of_q_[q]);
    }
  }
  for (size_t q = 0; q < codes.size(); ++q) {
    const int f = f_of_q_[q];
    const double ideal = IdealOf(f);
    const OpDef* op = OpOf(step(q));
    const QuantTrait trait = op == nullptr ? QuantTrait::kFloat : op->quant;
    const Node& node = quantized_.program->graph->node(quantized_.program->steps[q].node);
    const bool multiplies = Multiplies(node);
    const bool faulty = f != kNone && !causes_.Fault(q).empty() && !ConvertsOnly(node);
    const auto kin = sound.find(step(q).op);
    const Sum* measure = kin != sound.end()                          ? &kin->second
                         : multiplies || trait == QuantTrait::kFloat ? nullptr
                                                                     : &moving;
    double could = ideal;
    if (faulty && measure != nullptr && measure->ideal > 0)
      could = std::min(step(q).ms, ideal * measure->measured / measure->ideal);
    if (could != ideal)
      account_.Add(multiplies ? "kernel-below-ideal" : "moves-bytes", could - ideal, step(q).name);
    account_.Add(codes[q], step(q).ms - could, step(q).name, Why(q));
  }
}

}  // namespace

namespace {

// The run as a part of the measured time shows it.
struct PartRun {
  PartRun(const LedgerRun& whole, size_t part, const Limits& limits) : program(whole.program) {
    if (whole.profile == nullptr) return;
    profile = *whole.profile;
    SetTimes(*profile, profile->parts[part], limits);
  }
  LedgerRun run() const { return {profile ? &*profile : nullptr, program}; }

  std::optional<StepProfile> profile;
  const Program* program;
};

// From the ledgers of the parts of the measured time.
void AddSpreads(TimeLedger& ledger, const std::vector<TimeLedger>& parts) {
  std::vector<double> gaps;
  std::map<std::string, std::vector<double>> by_code;
  for (const TimeLedger& part : parts) {
    gaps.push_back(part.actual_ms - part.ideal_ms);
    for (const TimeCause& c : part.causes) by_code[c.code].push_back(c.ms);
  }
  ledger.gap_spread_ms = HalfMeanInterval(gaps);
  for (TimeCause& c : ledger.causes) {
    std::vector<double>& figures = by_code[c.code];
    figures.resize(parts.size());  // a cause that a part does not have is 0 there
    c.spread_ms = HalfMeanInterval(figures);
  }
}

}  // namespace

TimeLedger BuildTimeLedger(const LedgerRun& real, const LedgerRun& quantized,
                           const LedgerRun& attainable, const Limits& limits) {
  TimeLedger ledger = TimeLedgerBuilder(real, quantized, attainable, limits).Build();
  size_t count = std::min(real.profile->parts.size(), quantized.profile->parts.size());
  if (attainable.profile != nullptr) count = std::min(count, attainable.profile->parts.size());
  std::vector<TimeLedger> parts;
  for (size_t p = 0; p < count; ++p) {
    const PartRun r(real, p, limits), q(quantized, p, limits), a(attainable, p, limits);
    parts.push_back(TimeLedgerBuilder(r.run(), q.run(), a.run(), limits).Build());
  }
  if (parts.size() > 1) AddSpreads(ledger, parts);
  return ledger;
}

bool NarrowsToBf16(const Program& program) {
  const auto has = [&](Precision precision) {
    return std::any_of(program.steps.begin(), program.steps.end(),
                       [&](const Step& step) { return step.decision.precision == precision; });
  };
  return has(Precision::kBf16) && !has(Precision::kInt8);
}

std::set<std::string> StepsWithoutIntegerForm(const Program& program) {
  std::set<std::string> names;
  for (const Step& step : program.steps) {
    const std::string& code = step.decision.float_reason.code;
    if (code == kNoInt8Kernel || code == kNoBf16Kernel ||
        FindExplainRule(kNoInt8Kernel, LedgerKind::kTime)->claims(*program.graph, step))
      names.insert(program.graph->node(step.node).name);
  }
  return names;
}

bool RunsSameSteps(const Program& quantized, const Program& attainable) {
  std::map<std::string, size_t> by_name;
  for (size_t r = 0; r < attainable.steps.size(); ++r)
    by_name.emplace(attainable.graph->node(attainable.steps[r].node).name, r);
  if (quantized.steps.size() != attainable.steps.size()) return false;
  for (size_t q = 0; q < quantized.steps.size(); ++q) {
    const auto it = by_name.find(quantized.graph->node(quantized.steps[q].node).name);
    if (it == by_name.end() || !SameStep(quantized, q, attainable, it->second)) return false;
  }
  return true;
}

}  // namespace evoq
