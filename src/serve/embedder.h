// What makes one vector of a text, of an encoder that is served.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "generate/model_tokenizer.h"
#include "serve/batch.h"

namespace evoq::serve {

class Embedder {
 public:
  // Of a typed graph; nothing where it is no encoder: where it has not the inputs input_ids,
  // attention_mask and perhaps token_type_ids, int64[batch, sequence], alone, and an output
  // last_hidden_state float32[batch, sequence, width], else its only one. Errors: those of the
  // facts and of the tokenizer that it carries.
  static Result<std::optional<Embedder>> Of(const Graph& graph);

  // How it pools is unknown: why there are no embeddings; "" where there are.
  const std::string& why_not() const { return why_not_; }
  int64_t context() const { return context_; }        // tokens of a text at most; 0: not known
  int64_t vocabulary() const { return vocabulary_; }  // 0: not known
  int64_t width() const { return width_; }            // 0: not known

  // With the tokens that stand around a text. Errors: kUnsupported without a tokenizer.
  Result<std::vector<int64_t>> TokensOf(std::string_view text) const;
  // A run of one text, by the graph's order.
  Tensors InputsOf(const std::vector<int64_t>& tokens) const;
  // Of a run's outputs: what pooling makes of the vectors h[t] of the n tokens: mean: sum_t h[t] /
  // n; cls: h[0]; last: h[n - 1]; max: max_t h[t]; mean-sqrt: sum_t h[t] / sqrt(n); sums in double,
  // in order. The first `dimensions` numbers of it (0: all). Then, where the folder says Normalize,
  // scaled to length 1.
  std::vector<float> VectorOf(const Tensors& outputs, int64_t dimensions) const;

 private:
  enum class Input { kTokens, kMask, kTypes };
  using Pool = void (*)(const float* tokens, int64_t count, int64_t width, double* vector);
  struct Pooling {
    const char* name;
    Pool pool;
  };
  static const Pooling* FindPooling(std::string_view name);

  std::vector<Input> inputs_;
  size_t output_ = 0;
  int64_t context_ = 0, vocabulary_ = 0, width_ = 0;
  std::optional<Tokenizer> tokenizer_;
  const Pooling* pooling_ = nullptr;
  bool normalize_ = false;
  std::string why_not_;
};

}  // namespace evoq::serve
