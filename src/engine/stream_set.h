// A loaded model that runs in several streams: runs of one follow each other, those of several go
// on beside each other, urgent ones first.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/forks.h"
#include "engine/shared.h"

namespace evoq {

struct StreamSetOptions {
  // Of each stream, of which there are as many, 1 to 256. Smaller numbers go first.
  std::vector<int> priorities = {0};
  // Runs that go on at once; 0: as many as the cores have room for, each on the engine's threads.
  int at_once = 0;
  // A run takes an arena that no other run needs at the time; false: each stream has its own.
  bool share_arenas = true;
  // Runs that may wait in a stream; more are refused.
  size_t queue = 1024;
};

// Where more runs are ready than go on at once, those of the most urgent streams go on, of equally
// urgent ones those that began, then in the order in which they were asked for. A run that goes on
// is held up, between two of its steps, when a more urgent one comes, and goes on when that has
// ended: its memory stays its own. Results are those of single runs, bit for bit.
//
// Dynamic partitions (Engine::in_regions) run one at a time and are not held up.
class StreamSet {
 public:
  using Clock = std::chrono::steady_clock;
  using Outputs = Result<std::vector<Tensor>>;
  enum class Ending { kRan, kCancelled, kLate };
  // Called once for each run that was taken, on a thread of this class: the next run of the stream
  // begins when it returns. It must not throw, and may Submit and Cancel. Errors: those of
  // SharedEngine::Run; kConditionFailed for a run that was given up.
  using Done = std::function<void(Outputs outputs, Ending ending)>;
  using RunId = uint64_t;

  // Throws std::system_error where there are no threads for it.
  StreamSet(std::unique_ptr<Engine> engine, StreamSetOptions options);
  // Cancels all runs and waits until each is done; in a child of fork() there are none.
  ~StreamSet() { Close(); }
  StreamSet(const StreamSet&) = delete;
  StreamSet& operator=(const StreamSet&) = delete;

  const StreamSetOptions& options() const { return options_; }  // at_once: what was chosen for 0
  int streams() const { return static_cast<int>(streams_.size()); }
  // Runs that have begun and not ended; those that are held up too.
  int running() const { return shared_.running(); }
  int64_t arena_bytes() const { return shared_.arena_bytes(); }
  std::string in_regions() const { return shared_.in_regions(); }
  GearReport gears() { return shared_.gears(); }
  void WaitForGears() { shared_.WaitForGears(); }

  // Asks for a run. A run that has not ended at its deadline is given up. Errors: kUsage for a
  // stream that there is not, kTooLarge where as many wait there as may; `done` is not called then.
  Result<RunId> Submit(int stream, std::vector<Tensor> inputs, Done done,
                       std::optional<Clock::time_point> deadline = std::nullopt);
  // Gives up a run: one that waits at once, one that goes on behind the step that it is at. False
  // where it has ended, or was given up before.
  bool Cancel(RunId run);
  // Changes what is urgent from now on, also for runs that wait and go on. Errors: kUsage for a
  // stream that there is not.
  Status SetPriority(int stream, int priority);
  // Until all runs of the stream that were asked for have ended; -1: of all streams. Not from
  // `done`.
  void Wait(int stream = -1);
  // Cancels all runs and waits until each is done; further ones are refused. Not from `done`.
  void Close();

 private:
  struct Run {
    RunId id;
    int stream;
    std::vector<Tensor> inputs;
    Done done;
    std::optional<Clock::time_point> deadline;
    RunControl control = {};
    Ending ending = Ending::kRan;
  };
  struct Stream {
    int index, priority;
    std::deque<Run*> waiting;
    Run* current = nullptr;  // goes on, is held up, or is being told of
    bool may_begin = false;  // the first that waits
    bool telling = false;    // of `current`
    std::condition_variable changed;
    std::thread thread;

    bool idle() const { return waiting.empty() && current == nullptr; }
  };

  void Start();
  // Before anything else, of every function: in a child of fork() threads of its own, and no runs.
  void Begin();
  void ForgetParent();
  void Serve(Stream& stream);
  void WatchDeadlines();
  void Choose();
  bool GiveUp(Run& run, Ending why);
  void Tell(Run& run, Outputs outputs, std::unique_lock<std::mutex>& lock);
  bool Idle(int stream) const;

  StreamSetOptions options_;
  SharedEngine shared_;
  mutable std::mutex mutex_;  // of everything below
  std::deque<Stream> streams_;
  std::map<RunId, std::unique_ptr<Run>> runs_;  // that have not been told of
  RunId next_ = 1;
  std::set<std::pair<Clock::time_point, RunId>> deadlines_;  // of `runs_`
  std::deque<Run*> given_up_;                                // while they waited; to be told of
  bool closing_ = false;
  std::condition_variable watch_changed_, ended_;
  std::mutex close_mutex_;
  std::thread watch_;  // gives up late runs, and tells of those that were given up
  std::atomic<uint32_t> born_ = Forks();  // of the process that the threads are of
};

}  // namespace evoq
