// One caller at a time, where a second one would use what the first one uses.
#pragma once

#include <atomic>

#include "base/result.h"

namespace evoq {

// Takes an object that is free until the end of the scope.
class Turn {
 public:
  explicit Turn(std::atomic<bool>& taken)
      : taken_(taken.exchange(true, std::memory_order_acquire) ? nullptr : &taken) {}
  ~Turn() {
    if (taken_ != nullptr) taken_->store(false, std::memory_order_release);
  }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;

  // Errors: kUsage where another caller has it.
  Status Check(const char* what) const {
    if (taken_ != nullptr) return {};
    return Fail(ErrorCode::kUsage, "another call of this {} has not ended, expected one at a time",
                what);
  }

 private:
  std::atomic<bool>* taken_;
};

}  // namespace evoq
