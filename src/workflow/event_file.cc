#include "workflow/event_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <bit>
#include <filesystem>
#include <span>

#include "base/crc32c.h"
#include "base/file.h"
#include "base/output_file.h"

namespace evoq {
namespace {

constexpr uint32_t kMask = 0xa282ead8;

template <typename T>
void AppendLittle(T value, std::string& out) {
  for (size_t i = 0; i < sizeof(T); ++i) out += static_cast<char>(value >> 8 * i & 0xff);
}

uint32_t Masked(std::string_view bytes) {
  const uint32_t crc = Crc32c(std::as_bytes(std::span(bytes)));
  return (crc >> 15 | crc << 17) + kMask;
}

// ---- protocol buffers

enum Wire : uint32_t { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };

void AppendVarint(uint64_t value, std::string& out) {
  for (; value >= 0x80; value >>= 7) out += static_cast<char>(value | 0x80);
  out += static_cast<char>(value);
}
void AppendKey(uint32_t field, Wire wire, std::string& out) {
  AppendVarint(field << 3 | wire, out);
}
void AppendBytes(uint32_t field, std::string_view bytes, std::string& out) {
  AppendKey(field, kBytes, out);
  AppendVarint(bytes.size(), out);
  out += bytes;
}

std::string EventOf(double seconds, int64_t step) {
  std::string event;
  AppendKey(1, kFixed64, event);
  AppendLittle(std::bit_cast<uint64_t>(seconds), event);
  AppendKey(2, kVarint, event);
  AppendVarint(static_cast<uint64_t>(step), event);
  return event;
}

}  // namespace

Result<EventFile> EventFile::Create(const std::string& folder, double seconds) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) return Fail(ErrorCode::kIo, "{}: cannot create: {}", folder, error.message());
  const std::string name =
      fmt::format("events.out.tfevents.{}.evoq.{}", static_cast<int64_t>(seconds), ::getpid());
  EventFile file((std::filesystem::path(folder) / name).string());
  std::string event = EventOf(seconds, 0);
  AppendBytes(3, "brain.Event:2", event);
  EVOQ_TRY(file.Append(event));
  return file;
}

Status EventFile::Add(double seconds, int64_t step,
                      const std::vector<std::pair<std::string, double>>& values) {
  std::string summary;
  for (const auto& [tag, number] : values) {
    std::string value;
    AppendBytes(1, tag, value);
    AppendKey(2, kFixed32, value);
    AppendLittle(std::bit_cast<uint32_t>(static_cast<float>(number)), value);
    AppendBytes(1, value, summary);
  }
  std::string event = EventOf(seconds, step);
  AppendBytes(5, summary, event);
  return Append(event);
}

Status EventFile::Append(const std::string& event) {
  std::string record;
  AppendLittle(static_cast<uint64_t>(event.size()), record);
  AppendLittle(Masked(record), record);
  record += event;
  AppendLittle(Masked(event), record);
  Descriptor file(::open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666));
  if (file.get() < 0) return SystemError(path_, "open");
  if (!WriteAll(file.get(), std::as_bytes(std::span(record))) || !file.Close())
    return SystemError(path_, "write");
  return {};
}

}  // namespace evoq
