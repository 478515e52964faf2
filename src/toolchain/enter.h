// What the functions of the C++ toolchain share: how a task is entered, and how its options and
// results become those of the workflow.
#pragma once

#include <utility>

#include "base/file.h"
#include "base/guarded.h"
#include "evoq/toolchain.h"
#include "passes/choice.h"
#include "tensor/tensor.h"
#include "workflow/follow.h"
#include "workflow/told.h"

namespace evoq::toolchain {
inline namespace v1 {

Report ReportOf(const Told& told);
PassChoice ChoiceFrom(const Passes& passes);

// Arrays of the caller as tensors that look at them. Errors: kUsage, naming the sample.
Result<std::vector<std::vector<Tensor>>> Views(const std::vector<std::vector<Array>>& samples);

// What `task` (evoq::Follow -> evoq::Result<T>) gives: nothing where it fails, with the reason.
template <typename T, typename Task>
std::optional<T> Enter(const Follow& follow, std::string* error, const Task& task) {
  Result<T> result = Guarded([&]() -> Result<T> {
    const int64_t damages = DamagesSoFar();
    EVOQ_ASSIGN(T done, task(evoq::Follow{follow.progress, follow.cancelled}));
    EVOQ_TRY(NoDamageSince(damages));
    return done;
  });
  if (result) return std::move(*result);
  if (error != nullptr) *error = SentenceOf(result.error());
  return std::nullopt;
}

}  // namespace v1
}  // namespace evoq::toolchain
