// Threads for one piece of work.
#pragma once

#include <functional>

namespace evoq {

// Calls body(0) on the calling thread and body(1) to body(count - 1) on threads of their own, all
// at once, and returns when all are done. No body begins before every thread is there. Throws
// std::system_error when the system refuses one, after which none has begun; else what the first
// body that threw has thrown.
void RunOnThreads(int count, const std::function<void(int)>& body);

}  // namespace evoq
