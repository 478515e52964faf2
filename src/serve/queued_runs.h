// Several runs of one model for one request: a few are in the model's queue at a time, so that one
// request does not fill it.
#pragma once

#include <functional>
#include <memory>
#include <mutex>

#include "serve/exchange.h"
#include "serve/served_model.h"

namespace evoq::serve {

// Keeps itself alive until the last run is answered. The first that fails is the answer.
class QueuedRuns : public std::enable_shared_from_this<QueuedRuns> {
 public:
  struct Work {
    size_t runs = 0;
    std::function<Tensors(size_t i)> inputs;
    // From any thread, of different `i` at the same time.
    std::function<void(size_t i, const Tensors& outputs)> take;
    std::function<void()> answer;  // after the last
  };
  QueuedRuns(std::shared_ptr<Exchange> ask, std::shared_ptr<ServedModel> model, Work work)
      : ask_(std::move(ask)), model_(std::move(model)), work_(std::move(work)) {}

  void Begin();

 private:
  void Next();
  void Take(size_t at, const Served<Tensors>& outputs);
  void Refuse(const Refusal& refusal);

  const std::shared_ptr<Exchange> ask_;
  const std::shared_ptr<ServedModel> model_;
  const Work work_;
  std::mutex mutex_;  // of what follows
  size_t next_ = 0, done_ = 0;
  bool refused_ = false;
};

}  // namespace evoq::serve
