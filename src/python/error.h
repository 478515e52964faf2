// Errors as values become Python exceptions here, at the border: nanobind carries them as C++
// exceptions.
#pragma once

#include <nanobind/nanobind.h>

#include "base/result.h"

namespace evoq {

// Raises evoq.Error with the message and the code's name. Needs the GIL.
[[noreturn]] void Raise(const Error& error);

template <typename T>
T Unwrap(Result<T> result) {
  if (!result) Raise(result.error());
  if constexpr (!std::is_void_v<T>) return std::move(*result);
}

}  // namespace evoq
