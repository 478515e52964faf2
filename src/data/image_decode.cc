#include "data/image_decode.h"

#include <cstring>

#include "base/file.h"

namespace evoq {
namespace {

bool StartsWith(std::span<const std::byte> bytes, std::string_view magic) {
  return bytes.size() >= magic.size() && std::memcmp(bytes.data(), magic.data(), magic.size()) == 0;
}

}  // namespace

Result<Image> AllocateRgb(int64_t width, int64_t height) {
  if (width < 1 || height < 1) return InvalidInput("image of {} x {} pixels, expected at least 1 x 1", width, height);
  if (width > kMaxImagePixels / height) {
    return Fail(ErrorCode::kTooLarge, "image of {} x {} pixels, at most {} are read", width, height, kMaxImagePixels);
  }
  Image image;
  image.width = static_cast<int>(width);
  image.height = static_cast<int>(height);
  image.channels = 3;
  image.pixels.resize(static_cast<size_t>(width) * height * 3);
  return image;
}

Result<Image> DecodeImage(const std::string& path) {
  EVOQ_ASSIGN(auto file, MappedFile::Open(path));
  const auto bytes = file->bytes();
  if (StartsWith(bytes, "\xff\xd8\xff")) return WithContext(DecodeJpeg(bytes), path);
  if (StartsWith(bytes, "\x89PNG\r\n\x1a\n")) return WithContext(DecodePng(bytes), path);
  return InvalidInput("{}: neither JPEG nor PNG: {}", path, bytes.empty() ? "the file is empty" : "unknown first bytes");
}

}  // namespace evoq
