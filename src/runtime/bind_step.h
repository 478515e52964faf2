// From a step of a program to what runs it.
#pragma once

#include <memory>
#include <mutex>
#include <optional>

#include "base/result.h"
#include "kernels/kernel.h"
#include "program/model.h"

namespace evoq {

// What went wrong in the present run, if anything did. Kernels cannot fail; a guard can, and a
// definition, on data that it refuses.
class Failure {
 public:
  void Reset() { error_.reset(); }
  void Note(const Error& error) {
    const std::lock_guard lock(mutex_);
    if (!error_) error_ = error;
  }
  const std::optional<Error>& error() const { return error_; }

 private:
  std::mutex mutex_;
  std::optional<Error> error_;
};

// The kernel of a step, bound; its definition, a copy, or nothing where that is what the step is.
// Guards and definitions note in `failure` what data they refuse. Errors: kInvalidInput and
// kUnsupported of a kernel; kUnsupported for a step without one whose definition the program's
// evaluator lacks.
Result<BoundKernel> BindStep(const Program& program, const Step& step, BindOptions options,
                             const std::shared_ptr<Failure>& failure);

}  // namespace evoq
