#include "foreign/forecasts/forecast_text.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>

#include "base/printable.h"
#include "base/text.h"
#include "report/table.h"

namespace evoq {
namespace {

using nlohmann::json;

constexpr Fate kShown[] = {Fate::kInteger, Fate::kMoved, Fate::kAbsorbed,
                           Fate::kFloat,   Fate::kHost,  Fate::kRefused};

const char* Says(Fate fate) {
  switch (fate) {
    case Fate::kInteger: return "compute on integers";
    case Fate::kMoved: return "pass integers on";
    case Fate::kAbsorbed: return "become part of others";
    case Fate::kFloat: return "compute in floating point";
    case Fate::kHost: return "run on the CPU";
    case Fate::kRefused: return "are refused: the file is not loaded";
    case Fate::kNone: break;
  }
  return "";
}

// "Conv 20, Add 3": operators of one fate, most frequent first.
std::string Operators(const Graph& graph, const Fates& fates, Fate fate) {
  std::map<std::string, int> counts;
  for (NodeId id : graph.order()) {
    if (fates.at(id) == fate) ++counts[graph.node(id).op];
  }
  std::vector<std::pair<std::string, int>> sorted(counts.begin(), counts.end());
  std::sort(sorted.begin(), sorted.end(), [](const auto& a, const auto& b) {
    return std::tie(b.second, a.first) < std::tie(a.second, b.first);
  });
  std::string out;
  constexpr size_t kMost = 8;
  for (size_t i = 0; i < sorted.size() && i < kMost; ++i)
    out += fmt::format("{}{} {}", i ? ", " : "", sorted[i].first, sorted[i].second);
  if (sorted.size() > kMost) out += fmt::format(" and {} more", sorted.size() - kMost);
  return out;
}

std::string Places(const Graph& graph, const std::vector<Fault>& faults) {
  constexpr size_t kMost = 4;
  std::string out;
  for (size_t i = 0; i < faults.size() && i < kMost; ++i) {
    out += (i ? ", " : "") + graph.node(faults[i].node).name;
    if (!faults[i].detail.empty()) out += fmt::format(" ({})", faults[i].detail);
  }
  if (faults.size() > kMost) out += fmt::format(" and {} more", faults.size() - kMost);
  return out;
}

json Names(const Graph& graph, const std::vector<NodeId>& nodes) {
  json out = json::array();
  for (NodeId id : nodes) out.push_back(graph.node(id).name);
  return out;
}

}  // namespace

json ToJson(const Graph& graph, const Examination& e) {
  json counts, nodes = json::array(), copies = json::array(), findings = json::array();
  for (Fate fate : kShown) counts[FateName(fate)] = e.fates.Count(fate);
  for (NodeId id : graph.order()) {
    const Fate fate = e.fates.at(id);
    if (fate != Fate::kNone)
      nodes.push_back(
          {{"name", graph.node(id).name}, {"op", graph.node(id).op}, {"fate", FateName(fate)}});
  }
  for (const HostCopy& copy : e.fates.copies)
    copies.push_back(
        {{"value", graph.value(copy.value).name}, {"to", copy.to_host ? "host" : "device"}});
  for (const PlacementFinding& f : e.findings) {
    json places = json::array();
    for (const Fault& fault : f.faults)
      places.push_back({{"name", graph.node(fault.node).name},
                        {"detail", fault.detail},
                        {"repairable", fault.repairable}});
    findings.push_back({{"code", f.rule->code},
                        {"places", places},
                        {"repairable", f.repairable},
                        {"sentence", f.rule->sentence},
                        {"fix", f.rule->fix},
                        {"source", f.rule->source}});
  }
  return {{"target", e.runtime->name},
          {"source", e.runtime->source},
          {"fates", counts},
          {"nodes", nodes},
          {"conversions", Names(graph, e.fates.conversions)},
          {"weights_dequantized", Names(graph, e.fates.weights)},
          {"copies", copies},
          {"findings", findings}};
}

std::string ToText(const Graph& graph, const Examination& e) {
  std::string out = fmt::format("{}: {}\n", e.runtime->name, e.runtime->doc);
  TextTable fates({">nodes", "that", "operators"});
  for (Fate fate : kShown) {
    if (const int count = e.fates.Count(fate); count > 0)
      fates.Row({std::to_string(count), Says(fate), Operators(graph, e.fates, fate)});
  }
  out += fates.ToString();
  if (e.fates.Count(Fate::kRefused) > 0)
    out +=
        "nothing of it runs as it is: the others are told as if the refused nodes were Q/DQ, or "
        "ran "
        "in float\n";
  out += fmt::format(
      "conversions between them that run: {}; weights dequantized at every inference: {}",
      e.fates.conversions.size(), e.fates.weights.size());
  if (!e.fates.copies.empty()) {
    const auto to_host = std::count_if(e.fates.copies.begin(), e.fates.copies.end(),
                                       [](const HostCopy& copy) { return copy.to_host; });
    out += fmt::format("; Memcpy nodes: {} ({} to the host)", e.fates.copies.size(), to_host);
  }
  out += "\n";
  if (e.findings.empty()) return out + "no known fault of Q/DQ placement\n";
  TextTable table({">places", ">repairable", "cause", "where"});
  for (const PlacementFinding& f : e.findings)
    table.Row({std::to_string(f.faults.size()), std::to_string(f.repairable), f.rule->code,
               Places(graph, f.faults)});
  out += "\n" + table.ToString();
  for (const PlacementFinding& f : e.findings)
    out += fmt::format("\n{}: {}\n  fix: {}\n  source: {}\n", f.rule->code, f.rule->sentence,
                       f.rule->fix, f.rule->source);
  return out;
}

namespace {

std::string Decibel(double snr_db) {
  return std::isfinite(snr_db) ? fmt::format("{:.1f} dB", snr_db) : snr_db > 0 ? "equal" : "-";
}

std::string Effect(const OutputChange& c) {
  if (c.max_difference == 0) return "none";
  return fmt::format("{}{}: signal to noise {}, at most {:.3g} of {:.3g}",
                     c.exact() ? "rounding of " : "", c.output, Decibel(c.snr_db), c.max_difference,
                     c.largest);
}

json Finite(double value) { return std::isfinite(value) ? json(value) : json(); }

json ToJson(const OutputChange& c) {
  return {{"output", c.output},
          {"exact", c.exact()},
          {"snr_db", Finite(c.snr_db)},
          {"max_difference", Finite(c.max_difference)},
          {"largest", c.largest}};
}

}  // namespace

std::string ToText(const Repairs& repairs, const std::string& on) {
  if (repairs.repairs.empty()) return "nothing to repair\n";
  TextTable table({">places", "cause", "repaired", "change of the outputs"});
  bool left = false;
  for (const Repair& r : repairs.repairs) {
    table.Row({std::to_string(r.places), r.rule->code, r.made ? "yes" : "no",
               r.change ? Effect(*r.change) : "not compared"});
    left = left || !r.made;
  }
  std::string out = table.ToString();
  if (!on.empty()) out += fmt::format("compared on {}, by the reference evaluator\n", on);
  for (const OutputChange& c : repairs.changes) {
    if (!c.exact())
      out += FormatPrintable(
          "all repairs together change {}: signal to noise {}, at most {:.3g} of {:.3g}\n",
          c.output, Decibel(c.snr_db), c.max_difference, c.largest);
  }
  if (left)
    out +=
        "what changes the outputs is not repaired: it may cost accuracy. --accept-changes repairs "
        "it; compare with `evoq eval --reference` then\n";
  return out;
}

json ToJson(std::span<const Repair> repairs) {
  json out = json::array();
  for (const Repair& r : repairs)
    out.push_back({{"code", r.rule->code},
                   {"places", r.places},
                   {"made", r.made},
                   {"change", r.change ? ToJson(*r.change) : json()}});
  return out;
}

json ToJson(std::span<const OutputChange> changes) {
  json out = json::array();
  for (const OutputChange& c : changes) out.push_back(ToJson(c));
  return out;
}

}  // namespace evoq
