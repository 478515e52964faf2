// Errors as values. Bad input (a file, a model, an option, a shape) returns Result<T>; a broken
// invariant of the program itself is an EVOQ_CHECK (check.h). No function of evoq throws.
#pragma once

#include <fmt/format.h>

#include <string>
#include <tl/expected.hpp>
#include <utility>

namespace evoq {

enum class ErrorCode {
  kInvalidInput,     // a file or a value from a file is malformed
  kUnsupported,      // well-formed, but evoq cannot do it
  kNotFound,         // a file, a name or a device is missing
  kIo,               // the operating system refused a read or a write
  kTooLarge,         // a size, a product or a limit is exceeded
  kUsage,            // the caller's option or argument is wrong
  kConditionFailed,  // a stated condition does not hold (a guarantee, a regression)
  kInternal,         // a bug in evoq
};

// "invalid input", "unsupported", ...
const char* ErrorCodeName(ErrorCode code);

// A code and a sentence. Contexts are put in front, outermost first:
// "resnet.onnx: node conv_12 (Conv): input 1 has rank 3, expected 4".
class Error {
 public:
  Error(ErrorCode code, std::string message) : code_(code), message_(std::move(message)) {}

  ErrorCode code() const { return code_; }
  const std::string& message() const { return message_; }

  Error WithContext(std::string_view context) && {
    message_ = fmt::format("{}: {}", context, message_);
    return std::move(*this);
  }

 private:
  ErrorCode code_;
  std::string message_;
};

template <typename T>
using Result = tl::expected<T, Error>;
using Status = Result<void>;

// Fail(ErrorCode::kInvalidInput, "node {}: rank {}, expected {}", ...) converts to any Result<T>.
template <typename... Args>
tl::unexpected<Error> Fail(ErrorCode code, fmt::format_string<Args...> format, Args&&... args) {
  return tl::unexpected<Error>(Error(code, fmt::format(format, std::forward<Args>(args)...)));
}

template <typename... Args>
tl::unexpected<Error> InvalidInput(fmt::format_string<Args...> format, Args&&... args) {
  return Fail(ErrorCode::kInvalidInput, format, std::forward<Args>(args)...);
}

template <typename... Args>
tl::unexpected<Error> Unsupported(fmt::format_string<Args...> format, Args&&... args) {
  return Fail(ErrorCode::kUnsupported, format, std::forward<Args>(args)...);
}

// Passes a result through, with `context` put in front of its error.
template <typename T>
Result<T> WithContext(Result<T> result, std::string_view context) {
  if (!result) return tl::unexpected<Error>(std::move(result.error()).WithContext(context));
  return result;
}

}  // namespace evoq

#define EVOQ_CONCAT_(a, b) a##b
#define EVOQ_CONCAT(a, b) EVOQ_CONCAT_(a, b)

// Returns the error of `expr` (a Result) from the enclosing function, if it has one.
#define EVOQ_TRY(expr)                                                      \
  do {                                                                      \
    if (auto evoq_status = (expr); !evoq_status)                            \
      return tl::unexpected<::evoq::Error>(std::move(evoq_status.error())); \
  } while (0)

// EVOQ_ASSIGN(auto x, F()): x = the value of F(), or returns F()'s error. `var` may not contain a
// comma.
#define EVOQ_ASSIGN(var, expr) EVOQ_ASSIGN_(EVOQ_CONCAT(evoq_result_, __LINE__), var, expr)
#define EVOQ_ASSIGN_(result, var, expr)                                         \
  auto result = (expr);                                                         \
  if (!result) return tl::unexpected<::evoq::Error>(std::move(result.error())); \
  var = std::move(*result)
