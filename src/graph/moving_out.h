// Constants that leave the memory while others are made.
#pragma once

#include <deque>
#include <future>
#include <memory>

#include "base/early_parts.h"
#include "graph/graph.h"

namespace evoq {

// Moves constants of a graph to where the thread's scopes put them, on another thread while this
// one goes on. Where nothing takes them, and when they are small (TakesPages), they stay.
class MovingOut {
 public:
  enum class To {
    kSpill,   // Spilled (tensor/spilled.h)
    kResult,  // the result file under way (base/early_parts.h); else kSpill
  };
  MovingOut(Graph& graph, To to) : graph_(graph), to_(to) {}

  // The value's constant goes, once the one before it has.
  void Take(ValueId value);
  // All of them have gone. Without it the last ones stay where they are.
  void Settle();

 private:
  struct Leaving {
    ValueId value;
    Tensor was, is;
    std::shared_ptr<const EarlyParts::Part> part = nullptr;  // where `is` will be
  };
  void Wait();
  void Replace(bool all);

  Graph& graph_;
  To to_;
  std::deque<Leaving> leaving_;
  std::future<void> last_;  // waits when it goes
};

}  // namespace evoq
