// How well a text answers a question, by a served model that reads both together.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "generate/model_tokenizer.h"
#include "serve/batch.h"
#include "tokenizer/pair.h"

namespace evoq::serve {

class Reranker {
 public:
  // Of a typed graph; nothing where it is no text encoder with an output `logits` float32[batch,
  // 1], of inputs as an Embedder's.
  static std::optional<Reranker> Of(const Graph& graph);

  // Why there are no scores although there is a reranker; "" where there are.
  const std::string& why_not() const { return why_not_; }

  struct Pair {
    std::vector<int64_t> tokens, types;
  };
  Result<std::vector<int64_t>> TokensOf(std::string_view text) const;
  // The end of the document goes where both are longer than the model reads. Errors: kInvalidInput
  // for a query that is that long alone.
  Result<Pair> PairOf(const std::vector<int64_t>& query, std::vector<int64_t> document) const;
  // A run of one pair, by the graph's order.
  Tensors InputsOf(const Pair& pair) const;
  // Of a run's outputs: the logit.
  double LogitOf(const Tensors& outputs) const;

 private:
  Status Read(const Graph& graph);
  std::vector<std::string> inputs_;
  size_t output_ = 0;
  int64_t most_ = 0;  // tokens of a pair
  std::optional<Tokenizer> tokenizer_;
  PairTemplate template_;
  std::string why_not_;
};

}  // namespace evoq::serve
