// What a child of fork() has of its parent's threads: nothing. Objects with threads of their own
// ask here whether they are in such a child, and start anew.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>

namespace evoq {

// How many forks lie between this process and the one that evoq began in.
uint32_t Forks();

// A piece of work on a thread of evoq's own, until the end of the scope: fork() waits for it, so
// that a child finds nothing half done.
class Unforked {
 public:
  Unforked();
  ~Unforked();
  Unforked(const Unforked&) = delete;
  Unforked& operator=(const Unforked&) = delete;
};

// In a child: makes a mutex, a condition or a thread as new that the parent's threads used. What
// was there is not destroyed, which would wait for them.
template <typename T>
void MakeAnew(T& object) {
  std::construct_at(&object);
}

}  // namespace evoq
