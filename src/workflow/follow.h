// How the caller of a long task follows it and stops it.
#pragma once

#include "base/on_progress.h"

namespace evoq {

// Both are called on the thread of the task, between stages, samples, rounds and blocks of runs.
struct Follow {
  // A stage ("calibrating") and how much of it is done, from 0 to 1; may be null.
  std::function<void(const std::string& stage, double fraction)> progress;
  // Whether to stop; may be null. A task that is stopped writes no file.
  std::function<bool()> cancelled;

  // Tells, and asks. Errors: kConditionFailed, "cancelled while calibrating".
  Status At(const std::string& stage, double fraction) const;
  // The same for whoever does one stage, or several. They refer to this.
  OnProgress Stage(std::string stage) const;
  OnStage Stages() const;
};

}  // namespace evoq
