// Measurements in the JSON layouts of trtexec, so that scripts written for its files read evoq's.
#pragma once

#include <nlohmann/json.hpp>

#include "profile/measure.h"

namespace evoq {

// --exportTimes: an array of {startEnqMs, endEnqMs, startH2dMs, ..., computeMs, d2hMs, latencyMs},
// one per run. There is no device to copy to: the copies take no time, and enqueueing is the run.
nlohmann::json TimesAsTrtexec(const RunTimes& times);

// --exportProfile: [{"count": runs}, {"name", "timeMs", "averageMs", "medianMs", "percentage"},
// ...], one per step.
nlohmann::json ProfileAsTrtexec(const StepProfile& profile);

// --exportLayerInfo: {"Layers": [...], "Bindings": [...]}: names, or objects where `detailed`.
nlohmann::json LayersAsTrtexec(const Program& program, bool detailed);

// --dumpProfile and --dumpLayerInfo: the same as text.
std::string ProfileText(const StepProfile& profile);

}  // namespace evoq
