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
  return WithContext(DecodeImage(file->bytes()), path);
}

Result<Image> DecodeImage(std::span<const std::byte> bytes) {
  using namespace std::literals;
  if (StartsWith(bytes, "\xff\xd8\xff")) return DecodeJpeg(bytes);
  if (StartsWith(bytes, "\x89PNG\r\n\x1a\n")) return DecodePng(bytes);
  if (StartsWith(bytes, "BM")) return DecodeBmp(bytes);
  if (StartsWith(bytes, "P5") || StartsWith(bytes, "P6")) return DecodePnm(bytes);
  if (StartsWith(bytes, "II*\0"sv) || StartsWith(bytes, "MM\0*"sv)) return DecodeTiff(bytes);
  return InvalidInput("neither JPEG nor PNG, BMP, PNM or TIFF: {}", bytes.empty() ? "the file is empty" : "unknown first bytes");
}

}  // namespace evoq
