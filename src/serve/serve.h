// The server as a task: models, queues and connections, until a signal ends it.
#pragma once

#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>

#include "base/result.h"

namespace evoq {

struct ServeJob {
  std::string repository;             // --model-repository
  std::string address = "127.0.0.1";  // --http-address
  int port = 8000;                    // --http-port; 0: any that is free
  int grpc_port = -1;                 // --grpc-port; 0: any that is free; -1: no gRPC
  int threads = 0;                    // of the runs of a model together; 0: physical cores
  int http_threads = 2;
  std::string certificate, key;      // PEM files
  std::string tokens;                // a file with a token on each line
  std::vector<std::string> origins;  // whose pages may read answers (serve/server.h)
  int64_t max_connections = 1024;
  int64_t max_body_mb = 64, max_bodies_mb = 512;  // of a request, of all together
  double idle_s = 75, header_s = 10, body_s = 10, write_s = 30, drain_s = 30;
  int64_t max_batch = 8, max_queue = 128;  // of models without a config.json that says so
  int instances = 1;
  double poll_s = 0;          // looks for changed models so often; 0: never
  bool model_control = true;  // clients may load and unload
  bool keep_going = false;    // serves what can be loaded, where a model cannot
  bool log_requests = true;
  // Where logs go, a line of JSON each; from several threads, one at a time.
  std::function<void(const std::string& line)> log;
  // Told the ports that are listened on, once all models are loaded; -1: no gRPC. May be null.
  std::function<void(int port, int grpc_port)> listening;
};

// Returns after SIGTERM, SIGINT or SIGHUP, when all requests that were under way are answered: what
// was served. Errors: those of the repository, of loading its models, of the address and of the
// certificate; kConditionFailed where requests were not answered within drain_s.
Result<nlohmann::json> Serve(const ServeJob& job);

}  // namespace evoq
