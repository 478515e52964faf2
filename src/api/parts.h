// What differs between the libraries that have this interface, once in each: parts_whole.cc in
// libevoq, parts_runtime.cc in libevoq_runtime. The function LoadImage of evoq/evoq.h is there too.
#pragma once

#include "engine/engine.h"

namespace evoq {

// What the library's sessions work with.
const EngineParts& LibraryParts();

}  // namespace evoq
