// What a graph's metadata says of a language model, for who generates text with it (docs/llm.md).
#pragma once

#include <map>
#include <string>

#include "graph/graph.h"
#include "llm/language_model.h"

namespace evoq {

void SetFacts(const LanguageModel& model, Graph& graph);

// What SetFacts wrote.
struct LanguageModelFacts {
  std::string architecture;
  int64_t context = 0, vocabulary = 0;
  std::vector<int64_t> begin, end;
  std::string chat_template;
  std::map<std::string, std::string> files;  // of the tokenizer: name -> bytes
  // Of an encoder: how its vectors become one (llm/pooling.h), "": nobody says.
  std::string pooling;
  bool normalize = false;
};
// An encoder whose folder was imported: it has facts, but writes no text.
bool IsTextEncoder(const Graph& graph);
// Errors: kInvalidInput: the graph is neither a language model nor an encoder, or a fact is no
// number or no base64.
Result<LanguageModelFacts> ReadFacts(const Graph& graph);

}  // namespace evoq
