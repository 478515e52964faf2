#include "serve/asked_model.h"

#include <utility>

#include "base/brief.h"
#include "base/json_file.h"
#include "serve/fields.h"

namespace evoq::serve {

using nlohmann::json;

Served<json> ObjectOf(const Exchange& ask) {
  constexpr size_t kMaxBytes = size_t{4} << 20;
  const std::string& body = ask.request().body;
  if (body.size() > kMaxBytes) return Refuse(Why::kTooLarge, "more than 4 MiB of JSON");
  auto root = ParseJson(body);
  if (!root) return Refuse(Why::kBadRequest, "{}", root.error().message());
  if (!root->is_object())
    return Refuse(Why::kBadRequest, "the request is {}, expected an object", Brief(*root));
  return std::move(*root);
}

namespace {

// The only model of its kind where there is no name, as of llama.cpp's server, which has one.
Served<std::shared_ptr<ServedModel>> NamedOrOnly(const Repository& repository, const json& root,
                                                 bool (*is)(const ServedModel& model),
                                                 const char* kind) {
  if (root.contains("model") && !root["model"].is_null() && !root["model"].is_string())
    return Refuse(Why::kBadRequest, "model: {}, expected a text", Brief(root["model"]));
  const std::string name = JsonText(root, "model");
  if (!name.empty()) return repository.Find(name);
  std::shared_ptr<ServedModel> only;
  for (const auto& model : repository.All()) {
    if (!is(*model) || (only != nullptr && only->name() == model->name())) continue;
    if (only != nullptr)
      return Refuse(Why::kBadRequest, "model is missing, expected one of those at /v1/models");
    only = model;
  }
  if (only == nullptr) return Refuse(Why::kNotFound, "no {} is served", kind);
  return repository.Find(only->name());
}

}  // namespace

Served<std::shared_ptr<ServedModel>> ModelNamed(const Repository& repository, const json& root) {
  return NamedOrOnly(
      repository, root, [](const ServedModel& model) { return model.text() != nullptr; },
      "language model");
}

Served<std::shared_ptr<ServedModel>> EmbedderNamed(const Repository& repository, const json& root) {
  return NamedOrOnly(
      repository, root, [](const ServedModel& model) { return model.embedder() != nullptr; },
      "encoder");
}

Served<std::shared_ptr<ServedModel>> RerankerNamed(const Repository& repository, const json& root) {
  return NamedOrOnly(
      repository, root, [](const ServedModel& model) { return model.reranker() != nullptr; },
      "reranker");
}

Served<std::shared_ptr<ServedModel>> TextModelAsked(const Repository& repository, Exchange& ask,
                                                    const json& root) {
  auto model = ModelNamed(repository, root);
  if (!model) {
    ask.Note("model", Shorten(JsonText(root, "model")));
    return model;
  }
  const std::string& name = (*model)->name();
  ask.Note("model", Shorten(name));
  if ((*model)->text() == nullptr)
    return Refuse(Why::kBadRequest, "{} is no language model with caches", name);
  return model;
}

Served<std::shared_ptr<ServedModel>> TextModelAsked(const Repository& repository, Exchange& ask) {
  const auto root = ObjectOf(ask);
  if (!root) return tl::unexpected(root.error());
  return TextModelAsked(repository, ask, *root);
}

}  // namespace evoq::serve
