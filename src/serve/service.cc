#include "serve/service.h"

#include <algorithm>
#include <charconv>
#include <iterator>
#include <optional>

#include "base/brief.h"
#include "base/json_file.h"
#include "base/version.h"
#include "serve/inference_request.h"
#include "serve/metrics.h"
#include "serve/model_json.h"
#include "serve/shadow.h"
#include "serve/status_page.h"

namespace evoq::serve {
namespace {

using nlohmann::json;

// Equal in a time that does not tell where they differ.
bool SameToken(std::string_view a, std::string_view b) {
  if (a.size() != b.size()) return false;
  unsigned different = 0;
  for (size_t i = 0; i < a.size(); ++i) different |= static_cast<unsigned char>(a[i] ^ b[i]);
  return different == 0;
}

Served<std::optional<size_t>> JsonBytes(const HttpRequest& request) {
  const std::string& text = request.header("inference-header-content-length");
  if (text.empty()) return std::optional<size_t>();
  size_t bytes = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), bytes);
  if (error != std::errc() || end != text.data() + text.size())
    return Refuse(Why::kBadRequest,
                  "Inference-Header-Content-Length: {}, expected a number of bytes", Shorten(text));
  return std::optional(bytes);
}

Served<InferenceRequest> ReadInference(const HttpRequest& request, const ServedModel& model) {
  const std::string& encoding = request.header("content-encoding");
  if (!encoding.empty() && encoding != "identity")
    return Refuse(Why::kUnsupported, "Content-Encoding {}: not supported", Shorten(encoding));
  const auto json_bytes = JsonBytes(request);
  if (!json_bytes) return tl::unexpected(json_bytes.error());
  return ParseInference(request.body, *json_bytes, model.inputs(), model.outputs());
}

}  // namespace

// "*" stands for any part.
struct Service::Route {
  const char* method;
  std::vector<std::string> path;
  void (Service::*handle)(const Ask& ask, const Parts& parts);
  bool open = false;  // needs no token

  bool Fits(const Parts& parts) const {
    return std::equal(parts.begin(), parts.end(), path.begin(), path.end(),
                      [](const std::string& part, const std::string& wanted) {
                        return wanted == "*" || part == wanted;
                      });
  }
};

std::span<const Service::Route> Service::Routes() {
  static const Route kRoutes[] = {
      {"GET", {"v2", "health", "live"}, &Service::Live, true},
      {"GET", {"v2", "health", "ready"}, &Service::Ready, true},
      {"GET", {"health"}, &Service::Health, true},  // llama.cpp's and vLLM's
      {"GET", {}, &Service::StatusPage, true},
      {"GET", {"status"}, &Service::StatusPage, true},
      {"GET", {"status.json"}, &Service::StatusData},
      {"GET", {"v2"}, &Service::About},
      {"GET", {"metrics"}, &Service::Metrics},
      {"GET", {"v2", "models", "stats"}, &Service::AllStatistics},
      {"GET", {"v2", "models", "*"}, &Service::ModelAbout},
      {"GET", {"v2", "models", "*", "versions", "*"}, &Service::ModelAbout},
      {"GET", {"v2", "models", "*", "ready"}, &Service::ModelReady},
      {"GET", {"v2", "models", "*", "versions", "*", "ready"}, &Service::ModelReady},
      {"GET", {"v2", "models", "*", "config"}, &Service::ModelConfig},
      {"GET", {"v2", "models", "*", "versions", "*", "config"}, &Service::ModelConfig},
      {"GET", {"v2", "models", "*", "stats"}, &Service::ModelStatistics},
      {"GET", {"v2", "models", "*", "versions", "*", "stats"}, &Service::ModelStatistics},
      {"POST", {"v2", "models", "*", "infer"}, &Service::InferJson},
      {"POST", {"v2", "models", "*", "versions", "*", "infer"}, &Service::InferJson},
      {"GET", {"v1", "models"}, &Service::OpenAiModels},
      {"GET", {"v1", "models", "*"}, &Service::OpenAiModel},
      {"POST", {"v1", "completions"}, &Service::OpenAiCompletions},
      {"POST", {"v1", "chat", "completions"}, &Service::OpenAiChat},
      // llama.cpp's and vLLM's
      {"GET", {"v1", "health"}, &Service::Health, true},
      {"GET", {"models"}, &Service::OpenAiModels},
      {"GET", {"props"}, &Service::Props},
      {"GET", {"slots"}, &Service::Slots},
      {"POST", {"completion"}, &Service::LlamaCompletion},
      {"POST", {"completions"}, &Service::LlamaCompletion},
      {"POST", {"chat", "completions"}, &Service::OpenAiChat},
      {"POST", {"embedding"}, &Service::LlamaEmbeddings},
      {"POST", {"embeddings"}, &Service::LlamaEmbeddings},
      {"POST", {"rerank"}, &Service::Rerank},
      {"POST", {"reranking"}, &Service::Rerank},
      {"POST", {"v1", "rerank"}, &Service::Rerank},
      {"POST", {"v1", "reranking"}, &Service::Rerank},
      {"POST", {"v2", "rerank"}, &Service::Rerank},
      {"POST", {"tokenize"}, &Service::Tokenize},
      {"POST", {"detokenize"}, &Service::Detokenize},
      {"POST", {"apply-template"}, &Service::ApplyTemplate},
      {"POST", {"v1", "responses"}, &Service::OpenAiResponses},
      {"POST", {"v1", "responses", "input_tokens"}, &Service::OpenAiInputTokens},
      {"GET", {"v1", "responses", "*"}, &Service::OpenAiResponse},
      {"DELETE", {"v1", "responses", "*"}, &Service::OpenAiResponse},
      {"GET", {"v1", "responses", "*", "input_items"}, &Service::OpenAiResponse},
      {"POST", {"v1", "responses", "*", "cancel"}, &Service::OpenAiResponse},
      {"POST", {"v1", "embeddings"}, &Service::OpenAiEmbeddings},
      {"POST", {"v2", "repository", "index"}, &Service::Index},
      {"POST", {"v2", "repository", "models", "*", "load"}, &Service::Load},
      {"POST", {"v2", "repository", "models", "*", "unload"}, &Service::Unload},
  };
  return kRoutes;
}

