#include "serve/server.h"

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/strand.hpp>
#include <chrono>
#include <csignal>
#include <thread>
#include <vector>

#include "base/guarded.h"
#include "serve/connection.h"

namespace evoq::serve {

namespace net = boost::asio;
using tcp = net::ip::tcp;

// Connections refer to it: it outlives them.
class Server::Impl {
 public:
  Impl(const ServerOptions& options, Handler handler)
      : hub_(options, std::move(handler)),
        signals_(context_),
        acceptor_(net::make_strand(context_)) {}

  Status Listen();
  Status UseCertificate();
  void Start();
  bool Drain(double seconds);
  void Stop();
  void OnSignals(std::function<void(int)> on_signal);
  int port() const { return port_; }
  net::io_context& context() { return context_; }
  const ServerOptions& options() const { return hub_.options(); }
  ServerCounts& counts() { return hub_.counts(); }

 private:
  void Accept();
  void Accepted(tcp::socket socket);

  Hub hub_;  // what the context still holds refers to it
  net::io_context context_;
  net::executor_work_guard<net::io_context::executor_type> work_ = net::make_work_guard(context_);
  net::signal_set signals_;
  tcp::acceptor acceptor_;
  std::unique_ptr<net::ssl::context> tls_;
  int port_ = 0;
  std::vector<std::thread> threads_;
};

Status Server::Impl::UseCertificate() {
  const ServerOptions& o = options();
  if (o.certificate.empty() != o.key.empty())
    return Fail(ErrorCode::kUsage, "TLS needs both a certificate and its key");
  if (o.certificate.empty()) return {};
  tls_ = std::make_unique<net::ssl::context>(net::ssl::context::tls_server);
  tls_->set_options(net::ssl::context::default_workarounds | net::ssl::context::no_tlsv1 |
                    net::ssl::context::no_tlsv1_1);
  boost::system::error_code error;
  tls_->use_certificate_chain_file(o.certificate, error);
  if (error)
    return InvalidInput("{}: {}, expected a certificate chain", o.certificate, error.message());
  tls_->use_private_key_file(o.key, net::ssl::context::pem, error);
  if (error)
    return InvalidInput("{}: {}, expected the certificate's private key", o.key, error.message());
  return {};
}

Status Server::Impl::Listen() {
  EVOQ_TRY(UseCertificate());
  boost::system::error_code error;
  const auto address = net::ip::make_address(options().address, error);
  if (error)
    return Fail(ErrorCode::kUsage, "{}: {}, expected an address as 127.0.0.1 or 0.0.0.0",
                options().address, error.message());
  const tcp::endpoint endpoint(address, static_cast<uint16_t>(options().port));
  acceptor_.open(endpoint.protocol(), error);
  if (!error) acceptor_.set_option(net::socket_base::reuse_address(true), error);
  if (!error) acceptor_.bind(endpoint, error);
  if (!error) acceptor_.listen(net::socket_base::max_listen_connections, error);
  if (error)
    return Fail(ErrorCode::kIo, "{}:{}: {}", options().address, options().port, error.message());
  port_ = acceptor_.local_endpoint(error).port();
  return {};
}

void Server::Impl::Start() {
  net::post(acceptor_.get_executor(), [this] { Accept(); });
  const auto work = [this]() -> Status {
    context_.run();
    return {};
  };
  // Where memory runs out, the connection that needed it ends, and the others go on.
  for (int i = 0; i < options().threads; ++i)
    threads_.emplace_back([work] {
      while (!Guarded(work)) continue;
    });
}

void Server::Impl::Accept() {
  acceptor_.async_accept(net::make_strand(context_),
                         [this](boost::system::error_code error, tcp::socket socket) {
                           if (error == net::error::operation_aborted || !acceptor_.is_open())
                             return;
                           if (!error) Accepted(std::move(socket));
                           Accept();  // without file descriptors too: some will be free again
                         });
}

void Server::Impl::Accepted(tcp::socket socket) {
  boost::system::error_code ignored;
  socket.set_option(tcp::no_delay(true), ignored);
  constexpr int64_t kToRefuse = 64;  // that are told; more are closed without a word
  if (counts().connections >= options().max_connections + kToRefuse) {
    ++counts().refused;
    return;
  }
  const bool full = counts().connections >= options().max_connections;
  if (full) ++counts().refused;
  MakeConnection(std::move(socket), tls_.get(), hub_, full)->Start();
}

bool Server::Impl::Drain(double seconds) {
  net::post(acceptor_.get_executor(), [this] {
    boost::system::error_code ignored;
    acceptor_.close(ignored);
  });
  return hub_.Drain(seconds);
}

void Server::Impl::OnSignals(std::function<void(int)> on_signal) {
  for (int signal : {SIGTERM, SIGINT, SIGHUP}) signals_.add(signal);
  signals_.async_wait(
      [on_signal = std::move(on_signal)](boost::system::error_code error, int signal) {
        if (!error) on_signal(signal);
      });
}

void Server::Impl::Stop() {
  work_.reset();
  context_.stop();
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
}

Server::Server(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}
Server::~Server() { impl_->Stop(); }
void Server::Stop() { impl_->Stop(); }

Result<std::unique_ptr<Server>> Server::Listen(const ServerOptions& options, Handler handler) {
  auto impl = std::make_shared<Impl>(options, std::move(handler));
  EVOQ_TRY(impl->Listen());
  return std::unique_ptr<Server>(new Server(std::move(impl)));
}

int Server::port() const { return impl_->port(); }
ServerCounts& Server::counts() { return impl_->counts(); }
void Server::Start() { impl_->Start(); }
void Server::Post(std::function<void()> work) { net::post(impl_->context(), std::move(work)); }
bool Server::Drain(double seconds) { return impl_->Drain(seconds); }
void Server::OnSignals(std::function<void(int)> on_signal) {
  impl_->OnSignals(std::move(on_signal));
}

}  // namespace evoq::serve
