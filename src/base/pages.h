// Pages of mapped files that have been read: those that will not be needed soon need not stay.
#pragma once

#include <cstddef>
#include <span>

namespace evoq {

// Takes the whole pages inside of `bytes` out of the process's memory where they belong to a
// MappedFile or to what a SpillScope keeps: they come back from the file when they are read again.
// Other memory stays as it is. The system keeps files in memory as long as it has any to spare, so
// that this costs little where there is enough.
void ReleasePages(std::span<const std::byte> bytes);

// Whether this is memory of a MappedFile.
bool LiesInMappedFile(const void* data);

}  // namespace evoq