Service::Service(Repository& repository, ServiceOptions options)
    : repository_(repository),
      options_(std::move(options)),
      openai_(repository),
      tools_(repository) {}

void Service::Use(Post post, Post load, const ServerCounts* counts) {
  post_ = std::move(post);
  load_ = std::move(load);
  counts_ = counts;
}

Service::Ask Service::Begin(std::shared_ptr<HttpRequest> request,
                            std::shared_ptr<Reply> reply) const {
  return std::make_shared<Exchange>(std::move(request), std::move(reply),
                                    options_.log_requests ? options_.log : LogLine());
}

bool Service::Known(const HttpRequest& request) const {
  if (options_.tokens.empty()) return true;
  constexpr std::string_view kScheme = "Bearer ";
  const std::string& given = request.header("authorization");
  if (!given.starts_with(kScheme)) return false;
  return std::any_of(options_.tokens.begin(), options_.tokens.end(), [&](const std::string& token) {
    return SameToken(std::string_view(given).substr(kScheme.size()), token);
  });
}

bool Service::Allowed(const Ask& ask) const {
  if (Known(ask->request())) return true;
  ask->Refuse({Why::kUnauthorized, "expected Authorization: Bearer and a token", 0});
  return false;
}

void Service::Handle(std::shared_ptr<HttpRequest> request, std::shared_ptr<Reply> reply) {
  const std::string method = request->method == "HEAD" ? "GET" : request->method;
  Parts parts;
  const bool is_path = SplitTarget(request->target, parts);
  const Ask ask = Begin(std::move(request), std::move(reply));
  if (!is_path) return ask->Refuse({Why::kBadRequest, "a target that is no path", 0});
  Dispatch(ask, method, parts);
}

void Service::Answer(std::shared_ptr<HttpRequest> request, std::shared_ptr<Reply> reply,
                     const std::string& method, const Parts& parts) {
  Dispatch(Begin(std::move(request), std::move(reply)), method, parts);
}

void Service::Infer(std::shared_ptr<HttpRequest> request, std::shared_ptr<Reply> reply,
                    const std::string& model, const std::string& version, InferenceForm form) {
  const Ask ask = Begin(std::move(request), std::move(reply));
  if (!Allowed(ask)) return;
  if (const auto found = Named(ask, model, version)) Infer(ask, found, std::move(form));
}

void Service::Refuse(std::shared_ptr<HttpRequest> request, std::shared_ptr<Reply> reply,
                     const Refusal& refusal) {
  Begin(std::move(request), std::move(reply))->Refuse(refusal);
}

