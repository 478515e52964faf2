#include "serve/text_answer.h"

#include <algorithm>
#include <utility>

namespace evoq::serve {

using nlohmann::json;

TextAnswer::TextAnswer(std::shared_ptr<Exchange> ask, std::shared_ptr<ServedModel> model,
                       TextAsked asked, MakeForm form)
    : ask_(std::move(ask)),
      model_(std::move(model)),
      asked_(std::move(asked)),
      form_(form(
          {ask_->id(), model_->name(), std::time(nullptr), asked_, model_->text()->tokenizer()})),
      choices_(asked_.prompts.size() * static_cast<size_t>(asked_.choices)) {
  for (const TextAsked::Prompt& one : asked_.prompts) usage_.prompt += one.tokens.size();
  if (asked_.tools.form == nullptr) return;
  for (Choice& choice : choices_) choice.calls.emplace(asked_.tools);
}

std::vector<TextRequest> TextAnswer::Of(std::shared_ptr<Exchange> ask,
                                        std::shared_ptr<ServedModel> model, TextAsked asked,
                                        MakeForm form) {
  const std::shared_ptr<TextAnswer> answer(
      new TextAnswer(std::move(ask), std::move(model), std::move(asked), form));
  const auto each = static_cast<size_t>(answer->asked_.choices);
  std::vector<TextRequest> requests;
  for (size_t i = 0; i < answer->choices_.size(); ++i) {
    TextRequest request;
    request.prompt = answer->asked_.prompts[i / each].tokens;
    request.options = answer->asked_.options;
    request.options.sampling.seed += i % each;
    if (answer->asked_.stream) {
      request.on_text = [answer, i](std::string_view piece) { return answer->Piece(i, piece); };
    } else {
      request.on_text = [answer](std::string_view) { return !answer->failed_; };
    }
    if (answer->asked_.logprobs)
      request.on_token = [answer, i](ScoredToken token) {
        answer->choices_[i].tokens.push_back(std::move(token));
      };
    request.done = [answer, i](Served<Generated> text) { answer->Done(i, std::move(text)); };
    requests.push_back(std::move(request));
  }
  return requests;
}

bool TextAnswer::Send(std::string events) {
  if (!std::exchange(begun_, true)) {
    HttpResponse head;
    head.content_type = "text/event-stream";
    head.headers.emplace_back("Cache-Control", "no-cache");
    ask_->Begin(std::move(head));
  }
  return ask_->Write(std::move(events));
}

ChoicePart TextAnswer::Read(Choice& choice, std::string text) {
  ChoicePart part;
  part.text = std::move(text);
  if (!choice.calls) return part;
  part.calls = choice.calls->Calls();
  part.reasoning = choice.calls->Reasoning();
  return part;
}

bool TextAnswer::Piece(size_t index, std::string_view text) {
  if (failed_) return false;
  Choice& choice = choices_[index];
  ChoicePart part = Read(choice, choice.calls ? choice.calls->Next(text) : std::string(text));
  if (part.Empty()) return true;
  part.tokens = std::exchange(choice.tokens, {});
  return Send(form_->Part(index, std::move(part)));
}

// What is left once the text has ended; all of it where the answer is whole.
ChoicePart TextAnswer::Rest(Choice& choice) const {
  std::string text = asked_.stream ? "" : choice.text->text;
  if (choice.calls) {
    text = choice.calls->Next(text);
    text += choice.calls->Finish();
  }
  ChoicePart part = Read(choice, std::move(text));
  part.tokens = std::exchange(choice.tokens, {});
  return part;
}

void TextAnswer::Done(size_t index, Served<Generated> text) {
  if (failed_) return;
  if (!text) {
    failed_ = true;
    if (!begun_) return ask_->Refuse(text.error());
    Send(form_->Failed(text.error()));
    return ask_->End();
  }
  Choice& choice = choices_[index];
  choice.text = std::move(*text);
  usage_.text += choice.text->tokens.size();
  if (index % static_cast<size_t>(asked_.choices) == 0) {
    const auto prompt =
        std::ssize(asked_.prompts[index / static_cast<size_t>(asked_.choices)].tokens);
    usage_.cached += static_cast<size_t>(std::max<int64_t>(0, prompt - choice.text->prompt_tokens));
  }
  if (asked_.stream) {
    ChoicePart rest = Rest(choice);
    if (!rest.Empty()) Send(form_->Part(index, std::exchange(rest, {})));
    Send(form_->Last(index, {std::move(rest), std::move(*choice.text)}));
  }
  if (++ended_ == choices_.size()) Finish();
}

void TextAnswer::Finish() {
  ask_->Note("prompt_tokens", usage_.prompt);
  ask_->Note("completion_tokens", usage_.text);
  if (asked_.stream) {
    Send(form_->End(usage_));
    return ask_->End();
  }
  std::vector<WholeChoice> choices;
  for (Choice& choice : choices_) {
    ChoicePart part = Rest(choice);
    choices.push_back({std::move(part), std::move(*choice.text)});
  }
  ask_->AnswerJson(form_->Whole(std::move(choices), usage_));
}

}  // namespace evoq::serve
