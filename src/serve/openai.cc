#include "serve/openai.h"

#include <algorithm>
#include <ctime>
#include <optional>
#include <random>
#include <utility>

#include "base/brief.h"
#include "base/json_file.h"
#include "serve/fields.h"
#include "serve/text_model.h"
#include "tokenizer/chat_template.h"

namespace evoq::serve {
namespace {

using nlohmann::json;

constexpr size_t kMaxStops = 16;

// What is asked for, once the model is known.
struct Asked {
  std::string model;
  TextRequest text;
  bool stream = false, usage = false;
};

// OpenAI's options that change what is written and that there are not here.
Status RefuseOthers(Fields& fields) {
  for (const char* key : {"logprobs", "top_logprobs", "logit_bias", "suffix", "echo",
                          "response_format", "functions"}) {
    const json& value = fields.Member(key);
    const bool off = value.is_null() || value == false || value == 0 ||
                     (value.is_object() && (value.empty() || JsonText(value, "type") == "text"));
    if (!off) return Unsupported("{}: not supported by this server", key);
  }
  int64_t one = 1;
  fields.Read("n", one, 1, 1);
  fields.Read("best_of", one, 1, 1);
  double none = 0;
  fields.Read("presence_penalty", none, 0, 0);
  fields.Read("frequency_penalty", none, 0, 0);
  return {};
}

Result<std::vector<std::string>> ReadStops(const json& stop) {
  std::vector<std::string> stops;
  if (stop.is_null()) return stops;
  if (stop.is_string()) return std::vector{stop.get<std::string>()};
  const bool texts =
      stop.is_array() && stop.size() <= kMaxStops &&
      std::all_of(stop.begin(), stop.end(), [](const json& s) { return s.is_string(); });
  if (!texts)
    return InvalidInput("stop: {}, expected a text or at most {}", Brief(stop), kMaxStops);
  return stop.get<std::vector<std::string>>();
}

Result<std::vector<int64_t>> ReadTokens(const json& prompt, int64_t vocabulary) {
  std::vector<int64_t> tokens;
  for (const json& token : prompt) {
    if (!token.is_number_unsigned() || token.get<uint64_t>() >= static_cast<uint64_t>(vocabulary))
      return InvalidInput("prompt[{}]: {}, expected a token below {}", tokens.size(), Brief(token),
                          vocabulary);
    tokens.push_back(token.get<int64_t>());
  }
  return tokens;
}

Result<const Tokenizer*> TokenizerFor(const TextModel& model) {
  if (model.tokenizer()) return &*model.tokenizer();
  return Unsupported("the model carries no tokenizer: a prompt must be a list of tokens");
}

Result<std::vector<int64_t>> PromptOf(const json& prompt, const TextModel& model) {
  if (prompt.is_array() && prompt.size() == 1 && prompt[0].is_string())
    return PromptOf(prompt[0], model);
  if (prompt.is_array() && !prompt.empty() && prompt[0].is_number())
    return ReadTokens(prompt, model.vocabulary());
  if (!prompt.is_string())
    return InvalidInput("prompt: {}, expected one text or one list of tokens", Brief(prompt));
  EVOQ_ASSIGN(const Tokenizer* tokenizer, TokenizerFor(model));
  return tokenizer->Encode(prompt.get_ref<const std::string&>(), {.add_special = true});
}

// Content in parts, which are texts, as one text.
Result<json> PlainMessage(const json& message, size_t index) {
  if (!message.is_object() || !message.contains("role") || !message["role"].is_string())
    return InvalidInput("messages[{}]: {}, expected an object with a role", index, Brief(message));
  json plain = message;
  if (!plain.contains("content") || !plain["content"].is_array()) return plain;
  std::string text;
  for (const json& part : message["content"]) {
    if (JsonText(part, "type") != "text")
      return Unsupported("messages[{}]: content of type {}, expected text", index,
                         Shorten(JsonText(part, "type")));
    text += JsonText(part, "text");
  }
  plain["content"] = std::move(text);
  return plain;
}

Result<std::vector<int64_t>> ChatPrompt(Fields& fields, const TextModel& model) {
  const json& messages = fields.Member("messages");
  if (!messages.is_array() || messages.empty())
    return InvalidInput("messages: {}, expected a list of messages", Brief(messages));
  nlohmann::ordered_json variables = {{"messages", nlohmann::ordered_json::array()},
                                      {"add_generation_prompt", true}};
  for (size_t i = 0; i < messages.size(); ++i) {
    EVOQ_ASSIGN(const json plain, PlainMessage(messages[i], i));
    variables["messages"].push_back(nlohmann::ordered_json(plain));
  }
  if (const json& tools = fields.Member("tools"); !tools.is_null())
    variables["tools"] = nlohmann::ordered_json(tools);
  EVOQ_ASSIGN(const Tokenizer* tokenizer, TokenizerFor(model));
  EVOQ_ASSIGN(const std::string text, RenderChat(*tokenizer, std::move(variables)));
  return tokenizer->Encode(text, {.add_special = false});
}

// Of a request that names none: another one each time.
int64_t DrawnSeed() {
  thread_local std::mt19937_64 random{std::random_device{}()};
  return static_cast<int64_t>(random() >> 1);
}

Result<Asked> ReadAsked(const json& root, const TextModel& model, bool chat) {
  Asked asked;
  Fields fields(root, "");
  fields.Read("model", asked.model);
  GenerateOptions& o = asked.text.options;
  o.sampling.temperature = 1;
  fields.Read("temperature", o.sampling.temperature, 0, 2);
  fields.Read("top_p", o.sampling.top_p, 1e-6, 1);
  fields.Read("top_k", o.sampling.top_k, 0, INT64_MAX);
  fields.Read("min_p", o.sampling.min_p, 0, 1);
  int64_t seed = DrawnSeed();
  fields.Read("seed", seed, INT64_MIN, INT64_MAX);
  o.sampling.seed = static_cast<uint64_t>(seed);
  fields.Read("stream", asked.stream);
  if (const json& how = fields.Member("stream_options"); !how.is_null()) {
    Fields of_stream(how, "stream_options");
    of_stream.Read("include_usage", asked.usage);
    fields.Keep(of_stream.Done(/*others=*/true));
  }
  EVOQ_ASSIGN(o.stop, ReadStops(fields.Member("stop")));
  fields.Keep(RefuseOthers(fields));
  EVOQ_TRY(fields.Done(/*others=*/true));
  EVOQ_ASSIGN(asked.text.prompt,
              chat ? ChatPrompt(fields, model) : PromptOf(fields.Member("prompt"), model));
  const auto room = model.context() - static_cast<int64_t>(asked.text.prompt.size());
  o.max_tokens = chat ? std::max<int64_t>(1, room) : 16;
  fields.Read("max_tokens", o.max_tokens, 1, int64_t{1} << 30);
  fields.Read("max_completion_tokens", o.max_tokens, 1, int64_t{1} << 30);
  EVOQ_TRY(fields.Done(/*others=*/true));
  return asked;
}

const char* ReasonOf(Ended ended) {
  return ended == Ended::kEndToken || ended == Ended::kStopText ? "stop" : "length";
}

// One answer in the making: whole, or in pieces.
class TextAnswer {
 public:
  TextAnswer(std::shared_ptr<Exchange> ask, std::shared_ptr<ServedModel> model, bool chat,
             const Asked& asked)
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
  auto asked = ReadAsked(*root, *text, chat);
  if (!asked) {
    (*model)->statistics().Failed(Why::kBadRequest, 0);
    return ask->Refuse({Why::kBadRequest, asked.error().message(), 0});
  }
  ask->DropBody();
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
