// What the server answers instead of a result: why, a sentence, and when to come again.
#pragma once

#include <fmt/format.h>

#include <string>
#include <tl/expected.hpp>
#include <utility>

#include "base/result.h"

namespace evoq::serve {

enum class Why {
  kBadRequest,    // the request is malformed, or asks for what the model does not have
  kUnauthorized,  // no token, or another one
  kNotFound,      // no such model, version or path
  kBadMethod,     // the path takes another method
  kTimeout,       // the client took too long to send
  kTooLarge,      // the request is larger than the server takes
  kUnsupported,   // well-formed, and nothing that the server does
  kFailed,        // the model failed
  kOverloaded,    // too much is waiting: come again later
  kUnavailable,   // loading, unloaded or draining
  kExpired,       // its deadline passed before it was computed
  kCancelled,     // its caller gave it up
};

// As HTTP tells it: 400, 404, 413, 503, ...
int StatusOf(Why why);
// For logs and metrics: "bad_request", "overloaded", ...
const char* NameOf(Why why);

struct Refusal {
  Why why = Why::kFailed;
  std::string message;
  int retry_after_s = 0;  // 0: nothing is said of it
};

template <typename T>
using Served = tl::expected<T, Refusal>;

// Refuse(Why::kNotFound, "no model {}", name) converts to any Served<T>.
template <typename... Args>
tl::unexpected<Refusal> Refuse(Why why, fmt::format_string<Args...> format, Args&&... args) {
  return tl::unexpected<Refusal>(Refusal{why, fmt::format(format, std::forward<Args>(args)...), 0});
}

// Of an error in a run that a request asked for: what its data or sizes made fail is the caller's.
Refusal RefusalOf(const Error& error);

}  // namespace evoq::serve
