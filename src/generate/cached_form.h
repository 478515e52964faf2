// Exported language models whose caches grow with each run, in the form that writing text needs:
// docs/llm.md's, with caches of one size that a run extends in place.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "engine/engine.h"
#include "llm/cache_names.h"

namespace evoq {

// Of a graph on which the passes of both stages have run. What takes the past and the mask must be
// Attention with its past as inputs, or keys and values written behind each item's past
// (TensorScatter); masks must be causal ones, perhaps with a window, which is tried at some sizes
// and around each large number that they are computed from. Errors: kUnsupported, naming the node
// or value that is something else.
Result<Graph> CachedForm(const Graph& lowered, const CacheNames& names);

// Why no text can be written with such a graph, where it has no cached form; none for one that has,
// and for a graph without such caches.
std::optional<std::string> NoTextSentence(const Graph& lowered);

// The engine, or one of its graph's cached form where the graph has caches by other names, and with
// caches of `type` (llm/cache_type.h). `path` is for messages.
Result<std::unique_ptr<Engine>> InCachedForm(std::unique_ptr<Engine> engine,
                                             const std::string& path, const std::string& type = "");

}  // namespace evoq
