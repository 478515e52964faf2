// How a long task says how far it is, and how its caller stops it.
#pragma once

#include <functional>
#include <string>

#include "base/result.h"

namespace evoq {

// Hears how much is done, from 0 to 1. An error that it returns ends the task, which returns that
// error and leaves nothing behind. May be null.
using OnProgress = std::function<Status(double fraction)>;
// The same of a task of several stages, each from 0 to 1: "calibrating".
using OnStage = std::function<Status(const std::string& stage, double fraction)>;

}  // namespace evoq
