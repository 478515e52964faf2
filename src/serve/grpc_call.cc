#include "serve/grpc_call.h"

#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/slice.h>

#include <algorithm>
#include <utility>

#include "base/guarded.h"

namespace evoq::serve {
namespace {

// Requests of a stream that are under way; more are read when answers were written.
constexpr size_t kWindow = 16;
constexpr double kBytesPerSecond = 65536;

grpc::StatusCode CodeOf(int http_status) {
  switch (http_status) {
    case 400: return grpc::StatusCode::INVALID_ARGUMENT;
    case 401: return grpc::StatusCode::UNAUTHENTICATED;
    case 404: return grpc::StatusCode::NOT_FOUND;
    case 405:
    case 415: return grpc::StatusCode::UNIMPLEMENTED;
    case 408:
    case 504: return grpc::StatusCode::DEADLINE_EXCEEDED;
    case 413: return grpc::StatusCode::RESOURCE_EXHAUSTED;
    case 499: return grpc::StatusCode::CANCELLED;
    case 503: return grpc::StatusCode::UNAVAILABLE;
    default: return grpc::StatusCode::INTERNAL;
  }
}

std::string Lower(std::string text) {
  for (char& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return text;
}

std::string TextOf(const grpc::ByteBuffer& buffer) {
  std::vector<grpc::Slice> slices;
  (void)buffer.Dump(&slices);
  std::string text;
  text.reserve(buffer.Length());
  for (const grpc::Slice& slice : slices)
    text.append(reinterpret_cast<const char*>(slice.begin()), slice.size());
  return text;
}

// The text's memory goes with the buffer.
grpc::ByteBuffer BufferOf(std::string text) {
  auto* const kept = new std::string(std::move(text));
  grpc::Slice slice(
      kept->data(), kept->size(), [](void* p) { delete static_cast<std::string*>(p); }, kept);
  return grpc::ByteBuffer(&slice, 1);
}

}  // namespace

class GrpcCall::ToClient final : public Reply {
 public:
  ToClient(std::shared_ptr<GrpcCall> call, std::shared_ptr<Slot> slot)
      : call_(std::move(call)), slot_(std::move(slot)) {
    ++call_->hub_.counts().requests;
  }
  ~ToClient() override {
    // A handler that forgot its answer must not leave the client waiting.
    HttpResponse response;
    response.status = 500;
    response.error = "the request was not answered";
    Send(std::move(response));
  }
  void Send(HttpResponse response) override {
    if (!sent_.exchange(true)) call_->Answered(*slot_, std::move(response));
  }
  void Begin(HttpResponse) override {}
  bool Write(std::string) override { return false; }
  void End() override {}

