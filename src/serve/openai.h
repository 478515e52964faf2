// OpenAI's interfaces to the language models: completions, chats and responses, whole or in pieces
// as they are written (server-sent events).
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
  void Model(const std::shared_ptr<Exchange>& ask, const std::string& name) const;
  void Completions(const std::shared_ptr<Exchange>& ask) const;
  // `listed`: in llama.cpp's form, which is a list.
  void Embeddings(const std::shared_ptr<Exchange>& ask, bool listed) const;
  void Chat(const std::shared_ptr<Exchange>& ask) const;
  void Responses(const std::shared_ptr<Exchange>& ask) const;
  // llama.cpp's own completions.
  void LlamaCompletion(const std::shared_ptr<Exchange>& ask) const;
  // How many tokens a response would read.
  void InputTokens(const std::shared_ptr<Exchange>& ask) const;
  // Of a response that was written before.
  void Response(const std::shared_ptr<Exchange>& ask, const std::string& id) const;

 private:
  // An interface to texts: how it asks and how it is answered.
  struct Interface;
  void Write(const std::shared_ptr<Exchange>& ask, const Interface& as) const;
  const Repository& repository_;
};

}  // namespace evoq::serve
