#include "tests/faults/faults.h"

#include <dlfcn.h>
#include <pthread.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <new>

namespace evoq::faults {
namespace {

// Requests left until one fails; 0: none will.
std::atomic<int64_t> left[2];
std::atomic<bool> stays[2], was_hit;
std::atomic<int64_t> requests, living;

bool Fails(What what) {
  const auto i = static_cast<size_t>(what);
  for (int64_t n = left[i].load();;) {
    if (n == 0) return false;
    const int64_t next = n == 1 && stays[i].load() ? 1 : n - 1;
    if (!left[i].compare_exchange_weak(n, next)) continue;
    if (n > 1) return false;
    was_hit.store(true);
    return true;
  }
}

}  // namespace

Failing::Failing(What what, How how, int64_t nth) {
  was_hit.store(false);
  stays[static_cast<size_t>(what)].store(how == How::kFromThenOn);
  left[static_cast<size_t>(what)].store(nth);
}
Failing::~Failing() {
  for (auto& n : left) n.store(0);
}
bool Failing::hit() const { return was_hit.load(); }

int64_t Requests() { return requests.load(); }
int64_t Living() { return living.load(); }

bool LongForm() {
  const char* value = std::getenv("EVOQ_LONG");
  return value != nullptr && *value == '1';
}

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
// When memory fails while protobuf adds a message to its parent, it loses that message
// (docs/bad-input.md).
extern "C" const char* __lsan_default_suppressions();
extern "C" const char* __lsan_default_suppressions() {
  return "leak:libprotobuf\nleak:libonnx_proto\n";
}
#endif
#endif

#ifndef EVOQ_NO_FAULTS

namespace {

void* Aligned(std::size_t alignment, std::size_t bytes) {
  void* p = nullptr;
  if (::posix_memalign(&p, alignment < sizeof(void*) ? sizeof(void*) : alignment,
                       bytes == 0 ? 1 : bytes) != 0)
    return nullptr;
  return p;
}

void* New(std::size_t bytes, std::size_t alignment) {
  requests.fetch_add(1, std::memory_order_relaxed);
  void* const p = Fails(What::kMemory) ? nullptr : Aligned(alignment, bytes);
  if (p == nullptr) throw std::bad_alloc();
  living.fetch_add(1, std::memory_order_relaxed);
  return p;
}

void Delete(void* p) {
  if (p == nullptr) return;
  living.fetch_sub(1, std::memory_order_relaxed);
  std::free(p);
}

constexpr std::size_t kDefault = __STDCPP_DEFAULT_NEW_ALIGNMENT__;

}  // namespace

#endif  // EVOQ_NO_FAULTS

}  // namespace evoq::faults

#ifndef EVOQ_NO_FAULTS

using evoq::faults::Delete;
using evoq::faults::kDefault;
using evoq::faults::New;

void* operator new(std::size_t bytes) { return New(bytes, kDefault); }
void* operator new[](std::size_t bytes) { return New(bytes, kDefault); }
void* operator new(std::size_t bytes, std::align_val_t a) {
  return New(bytes, static_cast<std::size_t>(a));
}
void* operator new[](std::size_t bytes, std::align_val_t a) {
  return New(bytes, static_cast<std::size_t>(a));
}
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
  try {
    return New(bytes, kDefault);
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}
void* operator new[](std::size_t bytes, const std::nothrow_t& tag) noexcept {
  return operator new(bytes, tag);
}
void operator delete(void* p) noexcept { Delete(p); }
void operator delete[](void* p) noexcept { Delete(p); }
void operator delete(void* p, std::size_t) noexcept { Delete(p); }
void operator delete[](void* p, std::size_t) noexcept { Delete(p); }
void operator delete(void* p, std::align_val_t) noexcept { Delete(p); }
void operator delete[](void* p, std::align_val_t) noexcept { Delete(p); }
void operator delete(void* p, std::size_t, std::align_val_t) noexcept { Delete(p); }
void operator delete[](void* p, std::size_t, std::align_val_t) noexcept { Delete(p); }
void operator delete(void* p, const std::nothrow_t&) noexcept { Delete(p); }
void operator delete[](void* p, const std::nothrow_t&) noexcept { Delete(p); }

extern "C" {

void* aligned_alloc(std::size_t alignment, std::size_t bytes) noexcept {
  evoq::faults::requests.fetch_add(1, std::memory_order_relaxed);
  return evoq::faults::Fails(evoq::faults::What::kMemory) ? nullptr
                                                          : evoq::faults::Aligned(alignment, bytes);
}

#ifndef EVOQ_NO_THREAD_FAULTS
int pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*start)(void*),
                   void* argument) noexcept {
  using Create = int (*)(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*);
  static const auto create = reinterpret_cast<Create>(::dlsym(RTLD_NEXT, "pthread_create"));
  return evoq::faults::Fails(evoq::faults::What::kThreads)
             ? EAGAIN
             : create(thread, attributes, start, argument);
}
#endif

}  // extern "C"

#endif  // EVOQ_NO_FAULTS
