#include "data/image_decode.h"

#include <algorithm>
#include <cstring>

#include "base/file.h"

namespace evoq {
namespace {

bool StartsWith(std::span<const std::byte> bytes, std::string_view magic) {
  return bytes.size() >= magic.size() && std::memcmp(bytes.data(), magic.data(), magic.size()) == 0;
}

}  // namespace

bool IsImageName(const std::string& path) {
  const auto& all = kImageExtensions;
  return std::find(all.begin(), all.end(), LowerExtension(path)) != all.end();
}

Result<Image> AllocateRgb(int64_t width, int64_t height, Budget& budget) {
  if (width < 1 || height < 1)
    return InvalidInput("image of {} x {} pixels, expected at least 1 x 1", width, height);
  if (width > kMaxImagePixels / height) {
    return Fail(ErrorCode::kTooLarge, "image of {} x {} pixels, at most {} are read", width, height,
                kMaxImagePixels);
  }
  EVOQ_TRY(
      budget.TakeMemory(width * height * 3, fmt::format("image of {} x {} pixels", width, height)));
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
  Budget budget = Budget::ForFile(static_cast<int64_t>(bytes.size()));
  return DecodeImage(bytes, budget);
}

Result<Image> DecodeImage(std::span<const std::byte> bytes, Budget& budget) {
  using namespace std::literals;
  if (StartsWith(bytes, "\xff\xd8\xff")) return DecodeJpeg(bytes, budget);
  if (StartsWith(bytes, "\x89PNG\r\n\x1a\n")) return DecodePng(bytes, budget);
  if (StartsWith(bytes, "BM")) return DecodeBmp(bytes, budget);
  if (StartsWith(bytes, "P5") || StartsWith(bytes, "P6")) return DecodePnm(bytes, budget);
  if (StartsWith(bytes, "II*\0"sv) || StartsWith(bytes, "MM\0*"sv))
    return DecodeTiff(bytes, budget);
  return InvalidInput("neither JPEG nor PNG, BMP, PNM or TIFF: {}",
                      bytes.empty() ? "the file is empty" : "unknown first bytes");
}

}  // namespace evoq
