#include "serve/refusal.h"

#include "base/check.h"

namespace evoq::serve {

int StatusOf(Why why) {
  switch (why) {
    case Why::kBadRequest: return 400;
    case Why::kUnauthorized: return 401;
    case Why::kNotFound: return 404;
    case Why::kBadMethod: return 405;
    case Why::kTimeout: return 408;
    case Why::kTooLarge: return 413;
    case Why::kUnsupported: return 415;
    case Why::kFailed: return 500;
    case Why::kOverloaded:
    case Why::kUnavailable: return 503;
    case Why::kExpired: return 504;
    case Why::kCancelled: return 499;  // nobody reads it; logs do
  }
  EVOQ_CHECK(false, "why {}", static_cast<int>(why));
}

const char* NameOf(Why why) {
  switch (why) {
    case Why::kBadRequest: return "bad_request";
    case Why::kUnauthorized: return "unauthorized";
    case Why::kNotFound: return "not_found";
    case Why::kBadMethod: return "bad_method";
    case Why::kTimeout: return "timeout";
    case Why::kTooLarge: return "too_large";
    case Why::kUnsupported: return "unsupported";
    case Why::kFailed: return "failed";
    case Why::kOverloaded: return "overloaded";
    case Why::kUnavailable: return "unavailable";
    case Why::kExpired: return "expired";
    case Why::kCancelled: return "cancelled";
  }
  EVOQ_CHECK(false, "why {}", static_cast<int>(why));
}

Refusal RefusalOf(const Error& error) {
  switch (error.code()) {
    case ErrorCode::kUsage:
    case ErrorCode::kInvalidInput:
    case ErrorCode::kUnsupported:
    case ErrorCode::kConditionFailed: return {Why::kBadRequest, error.message(), 0};
    case ErrorCode::kTooLarge: return {Why::kTooLarge, error.message(), 0};
    case ErrorCode::kNotFound:
    case ErrorCode::kIo:
    case ErrorCode::kInternal: break;
  }
  return {Why::kFailed, error.message(), 0};
}

}  // namespace evoq::serve
