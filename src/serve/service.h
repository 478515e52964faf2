// What the server answers: the Open Inference Protocol, version 2, over HTTP with Triton's
// extensions (statistics, configuration, repository), OpenAI's completions, and /metrics. Other
// protocols (rpc.h) ask it the same.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "serve/exchange.h"
#include "serve/inference_builder.h"
#include "serve/openai.h"
#include "serve/repository.h"
#include "serve/server.h"
#include "serve/text_tools.h"

namespace evoq::serve {

struct ServiceOptions {
  std::vector<std::string> tokens;  // one of which each request bears; empty: nobody needs one
  bool log_requests = true;
  bool model_control = true;  // clients may load and unload models
  LogLine log;                // may be null
};

// How a protocol writes an inference. Both are called once.
struct InferenceForm {
  std::function<Served<InferenceRequest>(const ServedModel&)> read;
  std::function<Served<HttpResponse>(const ServedModel&, const InferenceRequest&, const Tensors&)>
      write;
};

class Service {
 public:
  // Runs a function soon, on another thread than the caller's.
  using Post = std::function<void(std::function<void()>)>;

  // The repository outlives it.
  Service(Repository& repository, ServiceOptions options);
  // Where answers are written and models are loaded; the server's counts, for /metrics. Before the
  // first request.
  void Use(Post post, Post load, const ServerCounts* counts);

  // Answers by method and target.
  void Handle(std::shared_ptr<HttpRequest> request, std::shared_ptr<Reply> reply);
  // What other protocols ask, whose targets are their own: by method and decoded path; an
  // inference; and what they refuse themselves.
  using Parts = std::vector<std::string>;
  void Answer(std::shared_ptr<HttpRequest> request, std::shared_ptr<Reply> reply,
              const std::string& method, const Parts& parts);
  void Infer(std::shared_ptr<HttpRequest> request, std::shared_ptr<Reply> reply,
             const std::string& model, const std::string& version, InferenceForm form);
  void Refuse(std::shared_ptr<HttpRequest> request, std::shared_ptr<Reply> reply,
              const Refusal& refusal);
  // Whether /v2/health/ready says so.
  void SetReady(bool ready) { ready_ = ready; }

 private:
  using Ask = std::shared_ptr<Exchange>;
  struct Route;
  static std::span<const Route> Routes();

  Ask Begin(std::shared_ptr<HttpRequest> request, std::shared_ptr<Reply> reply) const;
  void Dispatch(const Ask& ask, const std::string& method, const Parts& parts);
  bool Known(const HttpRequest& request) const;
  // False: it is answered that nobody may ask who is not known.
  bool Allowed(const Ask& ask) const;
  nlohmann::json StatusNow() const;
  void StatusPage(const Ask& ask, const Parts& parts);
  void StatusData(const Ask& ask, const Parts&) { ask->AnswerJson(StatusNow()); }
  void Live(const Ask& ask, const Parts& parts);
  void Ready(const Ask& ask, const Parts& parts);
  void Health(const Ask& ask, const Parts& parts);
  void About(const Ask& ask, const Parts& parts);
  void Metrics(const Ask& ask, const Parts& parts);
  void ModelReady(const Ask& ask, const Parts& parts);
  void ModelAbout(const Ask& ask, const Parts& parts);
  void ModelConfig(const Ask& ask, const Parts& parts);
  void ModelStatistics(const Ask& ask, const Parts& parts);
  void AllStatistics(const Ask& ask, const Parts& parts);
  void InferJson(const Ask& ask, const Parts& parts);
  void Infer(const Ask& ask, const std::shared_ptr<ServedModel>& model, InferenceForm form);
  void Index(const Ask& ask, const Parts& parts);
  void Load(const Ask& ask, const Parts& parts);
  void Unload(const Ask& ask, const Parts& parts);
  void OpenAiModels(const Ask& ask, const Parts&) { openai_.Models(ask); }
  void OpenAiModel(const Ask& ask, const Parts& parts) { openai_.Model(ask, parts[2]); }
  void OpenAiCompletions(const Ask& ask, const Parts&) { openai_.Completions(ask); }
  void OpenAiEmbeddings(const Ask& ask, const Parts&) { openai_.Embeddings(ask, false); }
  void LlamaEmbeddings(const Ask& ask, const Parts&) { openai_.Embeddings(ask, true); }
  void OpenAiChat(const Ask& ask, const Parts&) { openai_.Chat(ask); }
  void LlamaCompletion(const Ask& ask, const Parts&) { openai_.LlamaCompletion(ask); }
  void Tokenize(const Ask& ask, const Parts&) { tools_.Tokenize(ask); }
  void Detokenize(const Ask& ask, const Parts&) { tools_.Detokenize(ask); }
  void ApplyTemplate(const Ask& ask, const Parts&) { tools_.ApplyTemplate(ask); }
  void Rerank(const Ask& ask, const Parts&) { tools_.Rerank(ask); }
  void Props(const Ask& ask, const Parts&) { tools_.Props(ask); }
  void Slots(const Ask& ask, const Parts&) { tools_.Slots(ask); }
  void OpenAiResponses(const Ask& ask, const Parts&) { openai_.Responses(ask); }
  void OpenAiInputTokens(const Ask& ask, const Parts&) { openai_.InputTokens(ask); }
  void OpenAiResponse(const Ask& ask, const Parts& parts) { openai_.Response(ask, parts[2]); }
  // The model of a name and a version, or of a path that has both; a refusal is answered, and
  // nothing returned.
  std::shared_ptr<ServedModel> Named(const Ask& ask, const std::string& model,
                                     const std::string& version) const;
  std::shared_ptr<ServedModel> Named(const Ask& ask, const Parts& parts) const;

  Repository& repository_;
  const ServiceOptions options_;
  const OpenAi openai_;
  const TextTools tools_;
  Post post_, load_;
  const ServerCounts* counts_ = nullptr;
  std::atomic<bool> ready_ = false;
};

}  // namespace evoq::serve
