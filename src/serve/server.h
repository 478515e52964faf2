// HTTP/1.1 over TCP or TLS: connections, their limits and their time. What is answered, a handler
// says. On Boost.Asio and Boost.Beast: no thread waits for a client, so slow ones and half-closed
// connections hold up nobody.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "base/result.h"
#include "serve/http.h"

namespace evoq::serve {

struct ServerOptions {
  std::string address = "127.0.0.1";
  int port = 8000;               // 0: any that is free
  std::string certificate, key;  // PEM files; "": no TLS
  int threads = 2;               // that read and write
  int64_t max_connections = 1024;
  int64_t max_body = int64_t{64} << 20;     // bytes of a request
  int64_t max_bodies = int64_t{512} << 20;  // bytes of all requests that are there at one time
  double idle_s = 75;                       // a connection without a request
  double header_s = 10;                     // from a request's first byte to the end of its header
  double body_s = 10;                       // for a body, and a second more for each 64 KiB of it
  double write_s = 30;                      // for the client to take an answer, or a piece of one
  // Pages of which origins ("https://host:port"; "*": all) a browser lets read answers: CORS, of
  // the Fetch standard.
  std::vector<std::string> origins;
};

struct ServerCounts {
  std::atomic<int64_t> connections = 0;  // open now
  std::atomic<int64_t> refused = 0;      // beyond max_connections
  std::atomic<int64_t> requests = 0;     // under way now
  std::atomic<int64_t> body_bytes = 0;   // of requests that are there now

  // Room for a body of at most so many bytes among all, which have `most`. False: there is none.
  bool Reserve(int64_t bytes, int64_t most);
};

// Gets each request that is whole; answers now or later. Must not throw or wait.
using Handler = std::function<void(std::shared_ptr<HttpRequest>, std::shared_ptr<Reply>)>;

class Server {
 public:
  // Listens. Errors: kIo for an address that cannot be had, kInvalidInput for a certificate or key
  // that is none, naming the file.
  static Result<std::unique_ptr<Server>> Listen(const ServerOptions& options, Handler handler);
  // As Stop(). No reply may come afterwards.
  ~Server();

  int port() const;
  ServerCounts& counts();
  // Accepts connections from now on.
  void Start();
  // Runs a function soon, on a thread that reads and writes.
  void Post(std::function<void()> work);
  // Calls `on_signal` once, on a thread of the server's, when one of these signals comes.
  void OnSignals(std::function<void(int)> on_signal);
  // Accepts no more, closes idle connections, and waits until each request is answered, at most so
  // long. False: some were not.
  bool Drain(double seconds);
  // No handler is called any more, and what is under way gets no answer. Replies may still come.
  void Stop();

  class Impl;

 private:
  explicit Server(std::shared_ptr<Impl> impl);
  std::shared_ptr<Impl> impl_;
};

}  // namespace evoq::serve
