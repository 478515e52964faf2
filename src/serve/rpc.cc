#include "serve/rpc.h"

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>

#include "base/brief.h"
#include "base/check.h"
#include "base/json_file.h"
#include "serve/inference_message.h"
#include "serve/message.h"

namespace evoq::serve {
namespace {

using google::protobuf::Message;
using nlohmann::json;
using Parts = std::vector<std::string>;

constexpr std::string_view kPrefix = "/inference.GRPCInferenceService/";

// What a method is over HTTP.
struct Asked {
  const char* method = "GET";
  Parts parts;
  std::string body;
};

struct Method {
  std::string_view name;
  Served<Asked> (*read)(std::string_view bytes);
  const Message& (*answer)();    // an empty one
  const char* member = nullptr;  // of the answer, which HTTP's answer is; null: it is all of it
  // A member of the answer that says whether HTTP's was no refusal; null: refusals are errors.
  const char* state = nullptr;
};

template <typename Request, auto kAsk>
Served<Asked> Read(std::string_view bytes) {
  Request request;
  if (auto read = ParseMessage(bytes, request); !read) return tl::unexpected(read.error());
  return kAsk(request);
}

template <typename Request>
Asked OfModel(const Request& request, const char* last) {
  Asked asked{"GET", {"v2", "models", request.name()}, ""};
  if (!request.version().empty()) {
    asked.parts.push_back("versions");
    asked.parts.push_back(request.version());
  }
  if (*last != '\0') asked.parts.push_back(last);
  return asked;
}

Asked Live(const inference::ServerLiveRequest&) { return {"GET", {"v2", "health", "live"}, ""}; }
Asked Ready(const inference::ServerReadyRequest&) { return {"GET", {"v2", "health", "ready"}, ""}; }
Asked About(const inference::ServerMetadataRequest&) { return {"GET", {"v2"}, ""}; }
Asked ModelReady(const inference::ModelReadyRequest& r) { return OfModel(r, "ready"); }
Asked ModelAbout(const inference::ModelMetadataRequest& r) { return OfModel(r, ""); }
Asked Config(const inference::ModelConfigRequest& r) { return OfModel(r, "config"); }
Asked Statistics(const inference::ModelStatisticsRequest& r) {
  return r.name().empty() ? Asked{"GET", {"v2", "models", "stats"}, ""} : OfModel(r, "stats");
}
Asked Index(const inference::RepositoryIndexRequest& r) {
  return {"POST", {"v2", "repository", "index"}, json{{"ready", r.ready()}}.dump()};
}
template <typename Request>
Asked Control(const Request& request, const char* last) {
  json parameters = json::object();
  for (const auto& [key, value] : request.parameters()) parameters[key] = nullptr;
  return {"POST",
          {"v2", "repository", "models", request.model_name(), last},
          json{{"parameters", parameters}}.dump(-1, ' ', false, json::error_handler_t::replace)};
}
Asked Load(const inference::RepositoryModelLoadRequest& r) { return Control(r, "load"); }
Asked Unload(const inference::RepositoryModelUnloadRequest& r) { return Control(r, "unload"); }

template <typename Response>
const Message& Of() {
  return Response::default_instance();
}

// Those that HTTP answers with JSON; the others are inference.
const Method kMethods[] = {
    {"ServerLive", Read<inference::ServerLiveRequest, Live>, Of<inference::ServerLiveResponse>},
    {"ServerReady", Read<inference::ServerReadyRequest, Ready>, Of<inference::ServerReadyResponse>,
     nullptr, "ready"},
    {"ModelReady", Read<inference::ModelReadyRequest, ModelReady>,
     Of<inference::ModelReadyResponse>, nullptr, "ready"},
    {"ServerMetadata", Read<inference::ServerMetadataRequest, About>,
     Of<inference::ServerMetadataResponse>},
    {"ModelMetadata", Read<inference::ModelMetadataRequest, ModelAbout>,
     Of<inference::ModelMetadataResponse>},
    {"ModelConfig", Read<inference::ModelConfigRequest, Config>, Of<inference::ModelConfigResponse>,
     "config"},
    {"ModelStatistics", Read<inference::ModelStatisticsRequest, Statistics>,
     Of<inference::ModelStatisticsResponse>},
    {"RepositoryIndex", Read<inference::RepositoryIndexRequest, Index>,
     Of<inference::RepositoryIndexResponse>, "models"},
    {"RepositoryModelLoad", Read<inference::RepositoryModelLoadRequest, Load>,
     Of<inference::RepositoryModelLoadResponse>},
    {"RepositoryModelUnload", Read<inference::RepositoryModelUnloadRequest, Unload>,
     Of<inference::RepositoryModelUnloadResponse>},
};

// HTTP's answer as a message.
Served<std::string> AnswerOf(const Method& method, const HttpResponse& response) {
  json body;
  if (method.state != nullptr) {
    body[method.state] = response.error.empty();
  } else {
    Result<json> read = ParseJson(response.body);
    if (!read) return Refuse(Why::kFailed, "{}", read.error().message());
    body = std::move(*read);
    if (method.member != nullptr) body = json{{method.member, std::move(body)}};
  }
  const std::unique_ptr<Message> message(method.answer().New());
  if (auto made = MessageOf(body, *message); !made) return tl::unexpected(made.error());
  return message->SerializeAsString();
}

// Hands on what a function makes of the answer. No method answers in pieces.
class ChangedReply final : public Reply {
 public:
  using Change = std::function<void(HttpResponse&)>;
  ChangedReply(std::shared_ptr<Reply> to, Change change)
      : to_(std::move(to)), change_(std::move(change)) {}
  void Send(HttpResponse response) override {
    change_(response);
    to_->Send(std::move(response));
  }
  void Begin(HttpResponse) override { EVOQ_CHECK(false, "an answer in pieces"); }
  bool Write(std::string) override { EVOQ_CHECK(false, "an answer in pieces"); }
  void End() override { EVOQ_CHECK(false, "an answer in pieces"); }

