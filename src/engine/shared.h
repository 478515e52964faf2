// A loaded model for callers on several threads.
#pragma once

#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "engine/engine.h"

namespace evoq {

// At most `streams` runs at a time, each with an executor and threads of its own; further callers wait. Results are those of
// single runs, bit for bit. Preparing a new shape holds up callers that begin, not those that run. A model that runs in regions
// (Engine::needs_evaluator) has one stream.
class SharedEngine {
 public:
  SharedEngine(std::unique_ptr<Engine> engine, int streams) : engine_(std::move(engine)), streams_(streams) {}

  int streams() const { return streams_; }
  // Why the model runs in regions; "" where it does not. Known after load, or after the first run of a model of free sizes.
  std::string needs_evaluator() const;

  // As Engine::Run. The outputs own their memory: they are no views of inputs or constants.
  Result<std::vector<Tensor>> Run(std::span<const Tensor> inputs);

 private:
  struct Streams {
    std::vector<Executor*> idle;
    std::vector<std::unique_ptr<Executor>> more;  // besides the engine's own
  };
  Result<Executor*> Take(Executor* own, std::unique_lock<std::mutex>& lock);

  mutable std::mutex mutex_;  // of everything below
  std::condition_variable freed_;
  std::unique_ptr<Engine> engine_;
  std::map<Executor*, Streams> by_shapes_;  // by the engine's executor
  const int streams_;
};

}  // namespace evoq
