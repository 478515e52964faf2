// The border that exceptions do not cross.
//
// evoq's own code reports failures as values (result.h). What the standard library throws when
// memory or threads run out passes through it - everything that it leaves behind is owned - and
// becomes an Error where evoq is entered: the public interface, the command line, the Python
// module. AlignedBuffer and ThreadPool throw the same two exceptions for the same reasons.
#pragma once

#include <string>
#include <type_traits>
#include <utility>

#include "base/result.h"
#include "base/thread_state.h"

namespace evoq {

// The Error that the exception being handled stands for: kTooLarge for memory and threads, kIo for
// files, kInternal for others of the standard library. An exception of another kind goes on.
Error CaughtError();

// What `function` returns, which is a Result; CaughtError() where it throws. It computes in evoq's
// ThreadState.
template <typename Function>
std::invoke_result_t<Function> Guarded(Function&& function) {
  const ThreadState state;
  try {
    return std::forward<Function>(function)();
  } catch (...) {
    return tl::unexpected<Error>(CaughtError());
  }
}

// What callers are told: fit for a terminal or a log, as all that evoq prints. Never throws: what
// finds no memory says that.
std::string SentenceOf(const Error& error) noexcept;
// The same into memory of a caller in C, cut to fit between characters and terminated; nothing
// where `to` is null or has no room.
void TellInC(const Error& error, char* to, size_t size) noexcept;

}  // namespace evoq
