// Networks that training can begin from nothing: one row (NetworkDef), named by one line in
// train/networks.inc.
#pragma once

#include <cstdint>
#include <span>

#include "graph/graph.h"
#include "train/recipe.h"

namespace evoq {

struct NetworkDef {
  const char* name;
  const char* doc;  // one sentence
  // The graph with random weights: input "input" [N, ...], output "logits" [N, classes]; of texts,
  // input "input_ids" [N, T], output "logits" [N, T, classes], one class for each token.
  Graph (*build)(uint64_t seed, int64_t classes);
  const char* preprocess;  // how images become its input (docs/preprocess.md); "": texts
  // What its training begins from; options change it.
  void (*recipe)(TrainingRecipe& recipe);
};

std::span<const NetworkDef* const> AllNetworks();

}  // namespace evoq
