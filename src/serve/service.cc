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
      {"POST", {"v2", "models", "*", "infer"}, &Service::Infer},
      {"POST", {"v2", "models", "*", "versions", "*", "infer"}, &Service::Infer},
      {"GET", {"v1", "models"}, &Service::OpenAiModels},
      {"POST", {"v1", "completions"}, &Service::OpenAiCompletions},
      {"POST", {"v1", "chat", "completions"}, &Service::OpenAiChat},
      {"POST", {"v2", "repository", "index"}, &Service::Index},
      {"POST", {"v2", "repository", "models", "*", "load"}, &Service::Load},
      {"POST", {"v2", "repository", "models", "*", "unload"}, &Service::Unload},
  };
  return kRoutes;
}

Service::Service(Repository& repository, ServiceOptions options)
    : repository_(repository), options_(std::move(options)), openai_(repository) {}

void Service::Use(Post post, Post load, const ServerCounts* counts) {
  post_ = std::move(post);
  load_ = std::move(load);
  counts_ = counts;
}

bool Service::Allowed(const HttpRequest& request) const {
  if (options_.tokens.empty()) return true;
  constexpr std::string_view kScheme = "Bearer ";
  const std::string& given = request.header("authorization");
  if (given.compare(0, kScheme.size(), kScheme) != 0) return false;
  return std::any_of(options_.tokens.begin(), options_.tokens.end(), [&](const std::string& token) {
    return SameToken(std::string_view(given).substr(kScheme.size()), token);
  });
}

void Service::Handle(std::shared_ptr<HttpRequest> request, std::shared_ptr<Reply> reply) {
  const auto ask = std::make_shared<Exchange>(request, std::move(reply),
                                              options_.log_requests ? options_.log : LogLine());
  Parts parts;
  if (!SplitTarget(request->target, parts))
    return ask->Refuse({Why::kBadRequest, "a target that is no path", 0});
  const std::string method = request->method == "HEAD" ? "GET" : request->method;
  const Route* other = nullptr;
  for (const Route& route : Routes()) {
    if (!route.Fits(parts)) continue;
    other = &route;
    if (method != route.method) continue;
    if (!route.open && !Allowed(*request))
      return ask->Refuse({Why::kUnauthorized, "expected Authorization: Bearer and a token", 0});
    return (this->*route.handle)(ask, parts);
  }
  if (other != nullptr)
    return ask->Refuse({Why::kBadMethod,
                        fmt::format("method {}, expected {}", Shorten(method), other->method), 0});
  ask->Refuse({Why::kNotFound, fmt::format("{}: no such path", Shorten(request->target)), 0});
}

void Service::Live(const Ask& ask, const Parts&) { ask->AnswerJson({{"live", true}}); }

void Service::Ready(const Ask& ask, const Parts&) {
  if (ready_) return ask->AnswerJson({{"ready", true}});
  ask->Refuse({Why::kUnavailable, "the server is starting or draining", 1});
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

std::shared_ptr<ServedModel> Service::Named(const Ask& ask, const Parts& parts) const {
  const bool versioned = parts.size() > 3 && parts[3] == "versions";
  ask->Note("model", parts[2]);
  auto model = repository_.Find(parts[2], versioned ? parts[4] : "");
  if (!model) {
    ask->Refuse(model.error());
    return nullptr;
  }
  ask->Note("model_version", (*model)->version());
  return *std::move(model);
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

void Service::Infer(const Ask& ask, const Parts& parts) {
  const auto model = Named(ask, parts);
  if (model == nullptr) return;
  const auto refuse = [&](const Refusal& refusal, bool counted) {
    if (!counted) model->statistics().Failed(refusal.why, 0);
    ask->Refuse(refusal);
  };
  const std::string& encoding = ask->request().header("content-encoding");
  if (!encoding.empty() && encoding != "identity")
    return refuse(
        {Why::kUnsupported, "Content-Encoding " + Shorten(encoding) + ": not supported", 0}, false);
  const auto json_bytes = JsonBytes(ask->request());
  if (!json_bytes) return refuse(json_bytes.error(), false);
  auto parsed = ParseInference(ask->request().body, *json_bytes, model->inputs(), model->outputs());
  ask->DropBody();
  if (!parsed) return refuse(parsed.error(), false);
  const auto request = std::make_shared<InferenceRequest>(std::move(*parsed));
  if (!request->id.empty()) ask->Note("id", request->id);
  Inference inference;
  inference.inputs = std::move(request->inputs);
  if (request->timeout_us > 0)
    inference.deadline = Clock::now() + std::chrono::microseconds(request->timeout_us);
  inference.done = [ask, model, request, post = post_](Served<Tensors> outputs,
                                                       const InferenceTimes& times) {
    ask->Note("queue_ms", static_cast<double>(times.queue_ns) * 1e-6);
    ask->Note("infer_ms", static_cast<double>(times.infer_ns) * 1e-6);
    // Text is made elsewhere: the thread here runs the next request.
    post([ask, model, request, outputs = std::move(outputs)] {
      if (!outputs) return ask->Refuse(outputs.error());
      auto body =
          WriteInference(model->name(), model->version(), *request, *outputs, model->outputs());
      if (!body) return ask->Refuse(body.error());
      HttpResponse response;
      response.body = std::move(body->text);
      if (body->json_bytes) {
        response.content_type = "application/octet-stream";
        response.headers.emplace_back("Inference-Header-Content-Length",
                                      std::to_string(*body->json_bytes));
      }
      ask->Answer(std::move(response));
    });
  };
  if (const auto taken = model->Infer(inference); !taken) refuse(taken.error(), true);
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
