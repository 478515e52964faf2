// One call of gRPC: its messages, each with its answer, and how long the client may take.
#pragma once

#include <grpcpp/generic/async_generic_service.h>

#include <atomic>
#include <deque>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "serve/server.h"

namespace evoq::serve {

class GrpcCall;

// What all calls share.
class GrpcHub {
 public:
  GrpcHub(const ServerOptions& options, Handler handler, ServerCounts& counts)
      : options_(options), handler_(std::move(handler)), counts_(counts) {}

  const ServerOptions& options() const { return options_; }
  const Handler& handler() const { return handler_; }
  ServerCounts& counts() { return counts_; }
  bool draining() const { return draining_; }
  // From now on streams end with the requests that they have.
  void Drain();
  // Cancels calls whose clients take too long.
  void Sweep();

  // False: there are too many calls, or it is draining.
  bool Join(const std::shared_ptr<GrpcCall>& call);
  void Leave(const GrpcCall* call);

 private:
  std::vector<std::shared_ptr<GrpcCall>> Calls() const;
  const ServerOptions options_;
  const Handler handler_;
  ServerCounts& counts_;
  std::atomic<bool> draining_ = false;
  mutable std::mutex mutex_;  // of calls_, which are not done
  std::unordered_map<const GrpcCall*, std::shared_ptr<GrpcCall>> calls_;
};

// A unary call is a stream of one message each way. Its operations may be started from any thread;
// the library calls the reactions (On...) on its own.
class GrpcCall final : public grpc::ServerGenericBidiReactor,
                       public std::enable_shared_from_this<GrpcCall> {
 public:
  // The context lives until OnDone.
  GrpcCall(GrpcHub& hub, grpc::GenericCallbackServerContext* context, bool stream)
      : hub_(hub), context_(context), stream_(stream) {}

  void Begin();
  // Does what is next: writes an answer, reads a message, ends.
  void Step();
  // Where the client has taken longer than it may.
  void CancelIfLate();

  void OnReadDone(bool ok) override;
  void OnWriteDone(bool ok) override;
  void OnCancel() override { *cancelled_ = true; }
  void OnDone() override;

 private:
  class ToClient;
  struct Slot {  // of a request, in the order in which they came
    bool ready = false;
    HttpResponse response;
    int64_t bytes = 0;
  };
  using Clock = std::chrono::steady_clock;

  void Take();
  void Refuse(grpc::Status status);
  void Answered(Slot& slot, HttpResponse response);
  std::shared_ptr<HttpRequest> RequestOf(std::string body) const;
  void SendHeaders(const HttpResponse& response);
  void Expire(double seconds, int64_t bytes);

  GrpcHub& hub_;
  grpc::GenericCallbackServerContext* const context_;
  const bool stream_;
  const std::shared_ptr<std::atomic<bool>> cancelled_ = std::make_shared<std::atomic<bool>>(false);
  grpc::ByteBuffer in_, out_;  // of the operation under way
  std::mutex mutex_;           // of what follows
  std::deque<std::shared_ptr<Slot>> slots_;
  Clock::time_point expires_ = Clock::time_point::max();
  bool reading_ = false, read_all_ = false, writing_ = false, finished_ = false, done_ = false;
};

}  // namespace evoq::serve
