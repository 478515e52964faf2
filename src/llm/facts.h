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
  // Of a model that makes a vector of a text (llm/pooling.h): what stands before the text, how many
  // tokens it is cut to (0: it is not), and whether the vector is scaled to length 1.
  std::string prompt;
  int64_t max_length = 0;
  bool normalize = false;
};
// An encoder, or what makes embeddings, whose folder was imported: it has facts, but writes no
// text.
bool IsTextEncoder(const Graph& graph);
// Errors: kInvalidInput: the graph is neither a language model nor an encoder, or a fact is no
// number or no base64.
Result<LanguageModelFacts> ReadFacts(const Graph& graph);

}  // namespace evoq
