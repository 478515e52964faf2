// Whether the tests are built with a sanitizer that keeps memory of its own beside the program's.
#pragma once

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define EVOQ_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define EVOQ_SANITIZED 1
#endif
#endif
