#include "serve/openai.h"

#include <utility>

#include "base/brief.h"
#include "base/json_file.h"
#include "serve/asked_model.h"
#include "serve/llama_request.h"
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
  const auto found = repository_.Find(name);
  if (!found) return ask->Refuse(found.error());
  const std::shared_ptr<ServedModel>& model = *found;
  if (model->text() == nullptr && model->embedder() == nullptr)
    return ask->Refuse({Why::kNotFound, name + " is no language model", 0});
  ask->AnswerJson(About(*model));
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

void OpenAi::LlamaCompletion(const std::shared_ptr<Exchange>& ask) const {
  Write(ask, {ReadLlamaCompletion, MakeLlamaForm});
}

void OpenAi::InputTokens(const std::shared_ptr<Exchange>& ask) const {
  ask->ErrorsAsOpenAi();
  const auto model = TextModelAsked(repository_, *ask);
  if (!model) return ask->Refuse(model.error());
  const auto asked =
      ReadResponse(nlohmann::ordered_json::parse(ask->request().body), *(*model)->text());
  if (!asked) return ask->Refuse({Why::kBadRequest, asked.error().message(), 0});
  ask->AnswerJson(
      {{"object", "response.input_tokens"}, {"input_tokens", asked->prompts[0].tokens.size()}});
}

void OpenAi::Response(const std::shared_ptr<Exchange>& ask, const std::string& id) const {
  ask->ErrorsAsOpenAi();
  ask->Refuse({Why::kNotFound, fmt::format("response {}: {}", Shorten(id), kNotKept), 0});
}

void OpenAi::Write(const std::shared_ptr<Exchange>& ask, const Interface& as) const {
  ask->ErrorsAsOpenAi();
  const auto found = TextModelAsked(repository_, *ask);
  if (!found) return ask->Refuse(found.error());
  const std::shared_ptr<ServedModel>& model = *found;
  TextModel* const text = model->text();
  auto asked = as.read(nlohmann::ordered_json::parse(ask->request().body), *text);
  if (!asked) {
    model->statistics().Failed(Why::kBadRequest, 0);
    return ask->Refuse({Why::kBadRequest, asked.error().message(), 0});
  }
  ask->DropBody();
  if (!asked->ignored.empty()) ask->Note("ignored", asked->ignored);
  // A text that was drawn can be had again.
  if (const SamplingOptions& drawn = asked->options.sampling; drawn.temperature > 0)
    ask->Note("seed", static_cast<int64_t>(drawn.seed));
  auto deadline = Clock::time_point::max();
  const int64_t timeout_us = model->settings().timeout_us;
  if (timeout_us > 0) deadline = Clock::now() + std::chrono::microseconds(timeout_us);
  std::vector<TextRequest> requests = TextAnswer::Of(ask, model, std::move(*asked), as.form);
  for (TextRequest& request : requests) request.deadline = deadline;
  if (const auto taken = text->Submit(requests); !taken) ask->Refuse(taken.error());
}

}  // namespace evoq::serve
