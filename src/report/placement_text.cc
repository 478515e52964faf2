#include "report/placement_text.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "base/text.h"
#include "report/table.h"

namespace evoq {
namespace {

using nlohmann::json;

constexpr Fate kShown[] = {Fate::kInteger, Fate::kMoved, Fate::kAbsorbed, Fate::kFloat, Fate::kHost};

const char* Says(Fate fate) {
  switch (fate) {
    case Fate::kInteger: return "compute on integers";
    case Fate::kMoved: return "pass integers on";
    case Fate::kAbsorbed: return "become part of others";
    case Fate::kFloat: return "compute in floating point";
    case Fate::kHost: return "run on the CPU";
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
  std::sort(sorted.begin(), sorted.end(), [](const auto& a, const auto& b) { return std::tie(b.second, a.first) < std::tie(a.second, b.first); });
  std::string out;
  constexpr size_t kMost = 8;
  for (size_t i = 0; i < sorted.size() && i < kMost; ++i) out += fmt::format("{}{} {}", i ? ", " : "", sorted[i].first, sorted[i].second);
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
    if (fate != Fate::kNone) nodes.push_back({{"name", graph.node(id).name}, {"op", graph.node(id).op}, {"fate", FateName(fate)}});
  }
  for (const HostCopy& copy : e.fates.copies)
    copies.push_back({{"value", graph.value(copy.value).name}, {"to", copy.to_host ? "host" : "device"}});
  for (const PlacementFinding& f : e.findings) {
    json places = json::array();
    for (const Fault& fault : f.faults)
      places.push_back({{"name", graph.node(fault.node).name}, {"detail", fault.detail}, {"repairable", fault.repairable}});
    findings.push_back({{"code", f.rule->code}, {"places", places}, {"repairable", f.repairable}, {"sentence", f.rule->sentence},
                        {"fix", f.rule->fix}, {"source", f.rule->source}});
  }
  return {{"target", e.runtime->name}, {"source", e.runtime->source}, {"fates", counts}, {"nodes", nodes},
          {"conversions", Names(graph, e.fates.conversions)}, {"weights_dequantized", Names(graph, e.fates.weights)}, {"copies", copies},
          {"findings", findings}};
}

std::string ToText(const Graph& graph, const Examination& e) {
  std::string out = fmt::format("{}: {}\n", e.runtime->name, e.runtime->doc);
  TextTable fates({">nodes", "that", "operators"});
  for (Fate fate : kShown) {
    if (const int count = e.fates.Count(fate); count > 0) fates.Row({std::to_string(count), Says(fate), Operators(graph, e.fates, fate)});
  }
  out += fates.ToString();
  out += fmt::format("conversions between them that run: {}; weights dequantized at every inference: {}", e.fates.conversions.size(),
                     e.fates.weights.size());
  if (!e.fates.copies.empty()) {
    const auto to_host = std::count_if(e.fates.copies.begin(), e.fates.copies.end(), [](const HostCopy& copy) { return copy.to_host; });
    out += fmt::format("; Memcpy nodes: {} ({} to the host)", e.fates.copies.size(), to_host);
  }
  out += "\n";
  if (e.findings.empty()) return out + "no known fault of Q/DQ placement\n";
  TextTable table({">places", ">repairable", "cause", "where"});
  for (const PlacementFinding& f : e.findings)
    table.Row({std::to_string(f.faults.size()), std::to_string(f.repairable), f.rule->code, Places(graph, f.faults)});
  out += "\n" + table.ToString();
  for (const PlacementFinding& f : e.findings)
    out += fmt::format("\n{}: {}\n  fix: {}\n  source: {}\n", f.rule->code, f.rule->sentence, f.rule->fix, f.rule->source);
  return out;
}

std::string ToText(std::span<const Repair> repairs) {
  if (repairs.empty()) return "nothing to repair\n";
  TextTable table({">places", "repaired"});
  for (const Repair& repair : repairs) table.Row({std::to_string(repair.places), repair.rule->code});
  return table.ToString();
}

json ToJson(std::span<const Repair> repairs) {
  json out = json::array();
  for (const Repair& repair : repairs) out.push_back({{"code", repair.rule->code}, {"places", repair.places}});
  return out;
}

}  // namespace evoq
