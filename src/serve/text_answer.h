// The answer to one of OpenAI's requests for texts: of several choices, whole or in pieces.
#pragma once

#include <ctime>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "serve/exchange.h"
#include "serve/openai_request.h"
#include "serve/served_model.h"
#include "serve/text_model.h"

namespace evoq::serve {

// In the making; on the model's thread only. The first text that fails is the answer.
class TextAnswer : public std::enable_shared_from_this<TextAnswer> {
 public:
  // What is to be submitted for it: each prompt's choices, one after the other.
  static std::vector<TextRequest> Of(std::shared_ptr<Exchange> ask,
                                     std::shared_ptr<ServedModel> model, bool chat,
                                     TextAsked asked);

 private:
  struct Choice {
    size_t prompt;
    std::vector<ScoredToken> tokens;  // that no piece had so far
    int64_t offset = 0;               // of the text so far, in characters
    bool begun = false;
    std::optional<Generated> text;  // once it has ended
    std::optional<ToolCallReader> calls;
    size_t calls_sent = 0;
  };
  TextAnswer(std::shared_ptr<Exchange> ask, std::shared_ptr<ServedModel> model, bool chat,
             TextAsked asked);

  static bool HasMore(const Choice& choice);  // calls, or reasoning
  bool Piece(size_t index, std::string_view text);
  void Done(size_t index, Served<Generated> text);
  void Finish();
  // The head of what is sent, without choices.
  nlohmann::json Head(bool piece) const;
  nlohmann::json Usage() const;
  nlohmann::json ChoiceJson(size_t index, const char* reason);
  nlohmann::json WholeChoice(size_t index);
  // A piece of a choice's text, or the reason of its end.
  bool SendPiece(size_t index, std::string text, const char* reason);
  // The choice's calls that were not sent so far.
  nlohmann::json NewCalls(Choice& choice, bool piece);
  const char* ReasonOf(const Choice& choice) const;
  bool Send(const nlohmann::json& event);
  // Once there is something to send: what goes wrong before has a status of its own.
  void Begin();
  // Of the choice's tokens that no piece had, and of their places.
  nlohmann::json Logprobs(Choice& choice) const;
  nlohmann::json ChatLogprobs(const std::vector<ScoredToken>& tokens) const;
  std::string TextOf(int64_t token) const;

  std::shared_ptr<Exchange> ask_;
  std::shared_ptr<ServedModel> model_;
  const bool chat_;
  const TextAsked asked_;
  const std::time_t created_;
  std::vector<Choice> choices_;
  size_t ended_ = 0;
  bool begun_ = false, failed_ = false;
};

}  // namespace evoq::serve
