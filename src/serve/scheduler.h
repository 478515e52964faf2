// Requests of one model in a queue, batches of them on its instances.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "engine/shared.h"
#include "serve/batch.h"
#include "serve/refusal.h"
#include "serve/statistics.h"

namespace evoq::serve {

using Clock = std::chrono::steady_clock;

struct SchedulerOptions {
  int instances = 1;         // runs at the same time
  int64_t max_queue = 128;   // requests that wait; more are refused
  int64_t max_batch = 1;     // samples of a run that joins requests; 1: each request is a run
  int64_t max_delay_us = 0;  // how long a request waits for others to join it
  // Sizes that do not wait for more. Empty: max_batch alone.
  std::vector<int64_t> preferred;
};

// A request. `done` is called exactly once, on a thread of the scheduler or in Submit's caller, and
// must not throw.
struct Inference {
  Tensors inputs;
  int64_t samples = 0;  // dimension 0 of all inputs; 0: runs alone, and counts as one
  Clock::time_point deadline = Clock::time_point::max();
  std::shared_ptr<const std::atomic<bool>> cancelled;  // may be null
  std::function<void(Served<Tensors>, const InferenceTimes&)> done;
};

// The instance that a run has. A run may let others have it while it waits for something else, such
// as new sizes to be prepared.
using Place = SharedEngine::Place;

// What a model does to inputs.
struct Runner {
  // Called from several threads, of which at most as many as there are instances are at their
  // place.
  std::function<Result<Tensors>(const Tensors& inputs, Place& place)> run;
  // Whether the samples of such inputs are computed apart from each other.
  std::function<bool(const Tensors& inputs)> independent;
};

// A request that joins others is answered with the bits that it gets alone. That samples do not
// depend on each other, `independent` says; that the sums of a larger product come in the same
// order is seen: the first kTrials runs of each shape and number of samples are also run one by
// one, which is what is answered, and where bits differ that shape is never joined so again.
class Scheduler {
 public:
  static constexpr int kTrials = 3;
  // While more runs than these are away from their places, instances may stand idle.
  static constexpr int kMostAway = 4;

  // `statistics` outlives it.
  Scheduler(const SchedulerOptions& options, Runner runner, Statistics& statistics);
  // As Close().
  ~Scheduler();
  Scheduler(const Scheduler&) = delete;
  Scheduler& operator=(const Scheduler&) = delete;

  // Takes the request, or leaves it as it was and says why not: kOverloaded, with a time after
  // which room is expected; kUnavailable after Close.
  Served<void> Submit(Inference& inference);
  // Answers now what was cancelled: its place in the queue is free then.
  void Wake();
  // Takes no more; returns when all that it took are answered.
  void Close();

  // Waiting now, and being computed.
  int64_t queued() const;
  int64_t running() const { return running_; }

 private:
  struct Waiting {
    Inference inference;
    Clock::time_point arrived;
  };
  struct Trial {
    int seen = 0;
    bool differs = false;
  };
  using Batch = std::vector<Waiting>;
  class Instance;

  void Work();
  // With the lock: an instance is free.
  void Free();
  // Answers requests whose time runs out while all instances are busy.
  void Sweep();
  // Takes what is to be run next, waiting for it; nothing: the end.
  Batch Next();
  // The places in the queue of the requests that the first one may run with, within max_batch.
  std::vector<size_t> Companions() const;
  // Takes out what was cancelled or is late, to be answered without the lock.
  std::vector<Waiting> TakeStale();
  void AnswerStale(std::vector<Waiting> stale);
  void Run(Batch batch);
  // Of one request, or of several as one run.
  void RunAlone(Waiting& one, Clock::time_point begun);
  bool RunJoined(Batch& batch, Clock::time_point begun);
  Trial TrialOf(const Tensors& joined, int64_t samples) const;
  void Saw(const Tensors& joined, int64_t samples, bool equal);
  void Answer(Waiting& one, Served<Tensors> outputs, const InferenceTimes& times);
  int RetryAfter() const;

  const SchedulerOptions options_;
  const Runner runner_;
  Statistics& statistics_;
  mutable std::mutex mutex_;         // of everything below
  std::condition_variable changed_;  // for those that run
  std::condition_variable sweeps_;   // for the one that sweeps
  std::condition_variable freed_;    // for those that were away
  bool woken_ = false;
  std::deque<Waiting> queue_;
  bool closed_ = false;
  int free_;           // instances that nobody has
  int returning_ = 0;  // runs that left theirs and wait for one; they come first
  std::map<std::string, Trial> trials_;
  double mean_run_s_ = 0;  // of the last runs
  std::atomic<int64_t> running_ = 0;
  std::mutex closing_;  // of workers_, once they run
  std::vector<std::thread> workers_;
};

}  // namespace evoq::serve
