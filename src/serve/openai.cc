#include "serve/openai.h"

#include <utility>

#include "base/brief.h"
#include "base/json_file.h"
#include "serve/fields.h"
#include "serve/openai_request.h"
#include "serve/response_request.h"
#include "serve/text_answer.h"

namespace evoq::serve {

using nlohmann::json;

namespace {

json About(const ServedModel& model) {
  return {{"id", model.name()}, {"object", "model"}, {"created", 0}, {"owned_by", "evoq"}};
}

}  // namespace

void OpenAi::Models(const std::shared_ptr<Exchange>& ask) const {
  ask->ErrorsAsOpenAi();
  json models = json::array();
  for (const auto& model : repository_.All()) {
    if (model->text() == nullptr && model->embedder() == nullptr) continue;
    models.push_back(About(*model));
  }
  ask->AnswerJson({{"object", "list"}, {"data", std::move(models)}});
}

void OpenAi::Model(const std::shared_ptr<Exchange>& ask, const std::string& name) const {
  ask->ErrorsAsOpenAi();
  const auto model = repository_.Find(name);
  if (!model) return ask->Refuse(model.error());
  if ((*model)->text() == nullptr && (*model)->embedder() == nullptr)
    return ask->Refuse({Why::kNotFound, name + " is no language model", 0});
  ask->AnswerJson(About(**model));
}

Served<std::shared_ptr<ServedModel>> OpenAi::Named(const json& root) const {
  if (!root.is_object())
    return Refuse(Why::kBadRequest, "the request is {}, expected an object", Brief(root));
  const std::string name = JsonText(root, "model");
  if (!name.empty()) return repository_.Find(name);
  // As llama.cpp's server, which has one.
  std::shared_ptr<ServedModel> only;
  for (const auto& model : repository_.All()) {
    if (model->text() == nullptr || (only != nullptr && only->name() == model->name())) continue;
    if (only != nullptr)
      return Refuse(Why::kBadRequest, "model is missing, expected one of those at /v1/models");
    only = model;
  }
  if (only == nullptr) return Refuse(Why::kNotFound, "no language model is served");
  return repository_.Find(only->name());
}

struct OpenAi::Interface {
  Result<TextAsked> (*read)(const nlohmann::ordered_json& root, const TextModel& model);
  TextAnswer::MakeForm form;
};

void OpenAi::Completions(const std::shared_ptr<Exchange>& ask) const {
  Write(ask, {ReadCompletion, MakeCompletionForm});
}

void OpenAi::Chat(const std::shared_ptr<Exchange>& ask) const {
  Write(ask, {ReadChat, MakeChatForm});
}

void OpenAi::Responses(const std::shared_ptr<Exchange>& ask) const {
  Write(ask, {ReadResponse, MakeResponseForm});
}

void OpenAi::Response(const std::shared_ptr<Exchange>& ask, const std::string& id) const {
  ask->ErrorsAsOpenAi();
  ask->Refuse({Why::kNotFound, fmt::format("response {}: {}", Shorten(id), kNotKept), 0});
}

void OpenAi::Write(const std::shared_ptr<Exchange>& ask, const Interface& as) const {
  ask->ErrorsAsOpenAi();
  constexpr size_t kMaxBytes = size_t{4} << 20;
  if (ask->request().body.size() > kMaxBytes)
    return ask->Refuse({Why::kTooLarge, "more than 4 MiB of JSON", 0});
  const auto root = ParseJson(ask->request().body);
  if (!root) return ask->Refuse({Why::kBadRequest, root.error().message(), 0});
  const auto model = Named(*root);
  if (!model) {
    ask->Note("model", Shorten(JsonText(*root, "model")));
    return ask->Refuse(model.error());
  }
  const std::string& name = (*model)->name();
  ask->Note("model", Shorten(name));
  TextModel* const text = (*model)->text();
  if (text == nullptr)
    return ask->Refuse({Why::kBadRequest, name + " is no language model with caches", 0});
  auto asked = as.read(nlohmann::ordered_json::parse(ask->request().body), *text);
  if (!asked) {
    (*model)->statistics().Failed(Why::kBadRequest, 0);
    return ask->Refuse({Why::kBadRequest, asked.error().message(), 0});
  }
  ask->DropBody();
  if (!asked->ignored.empty()) ask->Note("ignored", asked->ignored);
  // A text that was drawn can be had again.
  if (const SamplingOptions& drawn = asked->options.sampling; drawn.temperature > 0)
    ask->Note("seed", static_cast<int64_t>(drawn.seed));
  auto deadline = Clock::time_point::max();
  const int64_t timeout_us = (*model)->settings().timeout_us;
  if (timeout_us > 0) deadline = Clock::now() + std::chrono::microseconds(timeout_us);
  std::vector<TextRequest> requests = TextAnswer::Of(ask, *model, std::move(*asked), as.form);
  for (TextRequest& request : requests) request.deadline = deadline;
  if (const auto taken = text->Submit(requests); !taken) ask->Refuse(taken.error());
}

}  // namespace evoq::serve
