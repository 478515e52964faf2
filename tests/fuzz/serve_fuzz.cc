// Room: serve
// What clients send. Over HTTP the bytes go to a server that runs, through a socket whose sending
// side is closed behind them: each request in them gets an answer, and the connection ends. Of gRPC
// it is a call's message: it gets one answer. The fuzzer's first byte says which.
#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

#include <future>
#include <random>

#include "base/check.h"
#include "models/models.h"
#include "program/etm.h"
#include "reference/reference.h"
#include "serve/inference.pb.h"
#include "serve/rpc.h"
#include "tests/fuzz/byte_mutator.h"
#include "tests/fuzz/time_limit.h"

namespace {

using namespace evoq;
using serve::HttpRequest;
using serve::HttpResponse;

enum Kind : uint8_t { kHttp, kMessage };  // kMessage and above: of each method

constexpr char kNet[] =
    "input %x: float32[\"N\", 4]\nconst %c: float32[4] = [1, 2, 3, 4]\n"
    "a: %y: float32[\"N\", 4] = Add(%x, %c)\noutput %y\n";

constexpr const char* kMethods[] = {"ServerLive",
                                    "ServerReady",
                                    "ModelReady",
                                    "ServerMetadata",
                                    "ModelInfer",
                                    "ModelStreamInfer",
                                    "ModelMetadata",
                                    "ModelConfig",
                                    "ModelStatistics",
                                    "RepositoryIndex",
                                    "RepositoryModelUnload",
                                    "Other"};

// A server with a model, m, that nobody can unload.
class Target {
 public:
  Target() {
    const std::string folder = fuzz::Folder() + "/models";
    std::filesystem::create_directories(folder);
    auto graph = ParseGraph(kNet);
    EVOQ_CHECK(graph.has_value() && InferTypes(*graph).has_value());
    const auto model = LowerAndPack(*std::move(graph));
    EVOQ_CHECK(model.has_value() && WriteEtm(*model, folder + "/m.etm").has_value());
    auto opened = serve::Repository::Open(folder, {}, {.threads = 1}, [](auto&&...) {});
    EVOQ_CHECK(opened.has_value());
    repository_ = std::move(*opened);
    EVOQ_CHECK(repository_->Load("m").has_value());
    service_ = std::make_unique<serve::Service>(*repository_,
                                                serve::ServiceOptions{.model_control = false});
    serve::ServerOptions options;
    options.port = 0;
    options.threads = 1;
    options.max_body = 1 << 20;
    auto server = serve::Server::Listen(options, [this](auto request, auto reply) {
      service_->Handle(std::move(request), std::move(reply));
    });
    EVOQ_CHECK(server.has_value());
    server_ = std::move(*server);
    const auto post = [this](std::function<void()> work) { server_->Post(std::move(work)); };
    service_->Use(post, post, &server_->counts());
    server_->Start();
    service_->SetReady(true);
  }
  int port() const { return server_->port(); }
  serve::Service& service() { return *service_; }

