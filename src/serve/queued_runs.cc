#include "serve/queued_runs.h"

#include <algorithm>
#include <utility>

namespace evoq::serve {

void QueuedRuns::Begin() {
  constexpr size_t kAtOnce = 8;
  for (size_t i = 0; i < std::min(kAtOnce, work_.runs); ++i) Next();
}

// Hands over the next run, where there is one.
void QueuedRuns::Next() {
  size_t at = 0;
  {
    const std::lock_guard lock(mutex_);
    if (refused_ || next_ == work_.runs) return;
    at = next_++;
  }
  Inference inference;
  inference.inputs = work_.inputs(at);
  inference.done = [self = shared_from_this(), at](const Served<Tensors>& outputs,
                                                   const InferenceTimes&) {
    self->Take(at, outputs);
  };
  if (const auto taken = model_->Infer(inference); !taken) Refuse(taken.error());
}

void QueuedRuns::Take(size_t at, const Served<Tensors>& outputs) {
  if (!outputs) return Refuse(outputs.error());
  work_.take(at, *outputs);
  bool all = false;
  {
    const std::lock_guard lock(mutex_);
    all = ++done_ == work_.runs;
  }
  if (all) return work_.answer();
  Next();
}

void QueuedRuns::Refuse(const Refusal& refusal) {
  {
    const std::lock_guard lock(mutex_);
    if (std::exchange(refused_, true)) return;
  }
  ask_->Refuse(refusal);
}

}  // namespace evoq::serve
