#include "base/forks.h"

#include <pthread.h>

#include <atomic>
#include <shared_mutex>

namespace evoq {
namespace {

std::atomic<uint32_t> forks{0};

// Shared by work, the fork's alone; not destroyed, as threads may end after it.
std::shared_mutex& Gate() {
  static auto* const gate = new std::shared_mutex;
  return *gate;
}

void InChild() {
  MakeAnew(Gate());
  forks.fetch_add(1);
}

}  // namespace

uint32_t Forks() {
  static const int noted = [] {
    Gate();
    return ::pthread_atfork([] { Gate().lock(); }, [] { Gate().unlock(); }, &InChild);
  }();
  (void)noted;
  return forks.load(std::memory_order_relaxed);
}

Unforked::Unforked() { Gate().lock_shared(); }
Unforked::~Unforked() { Gate().unlock_shared(); }

}  // namespace evoq
