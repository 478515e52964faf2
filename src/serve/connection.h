// One client's connection: requests one after the other, each with its time and its limits.
#pragma once

#include <atomic>
#include <boost/asio/ip/tcp.hpp>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <vector>

#include "serve/server.h"

namespace boost::asio::ssl {
class context;
}

namespace evoq::serve {

class Connection {
 public:
  virtual ~Connection() = default;
  virtual void Start() = 0;
  // Ends it where no request is under way; others end with theirs.
  virtual void CloseIfIdle() = 0;
};

// What all connections share.
class Hub {
 public:
  Hub(const ServerOptions& options, Handler handler)
      : options_(options), handler_(std::move(handler)) {}

  const ServerOptions& options() const { return options_; }
  const Handler& handler() const { return handler_; }
  ServerCounts& counts() { return counts_; }
  bool draining() const { return draining_; }

  // Room for a body of at most so many bytes among all that are there. False: there is none.
  bool Reserve(int64_t bytes) { return counts_.Reserve(bytes, options_.max_bodies); }
  void GiveBack(int64_t bytes) { counts_.body_bytes -= bytes; }

  void Joined(const std::shared_ptr<Connection>& connection);
  void Left();
  // Connections end with their requests from now on; returns when all have, at most after so long.
  bool Drain(double seconds);

 private:
  const ServerOptions options_;
  const Handler handler_;
  ServerCounts counts_;
  std::atomic<bool> draining_ = false;
  std::mutex mutex_;  // of what follows
  std::condition_variable left_;
  std::vector<std::weak_ptr<Connection>> connections_;  // some of them ended
};

// Over TLS where there is a context. `full`: its first request is refused, and it is closed.
std::shared_ptr<Connection> MakeConnection(boost::asio::ip::tcp::socket socket,
                                           boost::asio::ssl::context* tls, Hub& hub, bool full);

}  // namespace evoq::serve
