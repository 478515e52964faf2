#include <algorithm>
#include <map>

#include "foreign/forecasts/qdq.h"
#include "foreign/forecasts/rule.h"
#include "reference/reference.h"

namespace evoq {

#define EVOQ_ROW_TYPE PlacementRule
#define EVOQ_ROW_FILE "foreign/forecasts/rules.inc"
#include "base/rows.inl.h"

std::span<const PlacementRule* const> AllPlacementRules() { return kAllRows; }

std::vector<Fault> FaultsWhere(
    const PlacementCase& c, const std::function<std::optional<Fault>(NodeId, const Node&)>& find) {
  std::vector<Fault> faults;
  for (NodeId id : c.graph.order()) {
    if (c.taken.count(id)) continue;
    std::optional<Fault> fault = find(id, c.graph.node(id));
    if (!fault) continue;
    fault->node = id;
    faults.push_back(std::move(*fault));
  }
  return faults;
}

namespace {

bool MayBeInteger(const PlacementCase& c, NodeId id) {
  if (OnIntegers(c.fates.at(id))) return true;
  const Node& node = c.graph.node(id);
  return IsWeighted(node) && ReadQuantType(c.graph, node.input(0)) != nullptr &&
         WeightQuantType(c.graph, node) != nullptr;
}

bool Converts(const Node& node) { return IsQuantize(node) || IsDequantize(node); }

}  // namespace

bool NearIntegers(const PlacementCase& c, const Node& node) {
  for (ValueId v : node.inputs) {
    if (!IsActivation(c.graph, v)) continue;
    NodeId producer = c.graph.value(v).producer;
    while (c.graph.alive(producer) && Converts(c.graph.node(producer)))
      producer = c.graph.value(c.graph.node(producer).input(0)).producer;
    if (c.graph.alive(producer) && MayBeInteger(c, producer)) return true;
  }
  std::vector<ValueId> ahead(node.outputs.begin(), node.outputs.end());
  for (size_t i = 0; i < ahead.size(); ++i) {
    if (!ahead[i].valid()) continue;
    for (NodeId user : c.graph.value(ahead[i]).users) {
      if (Converts(c.graph.node(user)))
        ahead.push_back(c.graph.node(user).outputs[0]);
      else if (MayBeInteger(c, user))
        return true;
    }
  }
  return false;
}

namespace {

bool Names(const PlacementRule& rule, std::string_view runtime) {
  return (" " + std::string(rule.runtimes) + " ").find(" " + std::string(runtime) + " ") !=
         std::string::npos;
}

}  // namespace

int Examination::repairable() const {
  int count = 0;
  for (const PlacementFinding& finding : findings) count += finding.repairable;
  return count;
}

Examination Examine(const Graph& graph, const Runtime& runtime) {
  Examination result;
  result.runtime = &runtime;
  result.fates = runtime.forecast(graph);
  PlacementCase c{graph, runtime, result.fates, {}};
  for (const PlacementRule* rule : AllPlacementRules()) {
    if (!Names(*rule, runtime.name)) continue;
    PlacementFinding finding{.rule = rule, .faults = rule->find(c)};
    if (finding.faults.empty()) continue;
    for (Fault& fault : finding.faults) {
      fault.repairable = fault.repairable && rule->repair != nullptr;
      finding.repairable += fault.repairable;
      c.taken.insert(fault.node);
    }
    result.findings.push_back(std::move(finding));
  }
  return result;
}

namespace {

Status Settle(Graph& graph) {
  EVOQ_TRY(graph.Sort());
  graph.RemoveDeadNodes();
  EVOQ_TRY(graph.Sort());
  EVOQ_TRY(InferTypes(graph));
  return graph.Verify();
}

// How often a rule repaired a node: rules that undo each other's repairs end at a limit. (What adds
// nodes repairs operators, whose number no repair raises.)
using RepairCounts = std::map<std::pair<const PlacementRule*, NodeId>, int>;
constexpr int kMostRepairsOfANode = 8;

// The places of one rule. What it changes is forecast anew before the next rule looks.
Result<int> RepairOne(Graph& graph, const Runtime& runtime, const PlacementRule& rule,
                      RepairCounts& counts) {
  const Examination seen = Examine(graph, runtime);
  int places = 0;
  for (const PlacementFinding& finding : seen.findings) {
    if (finding.rule != &rule) continue;
    const PlacementCase c{graph, runtime, seen.fates, {}};
    for (const Fault& fault : finding.faults) {
      int& count = counts[{&rule, fault.node}];
      if (!fault.repairable || !graph.alive(fault.node) || count == kMostRepairsOfANode) continue;
      EVOQ_ASSIGN(const bool changed, rule.repair(graph, c, fault));
      count += changed;
      places += changed;
    }
  }
  if (places > 0) EVOQ_TRY(WithContext(Settle(graph), rule.code));
  return places;
}

// The rows of a report: one for what a rule repaired, one for what was taken back.
Repair& RowOf(const PlacementRule* rule, bool made, std::vector<Repair>& repairs) {
  auto row = std::find_if(repairs.begin(), repairs.end(),
                          [&](const Repair& r) { return r.rule == rule && r.made == made; });
  return row != repairs.end() ? *row : repairs.emplace_back(Repair{rule, 0, made, std::nullopt});
}

}  // namespace

Result<Repairs> RepairPlacement(Graph& graph, const Runtime& runtime,
                                const RepairOptions& options) {
  Repairs result;
  RepairCounts counts;
  SampleOutputs original, current;
  if (options.run && Examine(graph, runtime).repairable() > 0) {
    EVOQ_ASSIGN(original, options.run(graph));
    current = original;
  }
  std::set<const PlacementRule*> taken_back;
  for (int places = 1; places > 0;) {
    places = 0;
    for (const PlacementRule* rule : AllPlacementRules()) {
      if (rule->repair == nullptr || !Names(*rule, runtime.name) || taken_back.count(rule))
        continue;
      const Graph before = graph;
      EVOQ_ASSIGN(const int changed, RepairOne(graph, runtime, *rule, counts));
      if (changed == 0) continue;
      std::optional<OutputChange> change;
      bool made = true;
      if (options.run) {
        EVOQ_ASSIGN(SampleOutputs outputs, WithContext(options.run(graph), rule->code));
        const std::vector<OutputChange> changes = CompareOutputs(graph, current, outputs);
        if (const OutputChange* worst = Worst(changes)) change = *worst;
        made = options.accept_changes || !change || change->exact();
        if (made) current = std::move(outputs);
      }
      Repair& row = RowOf(rule, made, result.repairs);
      row.places += changed;
      if (change && (!row.change || change->snr_db < row.change->snr_db)) row.change = change;
      if (made) {
        places += changed;
      } else {
        graph = before;
        taken_back.insert(rule);
      }
    }
  }
  if (!original.empty()) result.changes = CompareOutputs(graph, original, current);
  return result;
}

}  // namespace evoq
