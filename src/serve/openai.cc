#include "serve/openai.h"

#include <ctime>
#include <utility>

#include "base/brief.h"
#include "base/json_file.h"
#include "serve/openai_request.h"
#include "serve/text_model.h"

namespace evoq::serve {
namespace {

using nlohmann::json;

const char* ReasonOf(Ended ended) {
  return ended == Ended::kEndToken || ended == Ended::kStopText ? "stop" : "length";
}

// One answer in the making: whole, or in pieces.
class TextAnswer {
 public:
  TextAnswer(std::shared_ptr<Exchange> ask, std::shared_ptr<ServedModel> model, bool chat,
             const TextAsked& asked)
      : ask_(std::move(ask)),
        model_(std::move(model)),
        chat_(chat),
        stream_(asked.stream),
        usage_(asked.usage),
        prompt_tokens_(asked.text.prompt.size()),
        created_(std::time(nullptr)) {}

  bool Piece(std::string_view text) {
    Begin();
    return Send(Chunk(json(text), nullptr));
  }

  void Done(Served<Generated> text) {
    if (!text) {
      if (!begun_) return ask_->Refuse(text.error());
      Send({{"error", {{"message", text.error().message}, {"type", NameOf(text.error().why)}}}});
      return ask_->End();
    }
    ask_->Note("prompt_tokens", prompt_tokens_);
    ask_->Note("completion_tokens", text->tokens.size());
    const json usage = {{"prompt_tokens", prompt_tokens_},
                        {"completion_tokens", text->tokens.size()},
                        {"total_tokens", prompt_tokens_ + text->tokens.size()}};
    if (!stream_) {
      json whole = Head(chat_ ? "chat.completion" : "text_completion");
      json choice = {{"index", 0}, {"finish_reason", ReasonOf(text->ended)}, {"logprobs", nullptr}};
      if (chat_) {
        choice["message"] = {{"role", "assistant"}, {"content", text->text}};
      } else {
        choice["text"] = text->text;
      }
      whole["choices"] = json::array({choice});
      whole["usage"] = usage;
      return ask_->AnswerJson(whole);
    }
    Begin();
    Send(Chunk(nullptr, ReasonOf(text->ended)));
    if (usage_) {
      json last = Head(chat_ ? "chat.completion.chunk" : "text_completion");
      last["choices"] = json::array();
      last["usage"] = usage;
      Send(last);
    }
    ask_->Write("data: [DONE]\n\n");
    ask_->End();
  }

 private:
  json Head(const char* object) const {
    return {{"id", (chat_ ? "chatcmpl-" : "cmpl-") + ask_->id()},
            {"object", object},
            {"created", created_},
            {"model", model_->name()}};
  }
  // A piece of text, or the reason of the end.
  json Chunk(json text, json reason) const {
    json chunk = Head(chat_ ? "chat.completion.chunk" : "text_completion");
    json choice = {{"index", 0}, {"finish_reason", std::move(reason)}, {"logprobs", nullptr}};
    if (chat_) {
      choice["delta"] = text.is_null() ? json::object() : json{{"content", std::move(text)}};
    } else {
      choice["text"] = text.is_null() ? json("") : std::move(text);
    }
    chunk["choices"] = json::array({choice});
    return chunk;
  }
  bool Send(const json& event) {
    return ask_->Write("data: " + event.dump(-1, ' ', false, json::error_handler_t::replace) +
                       "\n\n");
  }
  // Once there is something to send: what goes wrong before has a status of its own.
  void Begin() {
    if (std::exchange(begun_, true)) return;
    HttpResponse head;
    head.content_type = "text/event-stream";
    head.headers.emplace_back("Cache-Control", "no-cache");
    ask_->Begin(std::move(head));
    if (!chat_) return;
    json first = Chunk(nullptr, nullptr);
    first["choices"][0]["delta"] = {{"role", "assistant"}, {"content", ""}};
    Send(first);
  }

  std::shared_ptr<Exchange> ask_;
  std::shared_ptr<ServedModel> model_;
  const bool chat_, stream_, usage_;
  const size_t prompt_tokens_;
  const std::time_t created_;
  bool begun_ = false;
};

}  // namespace

void OpenAi::Models(const std::shared_ptr<Exchange>& ask) const {
  ask->ErrorsAsOpenAi();
  json models = json::array();
  for (const auto& model : repository_.All()) {
    if (model->text() == nullptr && model->embedder() == nullptr) continue;
    models.push_back(
        {{"id", model->name()}, {"object", "model"}, {"created", 0}, {"owned_by", "evoq"}});
  }
  ask->AnswerJson({{"object", "list"}, {"data", std::move(models)}});
}

void OpenAi::Completions(const std::shared_ptr<Exchange>& ask) const { Write(ask, false); }
void OpenAi::Chat(const std::shared_ptr<Exchange>& ask) const { Write(ask, true); }

void OpenAi::Write(const std::shared_ptr<Exchange>& ask, bool chat) const {
  ask->ErrorsAsOpenAi();
  constexpr size_t kMaxBytes = size_t{4} << 20;
  if (ask->request().body.size() > kMaxBytes)
    return ask->Refuse({Why::kTooLarge, "more than 4 MiB of JSON", 0});
  const auto root = ParseJson(ask->request().body);
  if (!root) return ask->Refuse({Why::kBadRequest, root.error().message(), 0});
  const std::string name = JsonText(*root, "model");
  ask->Note("model", Shorten(name));
  const auto model = repository_.Find(name);
  if (!model) return ask->Refuse(model.error());
  TextModel* const text = (*model)->text();
  if (text == nullptr)
    return ask->Refuse({Why::kBadRequest, name + " is no language model with caches", 0});
  auto asked = ReadTextAsked(*root, *text, chat);
  if (!asked) {
    (*model)->statistics().Failed(Why::kBadRequest, 0);
    return ask->Refuse({Why::kBadRequest, asked.error().message(), 0});
  }
  ask->DropBody();
  if (!asked->ignored.empty()) ask->Note("ignored", asked->ignored);
  // A text that was drawn can be had again.
  if (const SamplingOptions& drawn = asked->text.options.sampling; drawn.temperature > 0)
    ask->Note("seed", static_cast<int64_t>(drawn.seed));
  const auto answer = std::make_shared<TextAnswer>(ask, *model, chat, *asked);
  if (asked->stream)
    asked->text.on_text = [answer](std::string_view piece) { return answer->Piece(piece); };
  asked->text.done = [answer](Served<Generated> all) { answer->Done(std::move(all)); };
  const int64_t timeout_us = (*model)->settings().timeout_us;
  if (timeout_us > 0) asked->text.deadline = Clock::now() + std::chrono::microseconds(timeout_us);
  if (const auto taken = text->Submit(asked->text); !taken) ask->Refuse(taken.error());
}

}  // namespace evoq::serve
