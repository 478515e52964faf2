// Which passes run on a graph. Its user chooses once; the choice is a fact of the graph,
// kPassChoice (graph/choices.h), and holds wherever passes run: {"disable": [...], "opt_level": N},
// either left out where it says nothing.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "graph/choices.h"

namespace evoq {

// All passes run.
inline constexpr int kMostOptLevel = 3;

// A pass to leave out.
struct Disabled {
  std::string pass;  // a glob pattern of names of passes
  // A glob pattern of the nodes that the passes leave alone, on others they run; "": all. Names are
  // those of the model's file.
  std::string node;
  std::string op;  // the same of operators: "Conv"; "" asks for no operator

  bool everywhere() const { return node.empty() && op.empty(); }
};
// "PASS", "PASS@NODE" or "PASS@op=OPERATOR".
Disabled ParseDisabled(const std::string& text);
bool Matches(const Disabled& disabled, const Node& node);

struct PassChoice {
  std::vector<std::string> disable;  // each as ParseDisabled reads it
  int opt_level = -1;  // passes of a higher PassDef::level are left out; -1: none said

  bool empty() const { return disable.empty() && opt_level < 0; }
};

// Adds a choice to what the graph says: passes that either leaves out are left out, a level
// replaces the level. Errors: kUsage, naming the nearest, for a pass, an operator and a level
// that there is not, and for a node that the graph and its subgraphs lack.
Status ChoosePasses(Graph& graph, const PassChoice& choice);

// What the graph says. Passes that this version of evoq does not have may be among them. Errors:
// kInvalidInput for a fact that is no choice.
Result<PassChoice> ChosenPasses(const Graph& graph);

}  // namespace evoq
