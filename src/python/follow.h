// Python follows a task and stops it.
#pragma once

#include <nanobind/nanobind.h>

#include <chrono>
#include <exception>

#include "workflow/follow.h"

namespace evoq {

// Calls `progress(stage, fraction)` (None: nobody hears), at most every 50 ms of one stage, and
// lets Ctrl-C through. A signal's handler or a callback that raises stops the task. Lives with the
// GIL held; the task may run without it.
class PyFollow {
 public:
  explicit PyFollow(nanobind::object progress) : progress_(std::move(progress)) {}
  // Refers to this.
  Follow follow();
  // Raises what stopped the task, if Python did.
  void Rethrow() const {
    if (raised_) std::rethrow_exception(raised_);
  }

 private:
  void Hear(const std::string& stage, double fraction);

  nanobind::object progress_;
  std::exception_ptr raised_;
  std::string stage_;
  std::chrono::steady_clock::time_point heard_;  // when Python last was
};

}  // namespace evoq
