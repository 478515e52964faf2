#include "graph/moving_out.h"

#include <utility>

#include "base/spill.h"
#include "tensor/spilled.h"

namespace evoq {

void MovingOut::Take(ValueId value) {
  Wait();
  Replace(/*all=*/false);
  SpillScope* const spill = ThreadScope<SpillScope>::Active();
  EarlyParts* const early = to_ == To::kResult ? ThreadScope<EarlyParts>::Active() : nullptr;
  const Tensor& tensor = graph_.value(value).constant;
  if ((spill == nullptr && early == nullptr) || !TakesPages(tensor)) return;
  Leaving& leaving = leaving_.emplace_back(Leaving{.value = value, .was = tensor, .is = tensor});
  last_ = std::async(std::launch::async, [&leaving, spill, early] {
    if (early != nullptr) leaving.part = early->Append({leaving.was.raw(), leaving.was.bytes()});
    if (leaving.part != nullptr) return;
    const ThreadScope<SpillScope> same(spill);
    leaving.is = Spilled(leaving.was);
  });
}

void MovingOut::Wait() {
  if (last_.valid()) last_.get();
}

// In order, those that have gone. Of `all`, those that the result file lost are spilled.
void MovingOut::Replace(bool all) {
  EarlyParts* const early = ThreadScope<EarlyParts>::Active();
  for (; !leaving_.empty(); leaving_.pop_front()) {
    Leaving& first = leaving_.front();
    if (first.part != nullptr) {
      if (auto kept = early->Map(first.part)) {
        first.is = AsKept(first.was, std::move(*kept));
      } else if (all || !early->Takes()) {
        first.is = Spilled(first.was);
      } else {
        return;
      }
    }
    // Somebody may have changed it meanwhile.
    if (graph_.value(first.value).constant.raw() == first.was.raw())
      graph_.SetConstant(first.value, std::move(first.is));
  }
}

void MovingOut::Settle() {
  Wait();
  if (EarlyParts* const early = ThreadScope<EarlyParts>::Active(); to_ == To::kResult && early)
    (void)early->Flush();
  Replace(/*all=*/true);
}

}  // namespace evoq
