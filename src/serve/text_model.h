// A language model that writes several texts at the same time, each token by token in its turn.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "generate/generate.h"
#include "generate/model_tokenizer.h"
#include "serve/refusal.h"
#include "serve/scheduler.h"
#include "serve/settings.h"
#include "serve/statistics.h"

namespace evoq::serve {

struct TextRequest {
  std::vector<int64_t> prompt;
  GenerateOptions options;
  // Gets each piece of text; false: the text ends there. May be null. `done` is called once, where
  // Submit took the request. Both on the model's thread, and must not throw.
  OnText on_text;
  std::function<void(Served<Generated>)> done;
  Clock::time_point deadline = Clock::time_point::max();
};

// Safe from any thread. A text is what it would be alone (docs/generate.md). What a prompt has in
// common with what one of the sequences holds already is not run again.
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

  // As Scheduler::Submit.
  Served<void> Submit(TextRequest& request);
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
    Writing writing;
  };
  struct Sequence {
    std::unique_ptr<Writer> writer;
    std::optional<Active> active;
  };

  TextModel(const ModelSettings& settings, Statistics& statistics)
      : settings_(settings), statistics_(statistics) {}
  void Work();
  // Those that begin now, with room for each.
  std::vector<Waiting> Next();
  Sequence& SequenceFor(const TextRequest& request);
  void Begin(Waiting one);
  void Advance(Sequence& sequence);
  void Answer(const Waiting& one, Clock::time_point begun, Served<Generated> text);

  const ModelSettings settings_;
  Statistics& statistics_;
  std::unique_ptr<CachedModel> model_;
  ModelTokenizer text_;
  std::vector<Sequence> sequences_;  // of the thread
  mutable std::mutex mutex_;         // of what follows
  std::condition_variable changed_;
  std::deque<Waiting> queue_;
  bool closed_ = false;
  std::atomic<int64_t> running_ = 0;
  std::thread thread_;
};

}  // namespace evoq::serve
