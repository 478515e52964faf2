// How a folder of sentence-transformers makes one vector of what an encoder gives for each token.
#pragma once

#include <string>

#include "graph/graph.h"

namespace evoq {

// Puts into the graph's facts what modules.json and its Pooling's config.json say, or, without
// modules.json, 1_Pooling/config.json: "llm.pooling" ("mean", "cls", "max", "mean-sqrt", "last", or
// what the folder calls it where evoq has no such pooling) and "llm.normalize" ("1": vectors are
// scaled to length 1). Nothing where the folder has neither. Errors: those of reading;
// kInvalidInput for JSON of another form.
Status ReadPooling(const std::string& folder, Graph& graph);

}  // namespace evoq
