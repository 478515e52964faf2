// How callers outside evoq run a task: the public interface and the Python module.
#pragma once

#include "base/file.h"
#include "base/guarded.h"
#include "workflow/told.h"

namespace evoq {

// What `task` (() -> Result of something to Tell) tells of its result. Nothing throws. Errors: also
// of a file that was cut short in place meanwhile.
template <typename Task>
Result<Told> RunToTell(Task&& task) {
  return Guarded([&]() -> Result<Told> {
    const int64_t damages = DamagesSoFar();
    EVOQ_ASSIGN(const auto result, task());
    EVOQ_TRY(NoDamageSince(damages));
    return Tell(result);
  });
}

}  // namespace evoq
