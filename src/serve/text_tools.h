// What clients of llama.cpp and vLLM ask about language models beside texts: tokens, prompts,
// facts.
#pragma once

#include <memory>

#include "serve/exchange.h"
#include "serve/repository.h"

namespace evoq::serve {

// Refusals as OpenAi's.
class TextTools {
 public:
  // The repository outlives it.
  explicit TextTools(const Repository& repository) : repository_(repository) {}

  // llama.cpp's `content`, vLLM's `prompt` or `messages`.
  void Tokenize(const std::shared_ptr<Exchange>& ask) const;
  void Detokenize(const std::shared_ptr<Exchange>& ask) const;
  // The text of a chat, which is not answered.
  void ApplyTemplate(const std::shared_ptr<Exchange>& ask) const;
  // By the model of a query and a text together.
  void Rerank(const std::shared_ptr<Exchange>& ask) const;
  // llama.cpp's facts of the only language model, or of the one that the query names.
  void Props(const std::shared_ptr<Exchange>& ask) const;
  void Slots(const std::shared_ptr<Exchange>& ask) const;

 private:
  const Repository& repository_;
};

}  // namespace evoq::serve
