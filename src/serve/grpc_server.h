// gRPC over TCP or TLS: calls, their limits and their time, on gRPC's C++ library. A call's message
// is handed over as an HTTP request whose body it is (a method's path is its target, metadata its
// headers), and what is answered goes back as a message or, where it is an error, as a status.
#pragma once

#include <memory>

#include "base/result.h"
#include "serve/server.h"

namespace evoq::serve {

class GrpcServer {
 public:
  // Listens on the port, 0 being any that is free, and answers from then on. Of the options: the
  // address, TLS, and the limits; calls that are open count as connections, which gRPC does not
  // bound. `stream`: whether a target takes a stream of messages; each is a request then, and they
  // are answered in their order. `counts` are those of the HTTP server; they outlive it, and so
  // does what the handler refers to. Errors: as Server::Listen.
  static Result<std::unique_ptr<GrpcServer>> Listen(const ServerOptions& options, int port,
                                                    Handler handler,
                                                    bool (*stream)(std::string_view),
                                                    ServerCounts& counts);
  // As Drain(0).
  ~GrpcServer();

  int port() const;
  // What gRPC's health service says (grpc.health.v1), which needs no token.
  void SetReady(bool ready);
  // Takes no more calls, ends streams that wait for a message, and waits until each request is
  // answered, at most so long; the others are cancelled then. False: some were. Returns when no
  // call is left, so that handlers have to answer all the same.
  bool Drain(double seconds);

  class Impl;

 private:
  explicit GrpcServer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace evoq::serve
