// A language model that writes several texts at the same time, a token of each in one run.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "generate/model_tokenizer.h"
#include "generate/sequences.h"
#include "serve/refusal.h"
#include "serve/scheduler.h"
#include "serve/settings.h"
#include "serve/statistics.h"

namespace evoq::serve {

struct TextRequest {
  std::vector<int64_t> prompt;
  GenerateOptions options;
  // As Sequences::Begin's, may be null. `done` is called once, where Submit took the request. All
  // on the model's thread, and must not throw.
  OnText on_text;
  OnToken on_token;
  std::function<void(Served<Generated>)> done;
  Clock::time_point deadline = Clock::time_point::max();
};

// Safe from any thread. The texts that are written at the same time share the model's runs
// (generate/sequences.h); each is what it would be alone (docs/generate.md).
class TextModel {
 public:
  // Of an engine that has a graph with caches. `statistics` outlives it. Errors: those of
  // CachedModel and of the tokenizer.
  static Result<std::unique_ptr<TextModel>> Of(std::unique_ptr<Engine> engine,
                                               const std::string& path,
                                               const ModelSettings& settings,
                                               Statistics& statistics);
  // Answers what waits.
  ~TextModel();
  TextModel(const TextModel&) = delete;
  TextModel& operator=(const TextModel&) = delete;

  int64_t context() const { return model_->context(); }
  int64_t vocabulary() const { return model_->vocabulary(); }
  const std::optional<Tokenizer>& tokenizer() const { return text_.tokenizer; }

  // As Scheduler::Submit; all of them or none. Texts that wait together may be more than the queue
  // takes, where they came in one request.
  Served<void> Submit(std::vector<TextRequest>& requests);
  int64_t queued() const;
  int64_t running() const { return running_; }

 private:
  struct Waiting {
    TextRequest request;
    Clock::time_point arrived;
  };
  struct Active {
    Waiting from;
    Clock::time_point begun;
  };

  TextModel(const ModelSettings& settings, Statistics& statistics)
      : settings_(settings), statistics_(statistics) {}
  void Work();
  // Those that begin now, with room for each.
  std::vector<Waiting> Next();
  void Begin(Waiting one);
  // Those whose time has run out.
  void GiveUp();
  void Ended(size_t number, Served<Generated> text);
  void Answer(const Waiting& one, Clock::time_point begun, Served<Generated> text);

  const ModelSettings settings_;
  Statistics& statistics_;
  std::unique_ptr<CachedModel> model_;
  ModelTokenizer text_;
  std::unique_ptr<Sequences> sequences_;  // of the thread, and what follows
  std::map<size_t, Active> active_;       // by number
  size_t numbers_ = 0;                    // so far
  mutable std::mutex mutex_;              // of what follows
  std::condition_variable changed_;
  std::deque<Waiting> queue_;
  bool closed_ = false;
  std::atomic<int64_t> running_ = 0;
  std::thread thread_;
};

// Errors: kUnsupported for a model without one.
Result<const Tokenizer*> TokenizerFor(const TextModel& model);

}  // namespace evoq::serve
