// How much memory a run may ask for.
#pragma once

#include <cstdint>

namespace evoq {

// Bytes that this process can hope to get: the machine's memory, or the limit on its address space
// (RLIMIT_AS) where that is smaller. Sizes that come from a file are compared with it before they
// are allocated.
int64_t MemoryLimitBytes();

// What of it the process does not use yet: pages, or address space where that is limited. At least
// 0.
int64_t FreeMemoryBytes();

}  // namespace evoq
