// EVOQ_CHECK(condition, "format", values...): aborts with file, line and values when an invariant
// of the program is broken. Never for user data: that returns an Error (result.h).
#pragma once

#include <fmt/format.h>

#include <string>

namespace evoq {
[[noreturn]] void CheckFailed(const char* file, int line, const char* condition,
                              const std::string& message);
}  // namespace evoq

#define EVOQ_CHECK(condition, ...)                                                  \
  do {                                                                              \
    if (!(condition)) [[unlikely]]                                                  \
      ::evoq::CheckFailed(__FILE__, __LINE__, #condition,                           \
                          std::string("") __VA_OPT__(+::fmt::format(__VA_ARGS__))); \
  } while (0)
