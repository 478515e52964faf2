#include "base/guarded.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <new>
#include <stdexcept>
#include <system_error>

#include "base/brief.h"

namespace evoq {
namespace {

// Short enough for std::string to hold without asking for memory.
Error OutOfMemory() { return Error(ErrorCode::kTooLarge, "out of memory"); }

// The sentence, where there is memory for it.
template <typename... Args>
Error Say(ErrorCode code, fmt::format_string<Args...> format, Args&&... args) {
  try {
    return Error(code, fmt::format(format, std::forward<Args>(args)...));
  } catch (const std::bad_alloc&) {
    return OutOfMemory();
  }
}

}  // namespace

Error CaughtError() {
  try {
    throw;
  } catch (const std::bad_alloc&) {
    return OutOfMemory();
  } catch (const std::length_error& e) {
    return Say(ErrorCode::kTooLarge, "a size is beyond what this machine can address ({})",
               e.what());
  } catch (const std::filesystem::filesystem_error& e) {
    return Say(ErrorCode::kIo, "{}", e.what());
  } catch (const std::system_error& e) {
    const bool short_of = e.code() == std::errc::resource_unavailable_try_again ||
                          e.code() == std::errc::not_enough_memory;
    return Say(short_of ? ErrorCode::kTooLarge : ErrorCode::kIo, "{}", e.what());
  } catch (const std::exception& e) {
    return Say(ErrorCode::kInternal, "unexpected: {}", e.what());
  }
}

std::string SentenceOf(const Error& error) noexcept {
  try {
    return PrintableMessage(error.message());
  } catch (const std::bad_alloc&) {
    return "out of memory";  // short enough to need none
  }
}

void TellInC(const Error& error, char* to, size_t size) noexcept {
  if (to == nullptr || size == 0) return;
  const std::string text = SentenceOf(error);
  const size_t n = CharacterStart(text, std::min(size - 1, text.size()));
  std::memcpy(to, text.data(), n);
  to[n] = '\0';
}

}  // namespace evoq
