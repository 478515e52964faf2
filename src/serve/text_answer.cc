#include "serve/text_answer.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/text.h"

namespace evoq::serve {
namespace {

using nlohmann::json;

// JSON has no infinity: OpenAI's figure for what cannot come.
double Finite(double logprob) { return std::isfinite(logprob) ? logprob : -9999.0; }

int64_t Characters(std::string_view text) {
  int64_t count = 0;
  for (size_t at = 0; at < text.size(); ++count) at += Utf8At(text, at).bytes;
  return count;
}

}  // namespace

TextAnswer::TextAnswer(std::shared_ptr<Exchange> ask, std::shared_ptr<ServedModel> model, bool chat,
                       TextAsked asked)
    : ask_(std::move(ask)),
      model_(std::move(model)),
      chat_(chat),
      asked_(std::move(asked)),
      created_(std::time(nullptr)) {
  for (size_t prompt = 0; prompt < asked_.prompts.size(); ++prompt)
    choices_.resize(choices_.size() + static_cast<size_t>(asked_.choices),
                    Choice{.prompt = prompt});
  if (asked_.tools.form == nullptr) return;
  for (Choice& choice : choices_) choice.calls.emplace(asked_.tools);
}

const char* TextAnswer::ReasonOf(const Choice& choice) const {
  const Ended ended = choice.text->ended;
  if (ended != Ended::kEndToken && ended != Ended::kStopText) return "length";
  return choice.calls && choice.calls->count() > 0 ? "tool_calls" : "stop";
}

json TextAnswer::NewCalls(Choice& choice, bool piece) {
  json calls = json::array();
  if (!choice.calls) return calls;
  for (ToolCall& call : choice.calls->Calls()) {
    json one = {
        {"id", std::move(call.id)},
        {"type", "function"},
        {"function", {{"name", std::move(call.name)}, {"arguments", std::move(call.arguments)}}}};
    if (piece) one["index"] = choice.calls_sent;
    ++choice.calls_sent;
    calls.push_back(std::move(one));
  }
  return calls;
}

std::vector<TextRequest> TextAnswer::Of(std::shared_ptr<Exchange> ask,
                                        std::shared_ptr<ServedModel> model, bool chat,
                                        TextAsked asked) {
  const std::shared_ptr<TextAnswer> answer(
      new TextAnswer(std::move(ask), std::move(model), chat, std::move(asked)));
  std::vector<TextRequest> requests;
  for (size_t i = 0; i < answer->choices_.size(); ++i) {
    TextRequest request;
    request.prompt = answer->asked_.prompts[answer->choices_[i].prompt].tokens;
    request.options = answer->asked_.options;
    request.options.sampling.seed += i % static_cast<size_t>(answer->asked_.choices);
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

json TextAnswer::Head(bool piece) const {
  const char* const of_chat = piece ? "chat.completion.chunk" : "chat.completion";
  return {{"id", (chat_ ? "chatcmpl-" : "cmpl-") + ask_->id()},
          {"object", chat_ ? of_chat : "text_completion"},
          {"created", created_},
          {"model", model_->name()}};
}

json TextAnswer::Usage() const {
  size_t prompt = 0, text = 0;
  for (const TextAsked::Prompt& one : asked_.prompts) prompt += one.tokens.size();
  for (const Choice& choice : choices_) text += choice.text->tokens.size();
  return {{"prompt_tokens", prompt}, {"completion_tokens", text}, {"total_tokens", prompt + text}};
}

std::string TextAnswer::TextOf(int64_t token) const {
  if (const auto& tokenizer = model_->text()->tokenizer()) {
    if (auto text = tokenizer->Continuation(token)) return *text;
  }
  return fmt::format("token_id:{}", token);  // as vLLM has it
}

json TextAnswer::ChatLogprobs(const std::vector<ScoredToken>& tokens) const {
  const auto entry = [&](int64_t token, double logprob) -> json {
    const std::string text = TextOf(token);
    json bytes = json::array();
    for (const char c : text) bytes.push_back(static_cast<unsigned char>(c));
    return {{"token", text}, {"logprob", Finite(logprob)}, {"bytes", std::move(bytes)}};
  };
  json content = json::array();
  for (const ScoredToken& token : tokens) {
    json one = entry(token.token, token.logprob.value_or(0));
    one["top_logprobs"] = json::array();
    for (const auto& [id, logprob] : token.likeliest)
      one["top_logprobs"].push_back(entry(id, logprob));
    content.push_back(std::move(one));
  }
  return {{"content", std::move(content)}};
}

json TextAnswer::Logprobs(Choice& choice) const {
  if (!asked_.logprobs) return nullptr;
  const std::vector<ScoredToken> tokens = std::exchange(choice.tokens, {});
  if (chat_) return ChatLogprobs(tokens);
  json texts = json::array(), chosen = json::array(), likeliest = json::array(),
       offsets = json::array();
  for (const ScoredToken& token : tokens) {
    const std::string text = TextOf(token.token);
    texts.push_back(text);
    offsets.push_back(choice.offset);
    choice.offset += Characters(text);
    chosen.push_back(token.logprob ? json(Finite(*token.logprob)) : json());
    json beside;
    for (const auto& [id, logprob] : token.likeliest)
      beside.emplace(TextOf(id), Finite(logprob));  // of equal texts the likeliest
    // The token's own is there as well, as in OpenAI's.
    if (token.logprob && !token.likeliest.empty()) beside.emplace(text, Finite(*token.logprob));
    likeliest.push_back(std::move(beside));
  }
  return {{"tokens", std::move(texts)},
          {"token_logprobs", std::move(chosen)},
          {"top_logprobs", asked_.options.likeliest > 0 ? std::move(likeliest) : json()},
          {"text_offset", std::move(offsets)}};
}

json TextAnswer::ChoiceJson(size_t index, const char* reason) {
  return {{"index", index},
          {"finish_reason", reason != nullptr ? json(reason) : json()},
          {"logprobs", Logprobs(choices_[index])}};
}

json TextAnswer::WholeChoice(size_t index) {
  Choice& choice = choices_[index];
  if (choice.calls) {
    std::string content = choice.calls->Next(choice.text->text);
    choice.text->text = content + choice.calls->Finish();
  }
  json out = ChoiceJson(index, ReasonOf(choice));
  if (chat_) {
    out["message"] = {{"role", "assistant"}, {"content", choice.text->text}};
    if (json calls = NewCalls(choice, false); !calls.empty()) {
      if (choice.text->text.empty()) out["message"]["content"] = nullptr;
      out["message"]["tool_calls"] = std::move(calls);
    }
    if (choice.calls && choice.calls->has_reasoning())
      out["message"]["reasoning_content"] = choice.calls->Reasoning();
  } else {
    out["text"] = asked_.prompts[choice.prompt].text + choice.text->text;
  }
  return out;
}

bool TextAnswer::Send(const json& event) {
  return ask_->Write("data: " + event.dump(-1, ' ', false, json::error_handler_t::replace) +
                     "\n\n");
}

void TextAnswer::Begin() {
  if (std::exchange(begun_, true)) return;
  HttpResponse head;
  head.content_type = "text/event-stream";
  head.headers.emplace_back("Cache-Control", "no-cache");
  ask_->Begin(std::move(head));
}

bool TextAnswer::SendPiece(size_t index, std::string text, const char* reason) {
  Begin();
  Choice& choice = choices_[index];
  json chunk = Head(true);
  if (!std::exchange(choice.begun, true)) {
    if (chat_) {
      json first = chunk;
      first["choices"] = {{{"index", index},
                           {"finish_reason", nullptr},
                           {"logprobs", nullptr},
                           {"delta", {{"role", "assistant"}, {"content", ""}}}}};
      Send(first);
    } else {
      text = asked_.prompts[choice.prompt].text + text;
    }
  }
  json out = ChoiceJson(index, reason);
  if (chat_) {
    out["delta"] = text.empty() ? json::object() : json{{"content", std::move(text)}};
    if (json calls = NewCalls(choice, true); !calls.empty())
      out["delta"]["tool_calls"] = std::move(calls);
    if (choice.calls && choice.calls->has_reasoning())
      out["delta"]["reasoning_content"] = choice.calls->Reasoning();
  } else {
    out["text"] = std::move(text);
  }
  chunk["choices"] = json::array({std::move(out)});
  return Send(chunk);
}

bool TextAnswer::HasMore(const Choice& choice) {
  return choice.calls &&
         (choice.calls->count() > choice.calls_sent || choice.calls->has_reasoning());
}

bool TextAnswer::Piece(size_t index, std::string_view text) {
  if (failed_) return false;
  Choice& choice = choices_[index];
  if (!choice.calls) return SendPiece(index, std::string(text), nullptr);
  std::string content = choice.calls->Next(text);
  if (content.empty() && !HasMore(choice)) return true;
  return SendPiece(index, std::move(content), nullptr);
}

void TextAnswer::Done(size_t index, Served<Generated> text) {
  if (failed_) return;
  if (!text) {
    failed_ = true;
    if (!begun_) return ask_->Refuse(text.error());
    Send({{"error", {{"message", text.error().message}, {"type", NameOf(text.error().why)}}}});
    return ask_->End();
  }
  Choice& choice = choices_[index];
  choice.text = std::move(*text);
  if (asked_.stream) {
    std::string rest = choice.calls ? choice.calls->Finish() : "";
    if (!rest.empty() || HasMore(choice)) SendPiece(index, std::move(rest), nullptr);
    SendPiece(index, "", ReasonOf(choice));
  }
  if (++ended_ == choices_.size()) Finish();
}

void TextAnswer::Finish() {
  const json usage = Usage();
  ask_->Note("prompt_tokens", usage["prompt_tokens"]);
  ask_->Note("completion_tokens", usage["completion_tokens"]);
  if (!asked_.stream) {
    json whole = Head(false);
    whole["choices"] = json::array();
    for (size_t i = 0; i < choices_.size(); ++i) whole["choices"].push_back(WholeChoice(i));
    whole["usage"] = usage;
    return ask_->AnswerJson(whole);
  }
  if (asked_.usage) {
    json last = Head(true);
    last["choices"] = json::array();
    last["usage"] = usage;
    Send(last);
  }
  ask_->Write("data: [DONE]\n\n");
  ask_->End();
}

}  // namespace evoq::serve
