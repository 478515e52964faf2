// Faults of Q/DQ placement, told from the graph alone for a runtime, and their repairs: one row
// each, named by one line in foreign/forecasts/rules.inc.
#pragma once

#include <functional>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "foreign/forecasts/change.h"
#include "foreign/forecasts/runtime.h"

namespace evoq {

// What a rule sees. A node belongs to the first rule that names it.
struct PlacementCase {
  const Graph& graph;
  const Runtime& runtime;
  const Fates& fates;
  std::set<NodeId> taken;

  bool IsFor(std::string_view name) const { return name == runtime.name; }
  // A free node that computes in floating point.
  bool IsFloat(NodeId id) const { return fates.at(id) == Fate::kFloat && !taken.count(id); }
};

struct Fault {
  NodeId node = {};
  std::string detail = {};  // "" where the node's name says it all
  bool repairable = true;   // of rules with a repair: the graph holds what the repair needs
};

// For rules: whether an operator beside the node, behind or before pairs, is on integers or would
// be if the node were (a weighted operator of quantized data and weights). Where none is, integers
// in the node cost the conversions around it and win nothing.
bool NearIntegers(const PlacementCase& c, const Node& node);

// For rules: a fault at each node that no rule has named and for which `find` gives one (it may
// leave out Fault::node).
std::vector<Fault> FaultsWhere(
    const PlacementCase& c,
    const std::function<std::optional<Fault>(NodeId id, const Node& node)>& find);

struct PlacementRule {
  const char* code;
  const char* runtimes;  // names of Runtime rows, with spaces between
  const char* sentence;  // what is wrong
  const char* fix;       // what helps
  const char* source;    // where the fact can be checked, with its version
  std::vector<Fault> (*find)(const PlacementCase& c);
  // Changes the graph; nullptr where only the model's maker can. False when an earlier repair made
  // it superfluous. The driver sorts, removes dead nodes, infers types and verifies afterwards.
  Result<bool> (*repair)(Graph& graph, const PlacementCase& c, const Fault& fault) = nullptr;
};
std::span<const PlacementRule* const> AllPlacementRules();

struct PlacementFinding {
  const PlacementRule* rule = nullptr;
  std::vector<Fault> faults;
  int repairable = 0;
};

struct Examination {
  const Runtime* runtime = nullptr;
  Fates fates;
  std::vector<PlacementFinding> findings;  // in the rules' order

  int repairable() const;
};

// A graph as imported (no passes).
Examination Examine(const Graph& graph, const Runtime& runtime);

// What the places of one rule were, or would have been, repaired for.
struct Repair {
  const PlacementRule* rule = nullptr;
  int places = 0;
  // False: it would change outputs, which was not accepted; the places stay as they are.
  bool made = true;
  // Of the worst output, against the graph just before; nothing where it was not measured.
  std::optional<OutputChange> change;
};

struct RepairOptions {
  // Runs a graph, as it is, on the samples to measure with. Without it nothing is measured and all
  // repairs are made.
  std::function<Result<SampleOutputs>(const Graph& graph)> run = nullptr;
  bool accept_changes = false;  // also make repairs that change outputs (OutputChange::exact)
};

struct Repairs {
  std::vector<Repair> repairs;  // for each rule that has something to repair, made or not
  // Of all repairs made together, by output; empty where it was not measured.
  std::vector<OutputChange> changes;
};

// Repairs what can be repaired, rule by rule, until nothing is left to repair or nothing changes. A
// repair that changes outputs is taken back unless that is accepted. Errors: those of `run`.
Result<Repairs> RepairPlacement(Graph& graph, const Runtime& runtime,
                                const RepairOptions& options = {});

}  // namespace evoq
