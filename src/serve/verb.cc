#include "cli/verb.h"

#include "cli/common.h"
#include "serve/serve.h"
#include "workflow/models.h"

namespace evoq {
namespace {

using nlohmann::json;

void AddConnectionOptions(const VerbOptions& options, ServeJob& o) {
  options.Add("--http-address", o.address, "The address to listen on; 0.0.0.0: all").ShowDefault();
  options.Add("--http-port", o.port, "The port; 0: any that is free, which the log tells")
      .InRange(0, 65535)
      .ShowDefault();
  options
      .Add("--grpc-port", o.grpc_port,
           "The port of gRPC, which is not served without it; 0: any that is free")
      .InRange(0, 65535);
  options.Add("--http-threads,--http-thread-count", o.http_threads, "Threads that read and write")
      .InRange(1, 256)
      .ShowDefault();
  options.Add("--certificate", o.certificate, "TLS: the certificate chain, a PEM file");
  options.Add("--key", o.key, "TLS: the certificate's private key, a PEM file");
  options.Add("--token-file", o.tokens,
              "Requests need Authorization: Bearer and a token of this file, one on each line");
  options
      .Add("--cors-origin,--allowed-origins", o.origins,
           "Pages of this origin, as https://host:port, may read answers in a browser (may be "
           "repeated; *: all)")
      .OneEachTime();
  options.Add("--max-connections", o.max_connections, "Connections at one time; more get 503")
      .InRange(int64_t{1}, int64_t{1} << 20)
      .ShowDefault();
  options.Add("--max-body-mb", o.max_body_mb, "The most MiB of a request; more get 413")
      .InRange(int64_t{1}, int64_t{1} << 20)
      .ShowDefault();
  options
      .Add("--max-bodies-mb", o.max_bodies_mb,
           "The most MiB of all requests that are there at one time; more get 503")
      .InRange(int64_t{1}, int64_t{1} << 20)
      .ShowDefault();
  const auto add_time = [&](const char* name, double& value, const char* doc) {
    options.Add(name, value, doc).InRange(0.01, 86400.0).ShowDefault();
  };
  add_time("--idle-s", o.idle_s, "How long a connection stays open without a request");
  add_time("--header-s", o.header_s, "How long a client may take to send a request's header");
  add_time("--body-s", o.body_s, "The same of its body; a second more for each 64 KiB");
  add_time("--write-s", o.write_s, "How long a client may take to read its answer; as --body-s");
  add_time("--drain-s", o.drain_s, "How long requests may take that are there at SIGTERM");
}

VerbRun Declare(const VerbOptions& options, const CommonOptions& common) {
  auto o = std::make_shared<ServeJob>();
  options
      .Add("--model-repository", o->repository,
           "A folder of models: NAME/VERSION/model.etm or model.onnx, or NAME.etm")
      .Required();
  AddConnectionOptions(options, *o);
  options
      .Add("--max-batch", o->max_batch,
           "Samples of a run that joins requests, where the model's batch is free")
      .InRange(int64_t{0}, int64_t{4096})
      .ShowDefault();
  options.Add("--max-queue", o->max_queue, "Requests of a model that wait; more get 503")
      .InRange(int64_t{1}, int64_t{1} << 20)
      .ShowDefault();
  options
      .Add("--instances", o->instances,
           "Runs of a model at the same time, each with an equal share of --threads")
      .InRange(1, 256)
      .ShowDefault();
  options.Add("--poll-s", o->poll_s, "Loads what has changed in the folder, looking so often")
      .NonNegative();
  auto no_control = std::make_shared<bool>(false);
  auto no_log = std::make_shared<bool>(false);
  options.AddFlag("--no-model-control", *no_control, "Clients may not load and unload models");
  options.AddFlag("--keep-going", o->keep_going, "Serve the others where a model cannot be loaded");
  options.AddFlag("--no-request-log", *no_log, "No line of the log for each request");
  return [o, no_control, no_log, &common]() -> Result<json> {
    EVOQ_TRY(CheckThreads(common.threads));
    o->threads = common.threads;
    o->model_control = !*no_control;
    o->log_requests = !*no_log;
    o->log = [](const std::string& line) { WriteLog(line); };
    o->listening = [&](int port, int grpc_port) {
      Out("listening on {}:{}\n", o->address, port);
      if (grpc_port >= 0) Out("gRPC on {}:{}\n", o->address, grpc_port);
      FlushOut();
    };
    return Serve(*o);
  };
}

}  // namespace

extern const VerbDef kVerbServe = {
    .name = "serve",
    .doc = "Serves the models of a folder over HTTP (Open Inference Protocol, version 2).",
    .example = "evoq serve --model-repository models --http-port 8000",
    .declare = Declare,
};

}  // namespace evoq