 private:
  std::unique_ptr<serve::Repository> repository_;
  std::unique_ptr<serve::Service> service_;
  std::unique_ptr<serve::Server> server_;
};

Target& Served() {
  static Target& target = *new Target;  // its threads outlive main
  return target;
}

// All that the server sends for these bytes.
std::string Ask(std::string_view bytes) {
  const int s = socket(AF_INET, SOCK_STREAM, 0);
  EVOQ_CHECK(s >= 0);
  // What was read was all: a port is free at once.
  const linger at_once{1, 0};
  setsockopt(s, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(Served().port()));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  EVOQ_CHECK(connect(s, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0);
  size_t sent = 0;
  while (sent < bytes.size()) {
    const ssize_t more = send(s, bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL);
    if (more <= 0) break;  // it has refused what came, and closed
    sent += static_cast<size_t>(more);
  }
  shutdown(s, SHUT_WR);
  std::string answer;
  char piece[4096];
  for (ssize_t got = 1; got > 0;) {
    got = recv(s, piece, sizeof(piece), 0);
    if (got > 0) answer.append(piece, static_cast<size_t>(got));
  }
  close(s);
  return answer;
}

void TryHttp(std::string_view bytes) {
  const std::string answer = Ask(bytes);
  EVOQ_CHECK(answer.empty() || answer.starts_with("HTTP/1."), "{}", answer.substr(0, 200));
  EVOQ_CHECK(answer.find(" 500 ") != 8, "{}", answer.substr(0, 500));
  // It goes on.
  static int count = 0;
  if (++count % 1000 != 0) return;
  const std::string live = Ask("GET /v2/health/live HTTP/1.1\r\nConnection: close\r\n\r\n");
  EVOQ_CHECK(live.starts_with("HTTP/1.1 200 "), "{}", live);
}

class Promised final : public serve::Reply {
 public:
  explicit Promised(std::promise<HttpResponse> answer) : answer_(std::move(answer)) {}
  void Send(HttpResponse response) override { answer_.set_value(std::move(response)); }
  void Begin(HttpResponse) override { EVOQ_CHECK(false, "an answer in pieces"); }
  bool Write(std::string) override { return false; }
  void End() override {}

 private:
  std::promise<HttpResponse> answer_;
};

void TryMessage(const char* method, std::string_view bytes) {
  auto request = std::make_shared<HttpRequest>();
  request->method = "POST";
  request->target = std::string("/inference.GRPCInferenceService/") + method;
  request->body = bytes;
  std::promise<HttpResponse> promise;
  std::future<HttpResponse> answer = promise.get_future();
  HandleRpc(Served().service(), std::move(request), std::make_shared<Promised>(std::move(promise)));
  const HttpResponse response = answer.get();
  EVOQ_CHECK(response.status != 500 && response.error.size() < 20000, "{}: {}", method,
             response.error);
}

std::string Request(const std::string& line, const std::string& headers, const std::string& body) {
  return line + " HTTP/1.1\r\nHost: h\r\n" + headers +
         fmt::format("Content-Length: {}\r\n\r\n", body.size()) + body;
}

const std::vector<std::pair<uint8_t, std::string>>& Seeds() {
  static const std::vector<std::pair<uint8_t, std::string>> seeds = [] {
    const std::string json =
        R"({"id":"7","inputs":[{"name":"x","shape":[1,4],"datatype":"FP32","data":[1,2,3,4]}]})";
    const std::string head =
        R"({"inputs":[{"name":"x","shape":[1,4],"datatype":"FP32","parameters":)"
        R"({"binary_data_size":16}}],"parameters":{"binary_data_output":true}})";
    const std::string infer = "POST /v2/models/m/infer";
    std::vector<std::pair<uint8_t, std::string>> all = {
        {kHttp, Request(infer, "", json)},
        {kHttp, Request(infer, fmt::format("Inference-Header-Content-Length: {}\r\n", head.size()),
                        head + std::string(16, '\1'))},
        {kHttp,
         infer +
             fmt::format(" HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n{:x}\r\n", json.size()) +
             json + "\r\n0\r\n\r\n"},
        {kHttp, "GET /v2 HTTP/1.1\r\n\r\nGET /metrics HTTP/1.0\r\nConnection: keep-alive\r\n\r\n"},
        {kHttp,
         "HEAD /v2/models/m/config HTTP/1.1\r\nX-Request-Id: a\r\ntraceparent: "
         "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01\r\n\r\n"},
        {kHttp, "GET /v2/models/%6d/versions/1/stats?x HTTP/1.1\r\nExpect: 100-continue\r\n\r\n"},
        {kHttp, "GET / HTTP/1.1\r\n\r\n"},
        {kHttp, Request("POST /v1/chat/completions", "", R"({"model":"m","messages":[]})")},
        {kHttp, Request("POST /v2/repository/index", "", R"({"ready":true})")},
    };
    inference::ModelInferRequest message;
    message.set_model_name("m");
    message.set_id("7");
    (*message.mutable_parameters())["timeout"].set_int64_param(1000000);
    auto& input = *message.add_inputs();
    input.set_name("x");
    input.set_datatype("FP32");
    input.add_shape(1);
    input.add_shape(4);
    message.add_outputs()->set_name("y");
    inference::ModelInferRequest raw = message;
    raw.add_raw_input_contents(std::string(16, '\1'));
    for (int i = 0; i < 4; ++i)
      message.mutable_inputs(0)->mutable_contents()->add_fp32_contents(1.5f);
    inference::ModelReadyRequest named;
    named.set_name("m");
    named.set_version("1");
    for (size_t i = 0; i < std::size(kMethods); ++i) {
      const auto kind = static_cast<uint8_t>(kMessage + i);
      const bool infers = std::string_view(kMethods[i]).ends_with("Infer");
      all.emplace_back(kind, infers ? raw.SerializeAsString() : named.SerializeAsString());
      if (infers) all.emplace_back(kind, message.SerializeAsString());
    }
    return all;
  }();
  return seeds;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 1) return 0;
  Served();
  const TimeLimit limit;
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  const size_t kind = data[0] % (kMessage + std::size(kMethods));
  if (kind == kHttp) {
    TryHttp(bytes);
  } else {
    TryMessage(kMethods[kind - kMessage], bytes);
  }
  return 0;
}

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size,
                                          unsigned int seed) {
  return fuzz::MutateFile(
      data, size, max_size, seed,
      [](std::minstd_rand& random) { return Seeds()[random() % Seeds().size()]; },
      [](uint8_t, std::string&) {});
}
