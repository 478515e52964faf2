#include "serve/grpc_server.h"

#include <grpc/support/log.h>
#include <grpcpp/health_check_service_interface.h>
#include <grpcpp/resource_quota.h>
#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>

#include <algorithm>
#include <climits>
#include <condition_variable>
#include <thread>

#include "base/file.h"
#include "serve/grpc_call.h"

namespace evoq::serve {
namespace {

constexpr int kMaxMetadataBytes = 16384;  // as of an HTTP header
constexpr size_t kMaxCertificate = size_t{1} << 20;

int Clamped(int64_t value) { return static_cast<int>(std::min<int64_t>(value, INT_MAX)); }

Result<std::shared_ptr<grpc::ServerCredentials>> CredentialsOf(const ServerOptions& options) {
  if (options.certificate.empty()) return grpc::InsecureServerCredentials();
  EVOQ_ASSIGN(std::string certificate, ReadTextFile(options.certificate, kMaxCertificate));
  EVOQ_ASSIGN(std::string key, ReadTextFile(options.key, kMaxCertificate));
  grpc::SslServerCredentialsOptions tls(GRPC_SSL_DONT_REQUEST_CLIENT_CERTIFICATE);
  tls.pem_key_cert_pairs.push_back({std::move(key), std::move(certificate)});
  return grpc::SslServerCredentials(tls);
}

}  // namespace

class GrpcServer::Impl final : public grpc::CallbackGenericService {
 public:
  Impl(const ServerOptions& options, serve::Handler handler, bool (*stream)(std::string_view),
       ServerCounts& counts)
      : hub_(options, std::move(handler), counts), stream_(stream) {}

  Status Listen(int port);
  bool Drain(double seconds);
  int port() const { return port_; }
  void SetReady(bool ready) { server_->GetHealthCheckService()->SetServingStatus(ready); }

  grpc::ServerGenericBidiReactor* CreateReactor(
      grpc::GenericCallbackServerContext* context) override {
    const auto call = std::make_shared<GrpcCall>(hub_, context, stream_(context->method()));
    call->Begin();
    return call.get();  // the hub keeps it until it is done
  }

 private:
  void Watch();

  GrpcHub hub_;
  bool (*const stream_)(std::string_view);
  std::unique_ptr<grpc::Server> server_;
  int port_ = 0;
  std::mutex mutex_;  // of ended_
  std::condition_variable changed_;
  bool ended_ = false;
  std::thread watch_;
};

Status GrpcServer::Impl::Listen(int port) {
  const ServerOptions& options = hub_.options();
  // What goes wrong is told by statuses and by this function.
  gpr_set_log_function([](gpr_log_func_args*) {});
  grpc::EnableDefaultHealthCheckService(true);
  EVOQ_ASSIGN(const auto credentials, CredentialsOf(options));
  const bool is_v6 = options.address.find(':') != std::string::npos;
  const std::string host = is_v6 ? "[" + options.address + "]" : options.address;
  const std::string address = fmt::format("{}:{}", host, port);
  grpc::ResourceQuota quota("evoq");
  quota.Resize(static_cast<size_t>(options.max_bodies));
  grpc::ServerBuilder builder;
  builder.AddListeningPort(address, credentials, &port_);
  builder.RegisterCallbackGenericService(this);
  builder.SetResourceQuota(quota);
  builder.SetMaxReceiveMessageSize(Clamped(options.max_body));
  builder.SetCompressionAlgorithmSupportStatus(GRPC_COMPRESS_DEFLATE, false);
  builder.SetCompressionAlgorithmSupportStatus(GRPC_COMPRESS_GZIP, false);
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, Clamped(options.max_connections));
  builder.AddChannelArgument(GRPC_ARG_MAX_METADATA_SIZE, kMaxMetadataBytes);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONNECTION_IDLE_MS,
                             Clamped(static_cast<int64_t>(1000 * options.idle_s)));
  builder.AddChannelArgument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS,
                             Clamped(static_cast<int64_t>(1000 * options.header_s)));
  server_ = builder.BuildAndStart();
  if (server_ == nullptr || port_ == 0)
    return Fail(ErrorCode::kIo, "{}: gRPC cannot listen there: in use, or no such address",
                address);
  SetReady(false);
  watch_ = std::thread([this] { Watch(); });
  return {};
}

void GrpcServer::Impl::Watch() {
  const ServerOptions& options = hub_.options();
  const double shortest = std::min({options.body_s, options.write_s, options.idle_s});
  const auto period = std::chrono::duration<double>(std::clamp(shortest / 4, 0.05, 1.0));
  std::unique_lock lock(mutex_);
  while (!changed_.wait_for(lock, period, [&] { return ended_; })) {
    lock.unlock();
    hub_.Sweep();
    lock.lock();
  }
}

bool GrpcServer::Impl::Drain(double seconds) {
  if (server_ == nullptr) return true;
  hub_.Drain();
  const auto until =
      std::chrono::system_clock::now() +
      std::chrono::duration_cast<std::chrono::microseconds>(std::chrono::duration<double>(seconds));
  server_->Shutdown(until);
  const bool drained = std::chrono::system_clock::now() < until;
  server_.reset();
  {
    const std::lock_guard lock(mutex_);
    ended_ = true;
  }
  changed_.notify_all();
  watch_.join();
  return drained;
}

GrpcServer::GrpcServer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
GrpcServer::~GrpcServer() { impl_->Drain(0); }

Result<std::unique_ptr<GrpcServer>> GrpcServer::Listen(const ServerOptions& options, int port,
                                                       Handler handler,
                                                       bool (*stream)(std::string_view),
                                                       ServerCounts& counts) {
  auto impl = std::make_unique<Impl>(options, std::move(handler), stream, counts);
  EVOQ_TRY(impl->Listen(port));
  return std::unique_ptr<GrpcServer>(new GrpcServer(std::move(impl)));
}

int GrpcServer::port() const { return impl_->port(); }
void GrpcServer::SetReady(bool ready) { impl_->SetReady(ready); }
bool GrpcServer::Drain(double seconds) { return impl_->Drain(seconds); }

}  // namespace evoq::serve
