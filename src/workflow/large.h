// Jobs whose constants do not fit the memory together.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/early_parts.h"
#include "base/spill.h"

namespace evoq {

// While it lives, constants of the thread's job go to a file without a name where `output` is to be
// written (in the folder of temporary files where that is no file), and packed weights into
// `output` itself, when `bytes`, all that they may take, are more than half of what the process can
// hope to get (base/memory.h). Results are the same either way.
class LargeJob {
 public:
  LargeJob(int64_t bytes, const std::string& output);

 private:
  std::optional<SpillScope> spill_;
  std::optional<EarlyParts> early_;
};

}  // namespace evoq
