// What the fact llm.notes says of tensors that were rounded when they were read.
#pragma once

#include <optional>
#include <string>

#include "graph/graph.h"

namespace evoq {

struct RoundedTensor {
  std::string name, format;
  double share = 0;  // BlockLoss's
};

// A line of the fact.
std::string RoundingNote(const RoundedTensor& tensor);
// What those lines say together, as one sentence; nothing where there is none.
std::optional<std::string> RoundedSentence(const Graph& graph);

}  // namespace evoq
