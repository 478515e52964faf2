#include "serve/serve.h"

#include <condition_variable>
#include <deque>
#include <future>
#include <mutex>
#include <optional>
#include <thread>

#include "base/file.h"
#include "base/guarded.h"
#include "serve/grpc_server.h"
#include "serve/repository.h"
#include "serve/rpc.h"
#include "serve/server.h"
#include "serve/service.h"

namespace evoq {
namespace {

using nlohmann::json;

// One thread for what takes long and need not be done at once: loading.
class Background {
 public:
  Background() : thread_([this] { Work(); }) {}
  ~Background() {
    {
      const std::lock_guard lock(mutex_);
      ending_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }
  void Post(std::function<void()> work) {
    {
      const std::lock_guard lock(mutex_);
      work_.push_back(std::move(work));
    }
    changed_.notify_all();
  }
  // Called between other work, so often.
  void Every(double seconds, std::function<void()> work) {
    {
      const std::lock_guard lock(mutex_);
      every_ = std::chrono::duration_cast<std::chrono::steady_clock::duration>(
          std::chrono::duration<double>(seconds));
      regular_ = std::move(work);
    }
    changed_.notify_all();
  }

 private:
  void Work() {
    std::unique_lock lock(mutex_);
    while (!ending_) {
      std::function<void()> work;
      if (!work_.empty()) {
        work = std::move(work_.front());
        work_.pop_front();
      } else if (regular_ == nullptr) {
        changed_.wait(lock);
      } else if (changed_.wait_for(lock, every_) == std::cv_status::timeout) {
        work = regular_;
      }
      if (work == nullptr) continue;
      lock.unlock();
      (void)Guarded([&]() -> Status {
        work();
        return {};
      });
      work = nullptr;
      lock.lock();
    }
  }
  std::mutex mutex_;
  std::condition_variable changed_;
  bool ending_ = false;
  std::deque<std::function<void()>> work_;
  std::chrono::steady_clock::duration every_{};
  std::function<void()> regular_;
  std::thread thread_;
};

Result<std::vector<std::string>> ReadTokens(const std::string& path) {
  std::vector<std::string> tokens;
  if (path.empty()) return tokens;
  EVOQ_ASSIGN(const std::string text, ReadTextFile(path, 1 << 20));
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    std::string line = text.substr(at, end - at);
    while (!line.empty() && (line.back() == '\r' || line.back() == ' ')) line.pop_back();
    if (!line.empty()) tokens.push_back(std::move(line));
    at = end + 1;
  }
  if (tokens.empty()) return InvalidInput("{}: no token, expected one on each line", path);
  return tokens;
}

// It refers to the log.
Result<std::unique_ptr<serve::Repository>> OpenRepository(const ServeJob& job,
                                                          const serve::LogLine& log) {
  serve::ModelSettings defaults;
  defaults.max_batch = job.max_batch;
  defaults.max_queue = job.max_queue;
  defaults.instances = job.instances;
  return serve::Repository::Open(
      job.repository, defaults, {.threads = job.threads},
      [&log](const std::string& event, const std::string& model, const std::string& why) {
        json fields = {{"model", model}};
        if (!why.empty()) fields["error"] = why;
        log(serve::LineOf(why.empty() ? "info" : "error", event, std::move(fields)));
      });
}

Status LoadAll(serve::Repository& repository, bool keep_going) {
  EVOQ_ASSIGN(const std::vector<std::string> names, repository.Names());
  for (const std::string& name : names) {
    if (const Status loaded = repository.Load(name); !loaded && !keep_going) return loaded;
  }
  return {};
}

serve::ServerOptions ConnectionsOf(const ServeJob& job) {
  return {.address = job.address,
          .port = job.port,
          .certificate = job.certificate,
          .key = job.key,
          .threads = job.http_threads,
          .max_connections = job.max_connections,
          .max_body = job.max_body_mb << 20,
          .max_bodies = job.max_bodies_mb << 20,
          .idle_s = job.idle_s,
          .header_s = job.header_s,
          .body_s = job.body_s,
          .write_s = job.write_s,
          .origins = job.origins};
}

// Nothing where the job asks for none.
Status BeginGrpc(const ServeJob& job, serve::Service& service, serve::ServerCounts& counts,
                 std::unique_ptr<serve::GrpcServer>& grpc) {
  if (job.grpc_port < 0) return {};
  const auto handle = [&service](auto request, auto reply) {
    serve::HandleRpc(service, std::move(request), std::move(reply));
  };
  EVOQ_ASSIGN(grpc, serve::GrpcServer::Listen(ConnectionsOf(job), job.grpc_port, handle,
                                              serve::IsStream, counts));
  return {};
}

// Both at the same time.
bool Drain(serve::Server& server, serve::GrpcServer* grpc, double seconds) {
  auto others = std::async(std::launch::async, [&] {
    if (grpc == nullptr) return true;
    grpc->SetReady(false);
    return grpc->Drain(seconds);
  });
  const bool drained = server.Drain(seconds);
  return others.get() && drained;
}

json TellOf(const serve::Repository& repository) {
  json models = json::array();
  for (const auto& model : repository.All()) {
    const serve::StatisticsRead read = model->statistics().Read();
    models.push_back({{"name", model->name()},
                      {"version", model->version()},
                      {"requests", read.success.count},
                      {"failed", read.failure.count},
                      {"samples", read.samples},
                      {"runs", read.executions}});
  }
  return {{"models", std::move(models)}};
}

}  // namespace

Result<json> Serve(const ServeJob& job) {
  std::mutex log_mutex;
  const serve::LogLine log = [&](const std::string& line) {
    const std::lock_guard lock(log_mutex);
    if (job.log) job.log(line);
  };
  const auto tell = [&](const char* level, const char* event, json fields) {
    log(serve::LineOf(level, event, std::move(fields)));
  };
  EVOQ_ASSIGN(std::vector<std::string> tokens, ReadTokens(job.tokens));
  EVOQ_ASSIGN(std::unique_ptr<serve::Repository> repository, OpenRepository(job, log));
  serve::Service service(*repository, {.tokens = std::move(tokens),
                                       .log_requests = job.log_requests,
                                       .model_control = job.model_control,
                                       .log = log});
  EVOQ_ASSIGN(std::unique_ptr<serve::Server> server,
              serve::Server::Listen(ConnectionsOf(job), [&](auto request, auto reply) {
                service.Handle(std::move(request), std::move(reply));
              }));
  std::promise<int> ended;
  server->OnSignals([&](int signal) { ended.set_value(signal); });
  std::optional<Background> background(std::in_place);
  service.Use([&](std::function<void()> work) { server->Post(std::move(work)); },
              [&](std::function<void()> work) { background->Post(std::move(work)); },
              &server->counts());
  server->Start();  // alive, and not ready
  std::unique_ptr<serve::GrpcServer> grpc;
  Status loaded = BeginGrpc(job, service, server->counts(), grpc);
  if (loaded) loaded = LoadAll(*repository, job.keep_going);
  bool drained = true;
  if (loaded) {
    service.SetReady(true);
    if (grpc != nullptr) grpc->SetReady(true);
    const int grpc_port = grpc != nullptr ? grpc->port() : -1;
    if (job.poll_s > 0) background->Every(job.poll_s, [&] { repository->Refresh(); });
    json ready = {{"address", job.address}, {"port", server->port()}};
    if (grpc != nullptr) ready["grpc_port"] = grpc_port;
    tell("info", "ready", std::move(ready));
    if (job.listening) job.listening(server->port(), grpc_port);
    const int signal = ended.get_future().get();
    tell("info", "draining", {{"signal", signal}});
    service.SetReady(false);
    drained = Drain(*server, grpc.get(), job.drain_s);
  }
  grpc.reset();        // its answers are written by the other's threads
  background.reset();  // a load that is under way ends
  server->Stop();      // no request comes in
  json told = TellOf(*repository);
  repository.reset();  // what is computed is answered, to nobody where it took too long
  server.reset();
  EVOQ_TRY(loaded);
  tell("info", "ended", told);
  if (!drained)
    return Fail(ErrorCode::kConditionFailed, "some requests were not answered within {} s",
                job.drain_s);
  return told;
}

}  // namespace evoq
