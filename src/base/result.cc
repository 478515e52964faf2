#include "base/result.h"

#include <cstdio>
#include <cstdlib>

#include "base/check.h"
#include "base/printable.h"

namespace evoq {

const char* ErrorCodeName(ErrorCode code) {
  switch (code) {
    case ErrorCode::kInvalidInput: return "invalid input";
    case ErrorCode::kUnsupported: return "unsupported";
    case ErrorCode::kNotFound: return "not found";
    case ErrorCode::kIo: return "input/output error";
    case ErrorCode::kTooLarge: return "too large";
    case ErrorCode::kUsage: return "usage";
    case ErrorCode::kConditionFailed: return "condition failed";
    case ErrorCode::kInternal: return "internal error";
  }
  return "error";
}

void CheckFailed(const char* file, int line, const char* condition, const std::string& message) {
  std::fprintf(stderr, "evoq: %s:%d: check failed: %s%s%s\n", file, line, condition,
               message.empty() ? "" : ": ", Printable(message).c_str());
  std::abort();
}

}  // namespace evoq
