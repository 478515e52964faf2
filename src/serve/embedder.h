// Texts into a served model that gives vectors of them, and vectors out.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "generate/model_tokenizer.h"
#include "serve/batch.h"

namespace evoq::serve {

class Embedder {
 public:
  // Of a typed graph; nothing where it gives no vectors: where it has not the inputs input_ids,
  // attention_mask and perhaps token_type_ids, int64[batch, sequence], alone, and an output
  // sentence_embedding float32[batch, width], or last_hidden_state float32[batch, sequence, width],
  // else such a one as its only one. Errors: those of the facts and of the tokenizer that it
  // carries.
  static Result<std::optional<Embedder>> Of(const Graph& graph);

  // Why there are no embeddings although there is an embedder; "" where there are.
  const std::string& why_not() const { return why_not_; }
  int64_t context() const { return context_; }        // tokens of a text at most; 0: not known
  int64_t vocabulary() const { return vocabulary_; }  // 0: not known
  int64_t width() const { return width_; }            // 0: not known

  // With the prompt that the model puts before a text, and the tokens that stand around it, which
  // stay where the text is cut to the length that the model was made for. Errors:
  // kUnsupported without a tokenizer.
  Result<std::vector<int64_t>> TokensOf(std::string_view text) const;
  // A run of one text, by the graph's order.
  Tensors InputsOf(const std::vector<int64_t>& tokens) const;
  // Of a run's outputs: the sentence_embedding, or the mean of the tokens' vectors, summed in
  // double, in order. The first `dimensions` numbers of it (0: all), which are scaled to length 1
  // where the model does that to all of them.
  std::vector<float> VectorOf(const Tensors& outputs, int64_t dimensions) const;

 private:
  enum class Input { kTokens, kMask, kTypes };

  std::vector<Input> inputs_;
  size_t output_ = 0;
  int64_t context_ = 0, max_length_ = 0, vocabulary_ = 0, width_ = 0;
  std::optional<Tokenizer> tokenizer_;
  std::string prompt_;
  bool pooled_ = false;  // the output is one vector of a text
  bool normalize_ = false;
  std::string why_not_;
};

}  // namespace evoq::serve