void Service::Dispatch(const Ask& ask, const std::string& method, const Parts& parts) {
  const Route* other = nullptr;
  for (const Route& route : Routes()) {
    if (!route.Fits(parts)) continue;
    other = &route;
    if (method != route.method) continue;
    if (!route.open && !Allowed(ask)) return;
    return (this->*route.handle)(ask, parts);
  }
  if (other != nullptr)
    return ask->Refuse({Why::kBadMethod,
                        fmt::format("method {}, expected {}", Shorten(method), other->method), 0});
  ask->Refuse({Why::kNotFound, fmt::format("{}: no such path", Shorten(ask->request().target)), 0});
}

void Service::Live(const Ask& ask, const Parts&) { ask->AnswerJson({{"live", true}}); }

void Service::Ready(const Ask& ask, const Parts&) {
  if (ready_) return ask->AnswerJson({{"ready", true}});
  ask->Refuse({Why::kUnavailable, "the server is starting or draining", 1});
}

void Service::Health(const Ask& ask, const Parts& parts) {
  if (!ready_) return Ready(ask, parts);
  ask->AnswerJson({{"status", "ok"}});
}

void Service::About(const Ask& ask, const Parts&) {
  ask->AnswerJson({{"name", "evoq"},
                   {"version", EVOQ_VERSION},
                   {"extensions",
                    {"model_repository", "model_configuration", "statistics", "binary_tensor_data",
                     "parameters"}}});
}

void Service::Metrics(const Ask& ask, const Parts&) {
  HttpResponse response;
  response.content_type = "text/plain; version=0.0.4; charset=utf-8";
  response.body = MetricsPage(repository_, counts_);
  ask->Answer(std::move(response));
}

json Service::StatusNow() const { return StatusOf(repository_, counts_, ready_); }

// Who is not known gets the page without data: it asks for a token, and for the data itself.
void Service::StatusPage(const Ask& ask, const Parts&) {
  HttpResponse response;
  response.content_type = "text/html; charset=utf-8";
  // Nothing of it comes from elsewhere, whatever names of models say.
  response.headers.emplace_back("Content-Security-Policy",
                                "default-src 'none'; script-src 'unsafe-inline'; "
                                "style-src 'unsafe-inline'; connect-src 'self'");
  response.body = PageOfStatus(Known(ask->request()) ? StatusNow() : json());
  ask->Answer(std::move(response));
}

std::shared_ptr<ServedModel> Service::Named(const Ask& ask, const std::string& model,
                                            const std::string& version) const {
  ask->Note("model", model);
  auto found = repository_.Find(model, version);
  if (!found) {
    ask->Refuse(found.error());
    return nullptr;
  }
  ask->Note("model_version", (*found)->version());
  return *std::move(found);
}

std::shared_ptr<ServedModel> Service::Named(const Ask& ask, const Parts& parts) const {
  const bool versioned = parts.size() > 3 && parts[3] == "versions";
  return Named(ask, parts[2], versioned ? parts[4] : "");
}

void Service::ModelReady(const Ask& ask, const Parts& parts) {
  if (const auto model = Named(ask, parts))
    ask->AnswerJson({{"name", model->name()}, {"ready", true}});
}

void Service::ModelAbout(const Ask& ask, const Parts& parts) {
  if (const auto model = Named(ask, parts)) ask->AnswerJson(MetadataOf(*model, repository_));
}

void Service::ModelConfig(const Ask& ask, const Parts& parts) {
  if (const auto model = Named(ask, parts)) ask->AnswerJson(ConfigOf(*model));
}

void Service::ModelStatistics(const Ask& ask, const Parts& parts) {
  if (const auto model = Named(ask, parts))
    ask->AnswerJson({{"model_stats", {StatisticsOf(*model)}}});
}

void Service::AllStatistics(const Ask& ask, const Parts&) {
  json all = json::array();
  for (const auto& model : repository_.All()) all.push_back(StatisticsOf(*model));
  ask->AnswerJson({{"model_stats", std::move(all)}});
}

