// Well-known architectures with seeded random weights: for benchmarks and tests of speed and size,
// not of accuracy.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "base/result.h"
#include "graph/graph.h"

namespace evoq {

struct ZooOptions {
  int64_t sequence = 128;      // tokens of bert-base,
  bool free_sequence = false;  // or up to so many
  uint32_t seed = 1;
};

// One row per architecture, in its own file or with its family; named in zoo/zoo.inc.
struct ZooModel {
  const char* name;
  const char* doc;
  // Exactly one of them: the graph, or a folder of a language model (docs/llm.md).
  Graph (*build)(const ZooOptions& options) = nullptr;
  Status (*write)(const ZooOptions& options, const std::string& folder) = nullptr;
};

std::span<const ZooModel* const> AllZooModels();
const ZooModel* FindZooModel(std::string_view name);

}  // namespace evoq
