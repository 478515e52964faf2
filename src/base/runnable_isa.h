// What can run here of a set of features that may be another machine's.
#pragma once

#include "base/isa.h"

namespace evoq {

// The best named set that both `isa` and this machine have: for code that must run now although it
// is for another machine, and gives the same with any set.
Isa RunnableHere(Isa isa);

}  // namespace evoq
