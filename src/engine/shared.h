// A loaded model for callers on several threads.
#pragma once

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "engine/engine.h"

namespace evoq {

// At most `streams` runs at a time, of whatever shapes, each on threads of its own; further callers
// wait. Results are those of single runs, bit for bit. Preparing a new shape holds up its own
// callers alone, but for the first one of a model that came without a plan. A model that runs in
// dynamic partitions (Engine::in_regions) has one stream.
class SharedEngine {
 public:
  SharedEngine(std::unique_ptr<Engine> engine, int streams);

  int streams() const { return static_cast<int>(streams_.size()); }
  // Runs that are under way now.
  int running() const { return running_; }
  // Why the model runs in dynamic partitions; "" where it does not. Known after load, or after the
  // first run of a model of free sizes.
  std::string in_regions() const;

  // As Engine's: between two runs of a single stream, which is waited for; nothing where the model
  // is not adaptive or has several streams, each of which follows its own runs.
  std::optional<AdaptiveState> adaptive();
  Status PinScaleSet(const std::string& name);

  // As Engine::Run. The outputs own their memory: they are no views of inputs or constants.
  Result<std::vector<Tensor>> Run(std::span<const Tensor> inputs) { return Run(inputs, {}); }

  // A caller's place among few, which others may have while its sizes are prepared.
  class Place {
   public:
    virtual ~Place() = default;
    virtual void Leave() = 0;
    virtual void Return() = 0;  // waits for it; after Leave alone
  };
  struct RunOptions {
    RunControl* control = nullptr;  // between steps; dynamic partitions do not ask it
    int stream = -1;                // waits for this one, from 0; -1: for any
    Place* place = nullptr;
  };
  Result<std::vector<Tensor>> Run(std::span<const Tensor> inputs, const RunOptions& options);

  // Bytes of arenas and scratch of all streams' executors.
  int64_t arena_bytes() const;
  // As Engine's. WaitForGears holds up nobody.
  GearReport gears();
  void WaitForGears();

 private:
  // An executor of the engine, which may give it up, and this stream's own one of the same program.
  struct Copy {
    std::weak_ptr<Executor> of;
    std::shared_ptr<Executor> executor;
  };
  // Runs one after the other, on one set of threads.
  struct Stream {
    bool first = false;                // takes the engine's own executors
    std::shared_ptr<ThreadPool> pool;  // null before the first run
    std::shared_ptr<RunMemory> memory = std::make_shared<RunMemory>();
    std::vector<Copy> copies;  // the caller's while it runs

    bool Has(const std::shared_ptr<Executor>& own) const;
    Result<std::shared_ptr<Executor>> For(const std::shared_ptr<Executor>& own);
  };
  class Taken;
  bool Idle(int stream) const;
  Stream* Take(const std::shared_ptr<Executor>& own, int stream);
  Result<std::vector<Tensor>> RunInRegions(std::span<const Tensor> inputs);
  Result<Engine::Serving> ServingFor(std::span<const Tensor> inputs,
                                     std::unique_lock<std::mutex>& lock, Place* place);

  mutable std::mutex mutex_;  // of everything below but for what says otherwise
  std::condition_variable freed_, resolved_;
  std::set<InputShapes> resolving_;  // by a caller, without the lock
  std::unique_ptr<Engine> engine_;
  std::vector<Stream> streams_;  // one that runs belongs to its caller
  std::vector<Stream*> idle_;
  std::atomic<int> running_ = 0;
  std::mutex regions_mutex_;  // of the engine's dynamic partitions
};

}  // namespace evoq
