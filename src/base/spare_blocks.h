// Large blocks of AlignedBuffer that nobody has any more.
#pragma once

#include <cstddef>

namespace evoq {

// From now on large blocks of up to so many bytes in all stay with the process when they are freed,
// for the next of the same size: pages that the system gives anew cost as much as a kernel writes
// into them. For programs that give out fresh memory again and again; 0, as it is without: none.
void KeepSpareBlocks(size_t bytes);
// Of those that are kept now.
size_t SpareBytes();

}  // namespace evoq
