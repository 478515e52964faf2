// What trtexec writes to the console.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace evoq {

// The profile table of --dumpProfile in the form of --exportProfile's file, and the median latency
// in that of --exportTimes; null where the log has none. TensorRT leaves the latency out of logs
// whose runs the profiler slowed.
struct TrtexecLog {
  nlohmann::json profile, times;
  std::string fault;  // where the table stops short of its row Total; empty where it does not
};
TrtexecLog ReadTrtexecLog(const std::string& text);

}  // namespace evoq
