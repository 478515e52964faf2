// What a language model's key and value caches hold (docs/llm.md, Caches).
#pragma once

#include <string>
#include <string_view>

#include "graph/graph.h"

namespace evoq {

// float32, float16 (fp16, f16) or int8 (q8_0); "" is kUndefined, as the model has it. Errors:
// kUsage for another name.
Result<DType> ParseCacheType(std::string_view name);

// Whether the graph has caches, all of this type.
bool HasCaches(const Graph& graph, DType type);

// Of a graph with the inputs and outputs of docs/llm.md: its caches become what `type` says,
// float32 ones before: keys and values are narrowed as they come into the cache. kUndefined, or
// what it is already: nothing changes. int8 caches past_NAME.N have scales beside them,
// past_NAME_scale.N float16[batch, key heads, context, blocks], which are extended like them.
// Errors: kUnsupported for a graph without caches, for caches that are narrow in another way, and
// where something else than attention reads one.
Status SetCacheType(Graph& graph, DType type);

}  // namespace evoq
