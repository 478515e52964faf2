// OpenAI's interface to the language models: completions and chats, whole or in pieces as they are
// written (server-sent events).
#pragma once

#include <memory>

#include "serve/exchange.h"
#include "serve/repository.h"

namespace evoq::serve {

// Refusals have OpenAI's form: {"error": {"message": ..., "type": ...}}.
class OpenAi {
 public:
  // The repository outlives it.
  explicit OpenAi(const Repository& repository) : repository_(repository) {}

  void Models(const std::shared_ptr<Exchange>& ask) const;
  void Completions(const std::shared_ptr<Exchange>& ask) const;
  void Embeddings(const std::shared_ptr<Exchange>& ask) const;
  void Chat(const std::shared_ptr<Exchange>& ask) const;

 private:
  void Write(const std::shared_ptr<Exchange>& ask, bool chat) const;
  const Repository& repository_;
};

}  // namespace evoq::serve
