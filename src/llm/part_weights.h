// What the parts of a language model (llm/parts.h) hold.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "graph/graph.h"

namespace evoq {

struct PartWeights {
  std::string part;                           // as PartOf(graph, constant) gives it
  int64_t parameters = 0;                     // those of a tied head are the embedding's
  int64_t bytes = 0;                          // of them as stored, packing included
  int64_t scale_bytes = 0;                    // of their scales, beside that
  std::map<std::string, int64_t> precisions;  // parameters by element type
};

// Of all constants that are numbers on which the model computes (no sizes, axes and indices), in
// ModelParts()'s order; what several parts share comes behind its first one.
std::vector<PartWeights> WeightsByPart(const Graph& graph);

// Whether the constant is the head of a model whose head is the embedding: the same parameters once
// more, until the two are one constant.
bool IsTiedHead(const Graph& graph, ValueId constant);

// Of a constant as stored with its scales, which its own bytes may hold.
int64_t BytesWithScales(const Tensor& constant);

}  // namespace evoq
