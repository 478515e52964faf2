// Ends models that nobody uses any more on a thread of its own: their last user may be a thread of
// theirs, which cannot wait for itself.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "serve/served_model.h"

namespace evoq::serve {

class Retirement {
 public:
  static std::shared_ptr<Retirement> Begin();
  // Ends what is there. What is kept afterwards ends with its last user.
  ~Retirement();
  Retirement(const Retirement&) = delete;
  Retirement& operator=(const Retirement&) = delete;

  // A handle whose last copy hands the model over.
  static std::shared_ptr<ServedModel> Kept(std::shared_ptr<Retirement> retirement,
                                           std::unique_ptr<ServedModel> model);
  // Returns when all models that were handed out as Kept are ended.
  void Wait();

 private:
  Retirement();
  void Work();
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::unique_ptr<ServedModel>> retired_;
  size_t alive_ = 0;  // that are not ended
  bool closing_ = false;
  std::thread worker_;
};

}  // namespace evoq::serve
