// How much memory a run may ask for.
#pragma once

#include <cstdint>

namespace evoq {

// Bytes that this process can hope to get: the machine's memory, or the limit on its address space
// (RLIMIT_AS) or on its own data (RLIMIT_DATA) where that is smaller. Sizes that come from a file
// are compared with it before they are allocated.
int64_t MemoryLimitBytes();

// What of it the process does not use yet: pages, or address space or data where those are limited.
// At least 0.
int64_t FreeMemoryBytes();

}  // namespace evoq
