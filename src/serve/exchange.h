// A request under way: who asks, since when, and the answer, which is logged.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "serve/http.h"
#include "serve/refusal.h"

namespace evoq::serve {

// Gets a line: an object of JSON.
using LogLine = std::function<void(const std::string& line)>;

// One line of a log: the time, the event, and what is told of it.
std::string LineOf(const char* level, const std::string& event, nlohmann::json fields);

// Answered once, from any thread.
class Exchange {
 public:
  // `log` may be null.
  Exchange(std::shared_ptr<HttpRequest> request, std::shared_ptr<Reply> reply, LogLine log);

  const HttpRequest& request() const { return *request_; }
  // The caller's X-Request-Id, or one that was made for it.
  const std::string& id() const { return id_; }
  // What the log tells of the request besides the usual. Before it is answered.
  void Note(const char* key, nlohmann::json value) { notes_[key] = std::move(value); }
  // Refusals are objects, as OpenAI's clients read them.
  void ErrorsAsOpenAi() { openai_ = true; }
  // Frees the memory of the body, which was read.
  void DropBody() { std::string().swap(request_->body); }

  void Answer(HttpResponse response);
  void AnswerJson(const nlohmann::json& body, int status = 200);
  // {"error": ...} with its status, and Retry-After where that is known.
  void Refuse(const Refusal& refusal);
  // An answer in pieces (Reply).
  void Begin(HttpResponse head);
  bool Write(std::string piece) { return reply_->Write(std::move(piece)); }
  void End();

 private:
  void AddHeaders(HttpResponse& response) const;
  void Log(int status, size_t bytes);

  std::shared_ptr<HttpRequest> request_;
  std::shared_ptr<Reply> reply_;
  LogLine log_;
  std::string id_, trace_id_, span_id_, parent_id_;
  std::chrono::steady_clock::time_point begun_ = std::chrono::steady_clock::now();
  size_t bytes_in_;
  bool openai_ = false;
  nlohmann::json notes_ = nlohmann::json::object();
};

}  // namespace evoq::serve