 private:
  const std::shared_ptr<GrpcCall> call_;
  const std::shared_ptr<Slot> slot_;
  std::atomic<bool> sent_ = false;
};

void GrpcHub::Drain() {
  draining_ = true;
  for (const auto& call : Calls()) call->Step();
}

void GrpcHub::Sweep() {
  for (const auto& call : Calls()) call->CancelIfLate();
}

bool GrpcHub::Join(const std::shared_ptr<GrpcCall>& call) {
  const std::lock_guard lock(mutex_);
  const bool room = static_cast<int64_t>(calls_.size()) < options_.max_connections && !draining_;
  calls_.emplace(call.get(), call);
  return room;
}

void GrpcHub::Leave(const GrpcCall* call) {
  std::shared_ptr<GrpcCall> left;  // ends without the lock
  const std::lock_guard lock(mutex_);
  const auto found = calls_.find(call);
  left = std::move(found->second);
  calls_.erase(found);
}

std::vector<std::shared_ptr<GrpcCall>> GrpcHub::Calls() const {
  const std::lock_guard lock(mutex_);
  std::vector<std::shared_ptr<GrpcCall>> calls;
  for (const auto& [_, call] : calls_) calls.push_back(call);
  return calls;
}

void GrpcCall::Begin() {
  if (!hub_.Join(shared_from_this()))
    return Refuse({grpc::StatusCode::UNAVAILABLE,
                   hub_.draining() ? "the server is draining" : "too many calls"});
  Step();
}

void GrpcCall::Refuse(grpc::Status status) {
  {
    const std::lock_guard lock(mutex_);
    if (std::exchange(finished_, true)) return;
  }
  Finish(std::move(status));
}

void GrpcCall::Expire(double seconds, int64_t bytes) {
  seconds += static_cast<double>(bytes) / kBytesPerSecond;
  expires_ = Clock::now() +
             std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
}

void GrpcCall::Step() {
  const ServerOptions& options = hub_.options();
  std::unique_lock lock(mutex_);
  if (finished_) return;
  if (!writing_ && !slots_.empty() && slots_.front()->ready) {
    HttpResponse response = std::move(slots_.front()->response);
    slots_.pop_front();
    const bool ends = !stream_ || !response.error.empty();
    (ends ? finished_ : writing_) = true;
    Expire(options.write_s, static_cast<int64_t>(response.body.size()));
    if (response.error.empty()) out_ = BufferOf(std::move(response.body));
    lock.unlock();
    if (!stream_) SendHeaders(response);
    if (!response.error.empty()) return Finish({CodeOf(response.status), response.error});
    if (ends) return StartWriteAndFinish(&out_, {}, grpc::Status::OK);
    return StartWrite(&out_);
  }
  if (writing_) return;
  const bool draining = stream_ && hub_.draining();
  if (slots_.empty() && (read_all_ || draining)) {
    finished_ = true;
    Expire(options.write_s, 0);
    lock.unlock();
    if (draining) return Finish({grpc::StatusCode::UNAVAILABLE, "the server is draining"});
    return Finish(stream_ ? grpc::Status::OK
                          : grpc::Status(grpc::StatusCode::INVALID_ARGUMENT, "no message"));
  }
  const size_t window = stream_ ? kWindow : 1;
  // How long a message takes, its size does not say before it is there.
  if (slots_.empty()) Expire(stream_ ? options.idle_s : options.body_s, options.max_body);
  if (!slots_.empty()) expires_ = Clock::time_point::max();  // the client waits for us
  if (reading_ || read_all_ || slots_.size() >= window) return;
  reading_ = true;
  lock.unlock();
  StartRead(&in_);
}

void GrpcCall::OnReadDone(bool ok) {
  const Status taken = Guarded([&]() -> evoq::Status {
    if (ok) Take();
    return {};
  });
  if (!taken) return Refuse({grpc::StatusCode::RESOURCE_EXHAUSTED, taken.error().message()});
  {
    const std::lock_guard lock(mutex_);
    reading_ = false;
    read_all_ = read_all_ || !ok || !stream_;
  }
  Step();
}

void GrpcCall::Take() {
  const auto slot = std::make_shared<Slot>();
  // Where memory runs out below, it answers to nobody, and what was counted is given back.
  const auto reply = std::make_shared<ToClient>(shared_from_this(), slot);
  std::string body;
  bool room = false;
  {
    const std::lock_guard lock(mutex_);
    body = TextOf(in_);
    in_.Clear();
    slot->bytes = static_cast<int64_t>(body.size());
    room = hub_.counts().Reserve(slot->bytes, hub_.options().max_bodies);
    if (!room) slot->bytes = 0;
    slots_.push_back(slot);
    read_all_ = read_all_ || !stream_;
  }
  if (room) return hub_.handler()(RequestOf(std::move(body)), reply);
  HttpResponse full;
  full.status = 503;
  full.error = "too many large requests";
  reply->Send(std::move(full));
}

std::shared_ptr<HttpRequest> GrpcCall::RequestOf(std::string body) const {
  auto request = std::make_shared<HttpRequest>();
  request->method = "POST";
  request->target = context_->method();
  for (const auto& [name, value] : context_->client_metadata())
    request->headers[std::string(name.data(), name.size())] =
        std::string(value.data(), value.size());
  request->body = std::move(body);
  request->peer = context_->peer();
  request->cancelled = cancelled_;
  const auto until = context_->deadline();
  if (until != std::chrono::system_clock::time_point::max())
    request->deadline = Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                           until - std::chrono::system_clock::now());
  return request;
}

void GrpcCall::SendHeaders(const HttpResponse& response) {
  for (const auto& [name, value] : response.headers)
    context_->AddInitialMetadata(Lower(name), value);
}

void GrpcCall::Answered(Slot& slot, HttpResponse response) {
  --hub_.counts().requests;
  hub_.counts().body_bytes -= slot.bytes;
  {
    const std::lock_guard lock(mutex_);
    slot.response = std::move(response);
    slot.ready = true;
  }
  Step();
}

void GrpcCall::OnWriteDone(bool ok) {
  if (!ok) return Refuse({grpc::StatusCode::CANCELLED, "nobody reads the answers"});
  {
    const std::lock_guard lock(mutex_);
    out_.Clear();
    writing_ = false;
  }
  Step();
}

void GrpcCall::CancelIfLate() {
  const std::lock_guard lock(mutex_);
  if (!done_ && expires_ < Clock::now()) context_->TryCancel();
}

void GrpcCall::OnDone() {
  {
    const std::lock_guard lock(mutex_);
    done_ = true;
  }
  hub_.Leave(this);
}

}  // namespace evoq::serve
