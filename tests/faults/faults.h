// Memory and threads that run out when a test says so: this binary's operator new, aligned_alloc
// and pthread_create are faults.cc's.
#pragma once

#include <cstdint>

// ThreadSanitizer has an operator new and a fork of its own, AddressSanitizer a pthread_create.
#if defined(__SANITIZE_THREAD__)
#define EVOQ_NO_FAULTS
#elif defined(__SANITIZE_ADDRESS__)
#define EVOQ_NO_THREAD_FAULTS
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define EVOQ_NO_FAULTS
#elif __has_feature(address_sanitizer)
#define EVOQ_NO_THREAD_FAULTS
#endif
#endif

namespace evoq::faults {

enum class What { kMemory, kThreads };
enum class How { kOnce, kFromThenOn };

// While it lives, request number `nth` (the first is 1) for memory or a thread fails, and with
// kFromThenOn all later ones.
class Failing {
 public:
  Failing(What what, How how, int64_t nth);
  ~Failing();
  // Whether a request has failed.
  bool hit() const;
};

// Requests for memory, and blocks of operator new that were not given back, since the process
// began.
int64_t Requests();
int64_t Living();

// EVOQ_LONG=1: every case instead of a sample.
bool LongForm();

}  // namespace evoq::faults
