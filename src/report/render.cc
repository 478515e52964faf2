#include <algorithm>

#include "base/ms_text.h"
#include "base/printable.h"
#include "base/text.h"
#include "report/known.h"
#include "report/ledger.h"
#include "report/table.h"

namespace evoq {

using nlohmann::json;

json ToJson(const TimeLedger& ledger) {
  json causes = json::array();
  for (const TimeCause& c : ledger.causes)
    causes.push_back({{"code", c.code},
                      {"ms", c.ms},
                      {"spread_ms", Known(c.spread_ms)},
                      {"steps", c.steps},
                      {"sentence", c.sentence},
                      {"fix", c.fix},
                      {"gain_ms", c.gain_ms}});
  return {{"float_ms", ledger.float_ms},
          {"ideal_ms", ledger.ideal_ms},
          {"attainable_ms", ledger.attainable_ms},
          {"actual_ms", ledger.actual_ms},
          {"gap_spread_ms", Known(ledger.gap_spread_ms)},
          {"causes", causes},
          {"unexplained_ms", ledger.unexplained_ms}};
}

json ToJson(const ByteLedger& ledger) {
  json causes = json::array();
  for (const ByteCause& c : ledger.causes) {
    json parts = json::array();
    for (const BytePart& p : c.parts)
      parts.push_back({{"name", p.name}, {"bytes", p.bytes}, {"why", p.why}});
    causes.push_back({{"code", c.code},
                      {"bytes", c.bytes},
                      {"sentence", c.sentence},
                      {"fix", c.fix},
                      {"gain_bytes", c.gain_bytes},
                      {"parts", parts}});
  }
  json told = {{"float_file", Known(ledger.float_weights)},
               {"ideal_file", Known(ledger.ideal_file)},
               {"actual_file", ledger.actual_file},
               {"causes", causes},
               {"unexplained_bytes", ledger.unexplained_bytes}};
  if (ledger.unpruned_weights > 0) told["unpruned_float_file"] = ledger.unpruned_weights;
  return told;
}

json ToJson(const StepProfile& profile) {
  json steps = json::array();
  for (const StepTime& s : profile.steps)
    steps.push_back({{"name", s.name},
                     {"op", s.op},
                     {"kernel", s.kernel},
                     {"variant", s.variant},
                     {"precision", PrecisionName(s.precision)},
                     {"shape", s.shape},
                     {"ms", s.ms},
                     {"share", s.share},
                     {"macs", s.macs},
                     {"bytes", s.bytes},
                     {"gops", s.gops},
                     {"roofline_share", s.roofline_share},
                     {"beyond_roofline", s.beyond_roofline}});
  return {{"total_ms", profile.total_ms},
          {"steps_ms", profile.steps_ms},
          {"host_ms", profile.host_ms},
          {"tax_ms", profile.tax_ms()},
          {"busy", profile.busy},
          {"disturbance", ToJson(profile.disturbance)},
          {"steps", steps}};
}

json DecisionsJson(const Program& program) {
  json decisions = json::array();
  for (const Step& step : program.steps) {
    json rejected = json::array();
    for (const auto& r : step.decision.rejected)
      rejected.push_back(
          {{"kernel", r.kernel}, {"code", r.reason.code}, {"why", r.reason.sentence}});
    const Node& node = program.graph->node(step.node);
    decisions.push_back({{"step", node.name},
                         {"op", node.op},
                         {"kernel", step.decision.kernel},
                         {"precision", PrecisionName(step.decision.precision)},
                         {"rejected", rejected},
                         {"code", step.decision.float_reason.code},
                         {"why", step.decision.float_reason.sentence}});
    // What the compiler put into the step as a table (docs/passes.md, fuse-tables).
    if (const std::string function = node.attrs.String("evoq.function"); !function.empty())
      decisions.back()["function"] = function;
  }
  return decisions;
}

namespace {

// The first names of a list: "conv_1, conv_2, ... 5 more".
std::string FirstOf(const std::vector<std::string>& names) {
  constexpr size_t kShown = 3;
  const std::span<const std::string> first(names.data(), std::min(names.size(), kShown));
  return fmt::format(
      "{}{}", fmt::join(first, ", "),
      names.size() > kShown ? fmt::format(", ... {} more", names.size() - kShown) : "");
}

// Names of up to 40 characters; of longer ones the beginning and the end, which tell them apart.
std::string Shortened(const std::string& name) {
  constexpr size_t kMost = 40, kFirst = 12, kLast = 25;
  if (name.size() <= kMost) return name;
  return name.substr(0, kFirst) + "..." + name.substr(name.size() - kLast);
}

}  // namespace

std::string ToText(const TimeLedger& ledger) {
  std::string out = fmt::format(
      "time: float {} ms -> ideal {} ms -> attainable {} ms -> measured {} ms ({:.2f}x of {:.2f}x "
      "possible)\n",
      MsText(ledger.float_ms), MsText(ledger.ideal_ms), MsText(ledger.attainable_ms),
      MsText(ledger.actual_ms), ledger.float_ms / ledger.actual_ms,
      ledger.float_ms / std::max(ledger.ideal_ms, 1e-9));
  if (!ledger.steady())
    out += fmt::format(
        "the machine is busy: {} ms over ideal are known to {} ms only; measure again, or longer "
        "(--duration-s)\n",
        MsText(ledger.actual_ms - ledger.ideal_ms), MsText(ledger.gap_spread_ms));
  TextTable table({">ms over ideal", ">+-", ">a fix wins", "cause", ">steps", "which"});
  for (const TimeCause& c : ledger.causes)
    table.Row({fmt::format("{:+.4f}", c.ms),
               c.spread_ms > 0 ? fmt::format("{:.4f}", c.spread_ms) : "",
               c.gain_ms > 0 ? fmt::format("{:.4f}", c.gain_ms) : "", c.code,
               c.steps.empty() ? "" : std::to_string(c.steps.size()), FirstOf(c.steps)});
  table.Row({fmt::format("{:+.4f}", ledger.unexplained_ms), "", "", "unexplained", "", ""});
  out += table.ToString();
  for (const TimeCause& c : ledger.causes)
    out += FormatPrintable("{}: {}{}{}\n", c.code, c.sentence, c.fix.empty() ? "" : " ", c.fix);
  return out;
}

std::string ToText(const ByteLedger& ledger) {
  constexpr size_t kShown = 3;
  std::string out =
      fmt::format("bytes: file {} ({} bytes)", HumanBytes(ledger.actual_file), ledger.actual_file);
  if (ledger.float_weights > 0)
    out += fmt::format(", {:.3f} of the float32 weights' {}",
                       static_cast<double>(ledger.actual_file) / ledger.float_weights,
                       HumanBytes(ledger.float_weights));
  out += "\n";
  if (ledger.unpruned_weights > 0 && ledger.float_weights > 0)
    out += fmt::format("pruned channels: of {} of float32 weights {} were left, {:.3f}\n",
                       HumanBytes(ledger.unpruned_weights), HumanBytes(ledger.float_weights),
                       static_cast<double>(ledger.float_weights) / ledger.unpruned_weights);
  TextTable table({">bytes", ">share", "what", "why, and what helps"});
  for (const ByteCause& c : ledger.causes) {
    table.Row({std::to_string(c.bytes),
               fmt::format("{:.1f}%", 100.0 * c.bytes / std::max<int64_t>(ledger.actual_file, 1)),
               c.code,
               c.gain_bytes > 0 ? fmt::format("{} {} ({} bytes)", c.sentence, c.fix, c.gain_bytes)
                                : c.sentence});
    for (size_t i = 0;
         i < c.parts.size() && i < kShown && (c.parts.size() > 1 || c.code == "left-float"); ++i)
      table.Row({"", "", "",
                 fmt::format("{} {}{}{}", c.parts[i].bytes, c.parts[i].name,
                             c.parts[i].why.empty() ? "" : ": ", c.parts[i].why)});
    if (c.parts.size() > kShown)
      table.Row({"", "", "", fmt::format("... {} more", c.parts.size() - kShown)});
  }
  table.Row({std::to_string(ledger.unexplained_bytes), "", "unexplained", ""});
  return out + table.ToString();
}

std::string ToText(const StepProfile& profile, const Limits& limits, bool sort, int limit) {
  std::vector<const StepTime*> steps;
  for (const StepTime& s : profile.steps) steps.push_back(&s);
  if (sort)
    std::sort(steps.begin(), steps.end(), [](auto* a, auto* b) {
      return a->ms != b->ms ? a->ms > b->ms : a < b;
    });  // by place in the program where equal
  if (limit >= 0 && steps.size() > static_cast<size_t>(limit)) steps.resize(limit);
  TextTable table(
      {"step", "op", "shape", "precision", "kernel", ">ms", ">share", ">GOPS", ">roofline"});
  for (const StepTime* s : steps) {
    const std::string kernel = s->variant.empty() ? s->kernel : s->kernel + " " + s->variant;
    table.Row(
        {Shortened(s->name), s->op, s->shape, PrecisionName(s->precision), kernel,
         fmt::format("{:.4f}", s->ms), fmt::format("{:.1f}%", 100 * s->share),
         s->macs > 0 ? fmt::format("{:.0f}", s->gops) : "",
         // "100%+": faster than the measured limits allow.
         fmt::format("{:.0f}%{}", 100 * s->roofline_share, s->beyond_roofline > 1.005 ? "+" : "")});
  }
  const std::string disturbance = ToText(profile.disturbance);
  return table.ToString() + (disturbance.empty() ? "" : "disturbed: " + disturbance + "\n") +
         fmt::format(
             "total {} ms per run, sum of steps {} ms; peaks: int8 {:.0f} GOPS, float32 {:.0f} "
             "GFLOPS, L3 {:.0f} GB/s, DRAM {:.0f} GB/s\n",
             MsText(profile.total_ms), MsText(profile.steps_ms), limits.int8_gops,
             limits.fp32_gflops, limits.l3_read_gbps, limits.dram_read_gbps);
}

}  // namespace evoq
