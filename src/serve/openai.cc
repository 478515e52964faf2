#include "serve/openai.h"

#include <utility>

#include "base/brief.h"
#include "base/json_file.h"
#include "serve/openai_request.h"
#include "serve/text_answer.h"

namespace evoq::serve {

using nlohmann::json;

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
  const auto ordered = nlohmann::ordered_json::parse(ask->request().body);
  auto asked = ReadTextAsked(*root, ordered, *text, chat);
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
  std::vector<TextRequest> requests = TextAnswer::Of(ask, *model, chat, std::move(*asked));
  for (TextRequest& request : requests) request.deadline = deadline;
  if (const auto taken = text->Submit(requests); !taken) ask->Refuse(taken.error());
}

}  // namespace evoq::serve
