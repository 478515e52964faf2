#include "serve/text_tools.h"

#include <utility>

#include "base/brief.h"
#include "base/json_file.h"
#include "base/text.h"
#include "base/version.h"
#include "serve/asked_model.h"
#include "serve/chat_text.h"
#include "serve/fields.h"

namespace evoq::serve {
namespace {

using nlohmann::json, nlohmann::ordered_json;

// The answer to a request's members, which are an object.
using Answer = Result<json> (*)(Fields& fields, const ordered_json& ordered,
                                const TextModel& model);

void AnswerWith(const Repository& repository, Exchange& ask, Answer answer) {
  ask.ErrorsAsOpenAi();
  const auto root = ObjectOf(ask);
  if (!root) return ask.Refuse(root.error());
  const auto model = TextModelAsked(repository, ask, *root);
  if (!model) return ask.Refuse(model.error());
  Fields fields(*root, "");
  const auto found = answer(fields, ordered_json::parse(ask.request().body), *(*model)->text());
  if (!found) return ask.Refuse({Why::kBadRequest, found.error().message(), 0});
  ask.AnswerJson(*found);
}

bool IsUtf8(std::string_view text) {
  for (size_t at = 0; at < text.size();) {
    const auto character = Utf8At(text, at);
    if (!character.valid) return false;
    at += character.bytes;
  }
  return true;
}

// A piece is a text, or its bytes where they are none.
json PieceOf(const std::string& bytes) {
  if (IsUtf8(bytes)) return bytes;
  json list = json::array();
  for (const char c : bytes) list.push_back(static_cast<unsigned char>(c));
  return list;
}

Result<std::string> ChatOf(Fields& fields, const ordered_json& ordered,
                           const Tokenizer& tokenizer) {
  TextAsked unused;
  EVOQ_ASSIGN(std::string text, ReadChatText(fields, ordered, tokenizer, unused));
  EVOQ_TRY(fields.Done(/*others=*/true));
  return text;
}

Result<json> TokensOf(Fields& fields, const ordered_json& ordered, const TextModel& model) {
  EVOQ_ASSIGN(const Tokenizer* tokenizer, TokenizerFor(model));
  const bool of_vllm = !fields.has("content"), of_chat = of_vllm && fields.has("messages");
  EncodeOptions options{.add_special = of_vllm && !of_chat};
  std::string text;
  if (of_chat) {
    EVOQ_ASSIGN(text, ChatOf(fields, ordered, *tokenizer));
  } else {
    const char* const name = of_vllm ? "prompt" : "content";
    if (!fields.has(name)) return InvalidInput("content: null, expected a text");
    fields.Read(name, text);
  }
  bool pieces = false;
  fields.Read(of_vllm ? "add_special_tokens" : "add_special", options.add_special);
  fields.Read("parse_special", options.parse_special);
  fields.Read("with_pieces", pieces);
  EVOQ_TRY(fields.Done(/*others=*/true));
  EVOQ_ASSIGN(const std::vector<int64_t> tokens, tokenizer->Encode(text, options));
  json list = json::array();
  for (const int64_t token : tokens) {
    if (pieces) {
      EVOQ_ASSIGN(const std::string piece, tokenizer->Continuation(token));
      list.push_back({{"id", token}, {"piece", PieceOf(piece)}});
    } else {
      list.push_back(token);
    }
  }
  return json{
      {"tokens", std::move(list)}, {"count", tokens.size()}, {"max_model_len", model.context()}};
}

Result<json> TextOf(Fields& fields, const ordered_json&, const TextModel& model) {
  EVOQ_ASSIGN(const Tokenizer* tokenizer, TokenizerFor(model));
  const json& list = fields.Member("tokens");
  if (!list.is_array()) return InvalidInput("tokens: {}, expected a list of tokens", Brief(list));
  EVOQ_ASSIGN(const std::vector<int64_t> tokens, ReadTokens(list, model.vocabulary(), "tokens"));
  EVOQ_ASSIGN(const std::string text, tokenizer->Decode(tokens, /*special=*/true));
  return json{{"content", text}, {"prompt", text}};  // llama.cpp's name, vLLM's
}

Result<json> PromptOf(Fields& fields, const ordered_json& ordered, const TextModel& model) {
  EVOQ_ASSIGN(const Tokenizer* tokenizer, TokenizerFor(model));
  EVOQ_ASSIGN(const std::string text, ChatOf(fields, ordered, *tokenizer));
  return json{{"prompt", text}};
}

// Of a request without a body: by the query's model.
Served<std::shared_ptr<ServedModel>> QueriedModel(const Repository& repository, Exchange& ask) {
  ask.ErrorsAsOpenAi();
  const std::string name = QueryValue(ask.request().target, "model");
  return TextModelAsked(repository, ask, name.empty() ? json::object() : json{{"model", name}});
}

}  // namespace

void TextTools::Tokenize(const std::shared_ptr<Exchange>& ask) const {
  AnswerWith(repository_, *ask, TokensOf);
}

void TextTools::Detokenize(const std::shared_ptr<Exchange>& ask) const {
  AnswerWith(repository_, *ask, TextOf);
}

void TextTools::ApplyTemplate(const std::shared_ptr<Exchange>& ask) const {
  AnswerWith(repository_, *ask, PromptOf);
}

void TextTools::Props(const std::shared_ptr<Exchange>& ask) const {
  const auto model = QueriedModel(repository_, *ask);
  if (!model) return ask->Refuse(model.error());
  const TextModel& text = *(*model)->text();
  const json settings = {{"n_ctx", text.context()}};
  ask->AnswerJson({{"default_generation_settings", settings},
                   {"total_slots", (*model)->settings().sequences},
                   {"model_alias", (*model)->name()},
                   {"model_path", (*model)->path()},
                   {"chat_template", text.tokenizer() ? text.tokenizer()->chat_template() : ""},
                   {"modalities", {{"vision", false}, {"audio", false}}},
                   {"build_info", std::string("evoq ") + EVOQ_VERSION}});
}

void TextTools::Slots(const std::shared_ptr<Exchange>& ask) const {
  const auto model = QueriedModel(repository_, *ask);
  if (!model) return ask->Refuse(model.error());
  const int64_t running = (*model)->text()->running();
  json slots = json::array();
  for (int64_t i = 0; i < (*model)->settings().sequences; ++i)
    slots.push_back(
        {{"id", i}, {"n_ctx", (*model)->text()->context()}, {"is_processing", i < running}});
  if (running >= (*model)->settings().sequences &&
      QueryValue(ask->request().target, "fail_on_no_slot") == "1")
    return ask->Refuse({Why::kUnavailable, "no sequence is idle", 1});
  ask->AnswerJson(slots);
}

}  // namespace evoq::serve