 private:
  const std::shared_ptr<Reply> to_;
  const Change change_;
};

// Of a refusal of who may ask, `state` says nothing.
bool IsState(const HttpResponse& response) {
  return response.error.empty() || response.status == StatusOf(Why::kNotFound) ||
         response.status == StatusOf(Why::kUnavailable);
}

void ToMessage(const Method& method, HttpResponse& response) {
  const bool answered = method.state != nullptr ? IsState(response) : response.error.empty();
  if (!answered) return;
  Served<std::string> message = AnswerOf(method, response);
  response.status = message ? 200 : StatusOf(message.error().why);
  response.error = message ? "" : message.error().message;
  response.body = message ? std::move(*message) : "";
}

// On a stream errors are messages too, which say the request's id.
void ToStreamMessage(const std::string& id, HttpResponse& response) {
  if (response.error.empty()) return;
  inference::ModelStreamInferResponse message;
  message.set_error_message(std::exchange(response.error, ""));
  message.mutable_infer_response()->set_id(id);
  response.status = 200;
  response.body = message.SerializeAsString();
}

void HandleInference(Service& service, std::shared_ptr<HttpRequest> request,
                     std::shared_ptr<Reply> reply, bool stream) {
  const auto message = std::make_shared<inference::ModelInferRequest>();
  const size_t bytes = request->body.size();
  const auto parsed = ParseMessage(request->body, *message);
  if (stream) {
    // What is no message may have left an id that is no UTF-8.
    const std::string id = parsed ? message->id() : "";
    reply = std::make_shared<ChangedReply>(
        std::move(reply), [id](HttpResponse& response) { ToStreamMessage(id, response); });
  }
  if (!parsed) return service.Refuse(std::move(request), std::move(reply), parsed.error());
  InferenceForm form;
  form.read = [message, bytes](const ServedModel& model) {
    return ReadInference(*message, bytes, model.inputs(), model.outputs());
  };
  form.write = [stream](const ServedModel& model, const InferenceRequest& of,
                        const Tensors& outputs) -> Served<HttpResponse> {
    auto answer = InferenceMessage(model.name(), model.version(), of, outputs, model.outputs());
    if (!answer) return tl::unexpected(answer.error());
    HttpResponse response;
    if (stream) {
      inference::ModelStreamInferResponse piece;
      *piece.mutable_infer_response() = std::move(*answer);
      response.body = piece.SerializeAsString();
    } else {
      response.body = answer->SerializeAsString();
    }
    return response;
  };
  service.Infer(std::move(request), std::move(reply), message->model_name(),
                message->model_version(), std::move(form));
}

std::string_view NameOfMethod(std::string_view target) {
  return target.starts_with(kPrefix) ? target.substr(kPrefix.size()) : std::string_view();
}

}  // namespace

bool IsStream(std::string_view target) { return NameOfMethod(target) == "ModelStreamInfer"; }

void HandleRpc(Service& service, std::shared_ptr<HttpRequest> request,
               std::shared_ptr<Reply> reply) {
  const std::string_view name = NameOfMethod(request->target);
  const bool stream = IsStream(request->target);
  if (name == "ModelInfer" || stream)
    return HandleInference(service, std::move(request), std::move(reply), stream);
  const Method* const method = std::find_if(std::begin(kMethods), std::end(kMethods),
                                            [&](const Method& m) { return m.name == name; });
  if (method == std::end(kMethods)) {
    const std::string said = fmt::format("{}: no such method", Shorten(request->target));
    return service.Refuse(std::move(request), std::move(reply), {Why::kBadMethod, said, 0});
  }
  auto asked = method->read(request->body);
  if (!asked) return service.Refuse(std::move(request), std::move(reply), asked.error());
  request->body = std::move(asked->body);
  reply = std::make_shared<ChangedReply>(
      std::move(reply), [method](HttpResponse& response) { ToMessage(*method, response); });
  service.Answer(std::move(request), std::move(reply), asked->method, asked->parts);
}

}  // namespace evoq::serve
