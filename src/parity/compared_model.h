// A model whose inner values are compared with another's.
#pragma once

#include <string>
#include <vector>

#include "models/models.h"
#include "quant/quant.h"

namespace evoq {

// Whose values are looked at.
enum class ComparedAs {
  kGiven,      // those that the file names, each computed on its own by the kernels
  kRun,        // those of the steps that run: passes, layouts and packed weights as they are
  kReference,  // those that the file names, by the reference evaluator
};

struct ComparedModel {
  std::string path;  // for messages
  Graph graph;       // typed
  std::vector<Plan> plans;
  std::string in_regions;  // as of Engine
  ComparedAs as = ComparedAs::kRun;
  int threads = 0;

  // Runs the graph, or one made from it by Tap or CutAt.
  Result<RunFn> Runner(Graph made) const;
};

// An .etm is always as it runs, and so is a language model whose caches are brought into another
// form first. Errors: those of import; kUsage for kReference of either.
Result<ComparedModel> LoadCompared(const std::string& path, ComparedAs as, int threads);

}  // namespace evoq
