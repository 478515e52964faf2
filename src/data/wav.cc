#include "data/wav.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/file.h"

namespace evoq {
namespace {

// Numbers of a file, little-endian; places are checked before.
uint64_t Little(std::span<const std::byte> bytes, size_t at, size_t size) {
  uint64_t number = 0;
  for (size_t i = 0; i < size; ++i) number |= static_cast<uint64_t>(bytes[at + i]) << (8 * i);
  return number;
}

bool Is(std::span<const std::byte> bytes, size_t at, const char* name) {
  return std::memcmp(bytes.data() + at, name, 4) == 0;
}

struct Format {
  uint64_t encoding = 0, channels = 0, rate = 0, bits = 0;
  bool real() const { return encoding == 3; }
};

constexpr size_t kChunk = 8, kLeastFormat = 16;

Result<Format> ReadFormat(std::span<const std::byte> chunk) {
  constexpr uint64_t kPcm = 1, kExtensible = 0xFFFE, kMostChannels = 64, kMostRate = 1 << 20;
  constexpr size_t kSubformat = 24;
  if (chunk.size() < kLeastFormat)
    return InvalidInput("a format of {} bytes, expected {}", chunk.size(), kLeastFormat);
  Format f{Little(chunk, 0, 2), Little(chunk, 2, 2), Little(chunk, 4, 4), Little(chunk, 14, 2)};
  if (f.encoding == kExtensible && chunk.size() >= kSubformat + 2)
    f.encoding = Little(chunk, kSubformat, 2);
  const bool known = f.real() ? f.bits == 32
                              : f.encoding == kPcm &&
                                    (f.bits == 8 || f.bits == 16 || f.bits == 24 || f.bits == 32);
  if (!known)
    return Unsupported("encoding {} of {} bits, expected PCM of 8, 16, 24 or 32, or float32",
                       f.encoding, f.bits);
  if (f.channels < 1 || f.channels > kMostChannels || f.rate < 1 || f.rate > kMostRate)
    return InvalidInput("{} channels of {} samples in a second", f.channels, f.rate);
  return f;
}

float SampleAt(std::span<const std::byte> data, size_t at, const Format& f) {
  const size_t bytes = f.bits / 8;
  const uint64_t bits = Little(data, at, bytes);
  if (f.real()) {
    const auto word = static_cast<uint32_t>(bits);
    float x = 0;
    std::memcpy(&x, &word, sizeof(x));
    return std::isfinite(x) ? x : 0.0f;
  }
  if (f.bits == 8) return (static_cast<float>(bits) - 128.0f) / 128.0f;  // the only unsigned one
  const auto shift = static_cast<int>(32 - f.bits);
  return static_cast<float>(static_cast<int32_t>(static_cast<uint32_t>(bits << shift))) * 0x1p-31f;
}

Result<Sound> Samples(std::span<const std::byte> data, const Format& f) {
  const size_t frame = f.bits / 8 * f.channels, count = data.size() / frame;
  constexpr size_t kMostSeconds = 36000;
  if (count > kMostSeconds * f.rate)
    return Fail(ErrorCode::kTooLarge, "{} seconds, expected at most {}", count / f.rate,
                kMostSeconds);
  Sound sound{static_cast<int64_t>(f.rate), std::vector<float>(count)};
  for (size_t i = 0; i < count; ++i) {
    float sum = 0;
    for (size_t c = 0; c < f.channels; ++c) sum += SampleAt(data, i * frame + c * (f.bits / 8), f);
    sound.samples[i] = sum / static_cast<float>(f.channels);
  }
  return sound;
}

}  // namespace

Result<Sound> ParseWav(std::span<const std::byte> bytes) {
  constexpr size_t kHeader = 12;
  if (bytes.size() < kHeader || !Is(bytes, 0, "RIFF") || !Is(bytes, 8, "WAVE"))
    return InvalidInput("no WAV file: it does not begin with RIFF and WAVE");
  Format format;
  for (size_t at = kHeader; at + kChunk <= bytes.size();) {
    const uint64_t size = Little(bytes, at + 4, 4);
    const size_t left = bytes.size() - at - kChunk;
    const auto chunk = bytes.subspan(at + kChunk, std::min<uint64_t>(size, left));
    if (Is(bytes, at, "fmt ")) {
      EVOQ_ASSIGN(format, WithContext(ReadFormat(chunk), fmt::format("byte {}", at)));
    }
    // What writes to a pipe does not know the size.
    if (Is(bytes, at, "data")) {
      if (format.channels == 0) return InvalidInput("byte {}: data before their format", at);
      return Samples(chunk, format);
    }
    if (size > left) break;
    at += kChunk + size + size % 2;
  }
  return InvalidInput("no data of a sound");
}

Result<Sound> ReadWav(const std::string& path) {
  EVOQ_ASSIGN(const auto file, MappedFile::Open(path));
  return WithContext(ParseWav(file->bytes()), path);
}

}  // namespace evoq