void Service::InferJson(const Ask& ask, const Parts& parts) {
  const auto model = Named(ask, parts);
  if (model == nullptr) return;
  InferenceForm form;
  form.read = [ask](const ServedModel& asked) { return ReadInference(ask->request(), asked); };
  form.write = [](const ServedModel& asked, const InferenceRequest& request,
                  const Tensors& outputs) -> Served<HttpResponse> {
    auto body = WriteInference(asked.name(), asked.version(), request, outputs, asked.outputs());
    if (!body) return tl::unexpected(body.error());
    HttpResponse response;
    response.body = std::move(body->text);
    if (body->json_bytes) {
      response.content_type = "application/octet-stream";
      response.headers.emplace_back("Inference-Header-Content-Length",
                                    std::to_string(*body->json_bytes));
    }
    return response;
  };
  Infer(ask, model, std::move(form));
}

void Service::Infer(const Ask& ask, const std::shared_ptr<ServedModel>& model, InferenceForm form) {
  auto read = form.read(*model);
  form.read = nullptr;
  ask->DropBody();
  if (!read) {
    model->statistics().Failed(read.error().why, 0);
    return ask->Refuse(read.error());
  }
  const auto request = std::make_shared<InferenceRequest>(std::move(*read));
  if (!request->id.empty()) ask->Note("id", request->id);
  Inference inference;
  inference.inputs = std::move(request->inputs);
  inference.deadline = ask->request().deadline;
  inference.cancelled = ask->request().cancelled;
  if (request->timeout_us > 0)
    inference.deadline =
        std::min(inference.deadline, Clock::now() + std::chrono::microseconds(request->timeout_us));
  // Handles: no bytes are copied.
  const Tensors shadowed = model->ShadowsNext() ? inference.inputs : Tensors();
  inference.done = [this, ask, model, request, shadowed, write = std::move(form.write),
                    post = post_](Served<Tensors> outputs, const InferenceTimes& times) {
    ask->Note("queue_ms", static_cast<double>(times.queue_ns) * 1e-6);
    ask->Note("infer_ms", static_cast<double>(times.infer_ns) * 1e-6);
    // The answer is written elsewhere: the thread here runs the next request.
    post([this, ask, model, request, shadowed, write, times, outputs = std::move(outputs)] {
      if (!outputs) return ask->Refuse(outputs.error());
      auto response = write(*model, *request, *outputs);
      if (!response) return ask->Refuse(response.error());
      ask->Answer(std::move(*response));
      if (!shadowed.empty()) RunShadow(repository_, model, shadowed, *outputs, times);
    });
  };
  if (const auto taken = model->Infer(inference); !taken) ask->Refuse(taken.error());
}

void Service::Index(const Ask& ask, const Parts&) {
  bool only_ready = false;
  if (!ask->request().body.empty()) {
    const auto asked = ParseJson(ask->request().body);
    if (!asked) return ask->Refuse({Why::kBadRequest, asked.error().message(), 0});
    const auto ready = asked->is_object() ? asked->find("ready") : asked->end();
    only_ready = ready != asked->end() && ready->is_boolean() && ready->get<bool>();
  }
  json index = json::array();
  for (const IndexEntry& entry : repository_.Index()) {
    if (only_ready && !entry.ready) continue;
    index.push_back({{"name", entry.name},
                     {"version", entry.version},
                     {"state", entry.ready ? "READY" : "UNAVAILABLE"},
                     {"reason", entry.reason}});
  }
  ask->AnswerJson(index);
}

void Service::Load(const Ask& ask, const Parts& parts) {
  if (!options_.model_control)
    return ask->Refuse({Why::kBadRequest, "models are loaded by the server alone", 0});
  const Result<json> asked = ParseJson(ask->request().body);
  if (asked && asked->is_object() && !asked->value("parameters", json()).empty())
    return ask->Refuse({Why::kBadRequest, "parameters of a load: not supported by this server", 0});
  // Reading a model takes a while.
  load_([this, ask, name = parts[3]] {
    ask->Note("model", name);
    const Status loaded = repository_.Load(name);
    if (loaded) return ask->AnswerJson(json::object());
    const bool missing = loaded.error().code() == ErrorCode::kNotFound;
    ask->Refuse({missing ? Why::kNotFound : Why::kBadRequest, loaded.error().message(), 0});
  });
}

void Service::Unload(const Ask& ask, const Parts& parts) {
  if (!options_.model_control)
    return ask->Refuse({Why::kBadRequest, "models are unloaded by the server alone", 0});
  load_([this, ask, name = parts[3]] {
    ask->Note("model", name);
    const Status unloaded = repository_.Unload(name);
    if (unloaded) return ask->AnswerJson(json::object());
    ask->Refuse({Why::kNotFound, unloaded.error().message(), 0});
  });
}

}  // namespace evoq::serve
