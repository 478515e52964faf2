#include "base/runnable_isa.h"

#include <algorithm>

namespace evoq {

Isa RunnableHere(Isa isa) {
  const auto all = AllIsas();
  return *std::find_if(all.begin(), all.end(),
                       [&](Isa named) { return isa.Has(named) && IsaSupported(named); });
}

}  // namespace evoq
