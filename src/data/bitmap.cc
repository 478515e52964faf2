// Uncompressed images: BMP of 24 bits, PNM (P5 and P6) and baseline TIFF of 8 bits. Sizes and offsets come from files.
#include <cctype>

#include "base/math.h"
#include "data/image_decode.h"

namespace evoq {
namespace {

using Bytes = std::span<const std::byte>;

uint8_t At(Bytes bytes, uint64_t i) { return i < bytes.size() ? static_cast<uint8_t>(bytes[static_cast<size_t>(i)]) : 0; }

// `count` bytes at `at` as a number.
uint64_t Number(Bytes bytes, uint64_t at, int count, bool big_endian) {
  uint64_t value = 0;
  for (int i = 0; i < count; ++i) value |= uint64_t{At(bytes, at + i)} << (8 * (big_endian ? count - 1 - i : i));
  return value;
}

// Copies a row of pixels of `samples` bytes; one sample is grey.
Status CopyRow(Bytes bytes, uint64_t from, int samples, bool bgr, int64_t row, Image& image) {
  const uint64_t size = static_cast<uint64_t>(image.width) * samples;
  if (from > bytes.size() || size > bytes.size() - from) return InvalidInput("the file ends within row {} of {}", row, image.height);
  uint8_t* to = image.pixels.data() + row * image.width * 3;
  for (int64_t x = 0; x < image.width; ++x) {
    for (int c = 0; c < 3; ++c) {
      const int sample = samples == 1 ? 0 : bgr ? 2 - c : c;
      to[x * 3 + c] = static_cast<uint8_t>(bytes[static_cast<size_t>(from) + x * samples + sample]);
    }
  }
  return {};
}

struct TiffField {
  uint64_t count = 0, at = 0;
  int width = 0;
};

}  // namespace

Result<Image> DecodeBmp(Bytes bytes) {
  const auto field = [&](uint64_t at, int count) { return Number(bytes, at, count, false); };
  const int32_t width = static_cast<int32_t>(field(18, 4)), height = static_cast<int32_t>(field(22, 4));
  if (bytes.size() < 54 || field(28, 2) != 24 || field(30, 4) != 0) return Unsupported("a bitmap of {} bits, expected 24 without compression", field(28, 2));
  if (height == INT32_MIN) return InvalidInput("a height of {}", height);
  EVOQ_ASSIGN(Image image, AllocateRgb(width, height < 0 ? -height : height));
  const uint64_t start = field(10, 4), stride = RoundUp(static_cast<int64_t>(width) * 3, 4);
  for (int64_t y = 0; y < image.height; ++y) {
    const int64_t line = height < 0 ? y : image.height - 1 - y;  // from the bottom unless the height is negative
    EVOQ_TRY(CopyRow(bytes, start + static_cast<uint64_t>(line) * stride, 3, true, y, image));
  }
  return image;
}

Result<Image> DecodePnm(Bytes bytes) {
  uint64_t at = 2;
  int64_t numbers[3] = {0, 0, 0};
  for (int64_t& number : numbers) {
    while (std::isspace(At(bytes, at)) || At(bytes, at) == '#') {
      if (At(bytes, at++) != '#') continue;
      while (at < bytes.size() && At(bytes, at) != '\n') ++at;
    }
    if (!std::isdigit(At(bytes, at))) return InvalidInput("expected a number at byte {}", at);
    for (; std::isdigit(At(bytes, at)); ++at) number = std::min<int64_t>(number * 10 + (At(bytes, at) - '0'), int64_t{1} << 31);
  }
  if (numbers[2] != 255) return Unsupported("a largest value of {}, expected 255", numbers[2]);
  EVOQ_ASSIGN(Image image, AllocateRgb(numbers[0], numbers[1]));
  const int samples = At(bytes, 1) == '6' ? 3 : 1;
  for (int64_t y = 0; y < image.height; ++y)
    EVOQ_TRY(CopyRow(bytes, at + 1 + static_cast<uint64_t>(y) * image.width * samples, samples, false, y, image));
  return image;
}

Result<Image> DecodeTiff(Bytes bytes) {
  const bool big = At(bytes, 0) == 'M';
  const auto field = [&](uint64_t at, int count) { return Number(bytes, at, count, big); };
  const uint64_t directory = field(4, 4), entries = field(directory, 2);
  const auto find = [&](uint64_t tag) {
    for (uint64_t i = 0; i < entries; ++i) {
      const uint64_t at = directory + 2 + i * 12;
      if (field(at, 2) != tag) continue;
      TiffField f{field(at + 4, 4), at + 8, field(at + 2, 2) == 3 ? 2 : 4};
      if (f.count * f.width > 4) f.at = field(at + 8, 4);
      return f;
    }
    return TiffField{};
  };
  const auto value = [&](uint64_t tag, uint64_t i, uint64_t fallback) {
    const TiffField f = find(tag);
    return i < f.count ? field(f.at + i * f.width, f.width) : fallback;
  };
  const uint64_t samples = value(277, 0, 1), rows = value(278, 0, UINT32_MAX);
  if (value(259, 0, 1) != 1 || value(258, 0, 1) != 8 || (samples != 1 && samples != 3 && samples != 4) || value(284, 0, 1) != 1 || value(262, 0, 1) == 3)
    return Unsupported("a TIFF other than of 8 bits without compression, palette or planes");
  EVOQ_ASSIGN(Image image, AllocateRgb(static_cast<int64_t>(value(256, 0, 0)), static_cast<int64_t>(value(257, 0, 0))));
  if (rows == 0) return InvalidInput("strips of no rows");
  for (int64_t y = 0; y < image.height; ++y) {
    const uint64_t strip = static_cast<uint64_t>(y) / rows, line = static_cast<uint64_t>(y) % rows;
    if (strip >= find(273).count) return InvalidInput("{} strips, expected one for row {}", find(273).count, y);
    EVOQ_TRY(CopyRow(bytes, value(273, strip, 0) + line * image.width * samples, static_cast<int>(samples), false, y, image));
  }
  return image;
}

}  // namespace evoq
