// Names that exporters give to the inputs and outputs of a language model with caches: one row for
// each way, in llm/cache_names.inc.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "graph/graph.h"

namespace evoq {

struct CacheNames {
  const char* name;
  const char* tokens;     // int64[batch, sequence]
  const char* mask;       // [batch, past + sequence], 1 where there is a token; may be missing
  const char* positions;  // int64[batch, sequence]; may be missing
  // Caches [batch, heads, past, size] of layer {}, and the same with this sequence's.
  const char *past_key, *past_value, *present_key, *present_value;
  const char* logits;  // [batch, sequence, vocabulary]
};

std::span<const CacheNames* const> AllCacheNames();

// `pattern` with the layer's number.
std::string OfLayer(std::string_view pattern, int64_t layer);

// The row whose tokens and first cache the graph has as inputs; nullptr where there is none.
const CacheNames* FindCacheNames(const Graph& graph);

// Adds what stands beside an ONNX file for generating text, as facts of docs/llm.md but
// llm.architecture: the tokenizer's files, and what config.json says of the context and of tokens
// that begin and end a text. Errors: of files that are no JSON; kTooLarge.
Status AddFactsBeside(const std::string& path, const CacheNames& names, Graph& graph);

}  // namespace evoq
