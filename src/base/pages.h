// Pages of memory: large ones, and those of mapped files that have been read and will not be needed
// soon.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace evoq {

// A large page of the system (x86-64, Arm with pages of 4 KiB), which one entry of the processor's
// address tables covers.
inline constexpr size_t kHugePage = size_t{2} << 20;

// A small page of this system.
int64_t PageBytes();

// Takes the whole pages inside of `bytes` out of the process's memory where they belong to a
// MappedFile or a MappedPart: they come back from the file when they are read again.
// Other memory stays as it is. The system keeps files in memory as long as it has any to spare, so
// that this costs little where there is enough.
void ReleasePages(std::span<const std::byte> bytes);

// Maps the pages of such memory at once. A system call that reads them otherwise stops at each one
// that is not there, and may copy anew what it had before. Other memory stays as it is.
void MapPages(std::span<const std::byte> bytes);

// Whether this is memory of a MappedFile.
bool LiesInMappedFile(const void* data);

}  // namespace evoq
