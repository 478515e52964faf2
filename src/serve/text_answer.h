// The answer to a request for texts: of several choices, whole or in pieces.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "serve/answer_form.h"
#include "serve/exchange.h"
#include "serve/served_model.h"
#include "serve/text_model.h"

namespace evoq::serve {

// In the making; on the model's thread only. The first text that fails is the answer.
class TextAnswer : public std::enable_shared_from_this<TextAnswer> {
 public:
  using MakeForm = std::unique_ptr<AnswerForm> (*)(AnswerFacts);
  // What is to be submitted for it: each prompt's choices, one after the other.
  static std::vector<TextRequest> Of(std::shared_ptr<Exchange> ask,
                                     std::shared_ptr<ServedModel> model, TextAsked asked,
                                     MakeForm form);

 private:
  struct Choice {
    std::vector<ScoredToken> tokens;  // that no part had so far
    std::optional<ToolCallReader> calls;
    std::optional<Generated> text;  // once it has ended, where the answer is whole
  };
  TextAnswer(std::shared_ptr<Exchange> ask, std::shared_ptr<ServedModel> model, TextAsked asked,
             MakeForm form);

  bool Piece(size_t index, std::string_view text);
  void Done(size_t index, Served<Generated> text);
  void Finish();
  // Of the choice's text: what is new, without its tokens.
  static ChoicePart Read(Choice& choice, std::string text);
  ChoicePart Rest(Choice& choice) const;
  // Begins the answer once there is something to send: what goes wrong before has a status of its
  // own. False: nobody reads it.
  bool Send(std::string events);

  std::shared_ptr<Exchange> ask_;
  std::shared_ptr<ServedModel> model_;
  const TextAsked asked_;
  const std::unique_ptr<AnswerForm> form_;
  std::vector<Choice> choices_;
  TextUsage usage_;
  size_t ended_ = 0;
  bool begun_ = false, failed_ = false;
};

}  // namespace evoq::serve
