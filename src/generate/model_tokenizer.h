// The tokenizer that a language model carries with it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "generate/cached_model.h"
#include "graph/graph.h"
#include "tokenizer/tokenizer.h"

namespace evoq {

// What text means to a model, and when it has said all it had to say.
struct ModelTokenizer {
  std::optional<Tokenizer> tokenizer;  // empty where the model carries none
  std::vector<int64_t> ends;           // the model's own end tokens, and the tokenizer's
};

// Of the graph's facts (docs/llm.md), or of a file or folder where `path` is not empty. Errors:
// those of reading it.
Result<ModelTokenizer> TokenizerOf(const Graph& graph, const std::string& path = "");
// As above; the tokenizer has a number for each row of the model, also without facts that say so.
Result<ModelTokenizer> TokenizerOf(const CachedModel& model, const std::string& path = "");

// Why the tokenizer that a graph carries cannot be read, for a warning; nothing where it can, or
// where there is none.
std::optional<std::string> UnreadTokenizer(const Graph& graph);

// Of a file by what it holds: a GGUF file or an .etm that carries one; else Tokenizer::Load.
// Errors: those of reading it; kUnsupported for a model that carries none.
Result<Tokenizer> LoadTokenizer(const std::string& path);

}  // namespace evoq
