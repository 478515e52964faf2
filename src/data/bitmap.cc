// Uncompressed images: BMP of 24 bits, PNM (P5 and P6) and baseline TIFF of 8 bits. Sizes and
// offsets come from files.
#include <algorithm>
#include <array>
#include <cctype>
#include <map>

#include "base/math.h"
#include "data/image_decode.h"

namespace evoq {
namespace {

using Bytes = std::span<const std::byte>;

uint8_t At(Bytes bytes, uint64_t i) {
  return i < bytes.size() ? static_cast<uint8_t>(bytes[static_cast<size_t>(i)]) : 0;
}

// `count` bytes at `at` as a number.
uint64_t Number(Bytes bytes, uint64_t at, int count, bool big_endian) {
  uint64_t value = 0;
  for (int i = 0; i < count; ++i)
    value |= uint64_t{At(bytes, at + i)} << (8 * (big_endian ? count - 1 - i : i));
  return value;
}

// Pixels stand in the file as they are: an image whose pixels take more bytes than the file has is
// refused before it is allocated.
Result<Image> AllocateFor(Bytes bytes, int64_t width, int64_t height, int64_t samples,
                          Budget& budget) {
  const auto pixels = CheckedProduct(std::array{width, height, samples});
  if (pixels && *pixels > static_cast<int64_t>(bytes.size()))
    return InvalidInput("{} x {} pixels of {} bytes, in a file of {} bytes", width, height, samples,
                        bytes.size());
  return AllocateRgb(width, height, budget);
}

// Copies a row of pixels of `samples` bytes; one sample is grey.
Status CopyRow(Bytes bytes, uint64_t from, int samples, bool bgr, int64_t row, Image& image) {
  const uint64_t size = static_cast<uint64_t>(image.width) * samples;
  if (from > bytes.size() || size > bytes.size() - from)
    return InvalidInput("the file ends within row {} of {}", row, image.height);
  uint8_t* to = image.pixels.data() + row * image.width * 3;
  for (int64_t x = 0; x < image.width; ++x) {
    for (int c = 0; c < 3; ++c) {
      const int sample = samples == 1 ? 0 : bgr ? 2 - c : c;
      to[x * 3 + c] = static_cast<uint8_t>(bytes[static_cast<size_t>(from) + x * samples + sample]);
    }
  }
  return {};
}

// The tags of a TIFF that say how its pixels stand.
constexpr uint64_t kWidth = 256, kHeight = 257, kBits = 258, kCompression = 259, kPhotometric = 262,
                   kFillOrder = 266, kStrips = 273, kSamples = 277, kRowsPerStrip = 278,
                   kPlanes = 284;
constexpr uint64_t kTagsRead[] = {kWidth,     kHeight, kBits,    kCompression,  kPhotometric,
                                  kFillOrder, kStrips, kSamples, kRowsPerStrip, kPlanes};

// Their numbers, of a TIFF's first directory: entries of a tag, a type, a count, and the values or
// where they stand.
class TiffDirectory {
 public:
  static Result<TiffDirectory> Read(Bytes bytes) {
    TiffDirectory d(bytes);
    const uint64_t start = d.Field(4, 4), entries = d.Field(start, 2);
    if (start + 2 + entries * kEntryBytes > bytes.size())
      return InvalidInput("a directory of {} entries at byte {} of {}", entries, start,
                          bytes.size());
    for (uint64_t i = 0; i < entries; ++i) {
      const uint64_t at = start + 2 + i * kEntryBytes, tag = d.Field(at, 2);
      if (std::find(std::begin(kTagsRead), std::end(kTagsRead), tag) == std::end(kTagsRead))
        continue;
      const uint64_t type = d.Field(at + 2, 2);
      const int width = type == kByte ? 1 : type == kShort ? 2 : type == kLong ? 4 : 0;
      if (width == 0) return InvalidInput("tag {} is of type {}, expected 1, 3 or 4", tag, type);
      Values values{d.Field(at + 4, 4), at + 8, width};
      const uint64_t length = values.count * static_cast<uint64_t>(width);
      if (length > 4) values.at = d.Field(at + 8, 4);
      if (values.at + length > bytes.size())
        return InvalidInput("tag {}: {} bytes at byte {} of {}", tag, length, values.at,
                            bytes.size());
      d.tags_.emplace(tag, values);
    }
    return d;
  }
  uint64_t Count(uint64_t tag) const {
    const auto found = tags_.find(tag);
    return found == tags_.end() ? 0 : found->second.count;
  }
  uint64_t At(uint64_t tag, uint64_t i, uint64_t fallback) const {
    if (i >= Count(tag)) return fallback;
    const Values& values = tags_.at(tag);
    return Field(values.at + i * values.width, values.width);
  }

 private:
  static constexpr uint64_t kEntryBytes = 12, kByte = 1, kShort = 3, kLong = 4;
  struct Values {
    uint64_t count, at;
    int width;
  };
  explicit TiffDirectory(Bytes bytes) : bytes_(bytes), big_endian_(evoq::At(bytes, 0) == 'M') {}
  uint64_t Field(uint64_t at, int count) const { return Number(bytes_, at, count, big_endian_); }
  Bytes bytes_;
  bool big_endian_;
  std::map<uint64_t, Values> tags_;
};

}  // namespace

Result<Image> DecodeBmp(Bytes bytes, Budget& budget) {
  const auto field = [&](uint64_t at, int count) { return Number(bytes, at, count, false); };
  const int32_t width = static_cast<int32_t>(field(18, 4)),
                height = static_cast<int32_t>(field(22, 4));
  if (bytes.size() < 54 || field(14, 4) < 40 || field(28, 2) != 24 || field(30, 4) != 0)
    return Unsupported("a bitmap of {} bits, expected 24 without compression", field(28, 2));
  if (height == INT32_MIN) return InvalidInput("a height of {}", height);
  EVOQ_ASSIGN(Image image, AllocateFor(bytes, width, height < 0 ? -height : height, 3, budget));
  const uint64_t start = field(10, 4), stride = RoundUp(static_cast<int64_t>(width) * 3, 4);
  for (int64_t y = 0; y < image.height; ++y) {
    const int64_t line =
        height < 0 ? y : image.height - 1 - y;  // from the bottom unless the height is negative
    EVOQ_TRY(CopyRow(bytes, start + static_cast<uint64_t>(line) * stride, 3, true, y, image));
  }
  return image;
}

Result<Image> DecodePnm(Bytes bytes, Budget& budget) {
  uint64_t at = 2;
  int64_t numbers[3] = {0, 0, 0};
  for (int64_t& number : numbers) {
    while (std::isspace(At(bytes, at)) || At(bytes, at) == '#') {
      if (At(bytes, at++) != '#') continue;
      while (at < bytes.size() && At(bytes, at) != '\n') ++at;
    }
    if (!std::isdigit(At(bytes, at))) return InvalidInput("expected a number at byte {}", at);
    for (; std::isdigit(At(bytes, at)); ++at)
      number = std::min<int64_t>(number * 10 + (At(bytes, at) - '0'), int64_t{1} << 31);
  }
  if (numbers[2] != 255) return Unsupported("a largest value of {}, expected 255", numbers[2]);
  const int samples = At(bytes, 1) == '6' ? 3 : 1;
  EVOQ_ASSIGN(Image image, AllocateFor(bytes, numbers[0], numbers[1], samples, budget));
  for (int64_t y = 0; y < image.height; ++y)
    EVOQ_TRY(CopyRow(bytes, at + 1 + static_cast<uint64_t>(y) * image.width * samples, samples,
                     false, y, image));
  return image;
}

Result<Image> DecodeTiff(Bytes bytes, Budget& budget) {
  constexpr uint64_t kWhiteIsZero = 0, kBlackIsZero = 1, kRgb = 2;
  EVOQ_ASSIGN(const TiffDirectory tags, TiffDirectory::Read(bytes));
  const uint64_t samples = tags.At(kSamples, 0, 1), rows = tags.At(kRowsPerStrip, 0, UINT32_MAX);
  const uint64_t photometric = tags.At(kPhotometric, 0, samples == 1 ? kBlackIsZero : kRgb);
  const bool colors = samples == 1 ? photometric == kWhiteIsZero || photometric == kBlackIsZero
                                   : (samples == 3 || samples == 4) && photometric == kRgb;
  bool bits = tags.At(kBits, 0, 1) == 8;
  for (uint64_t i = 1; i < samples && colors; ++i) bits = bits && tags.At(kBits, i, 8) == 8;
  if (!colors || !bits || tags.At(kCompression, 0, 1) != 1 || tags.At(kFillOrder, 0, 1) != 1 ||
      tags.At(kPlanes, 0, 1) != 1)
    return Unsupported(
        "a TIFF other than of gray or RGB of 8 bits without compression, palette or planes");
  if (rows == 0) return InvalidInput("strips of no rows");
  EVOQ_ASSIGN(Image image, AllocateFor(bytes, static_cast<int64_t>(tags.At(kWidth, 0, 0)),
                                       static_cast<int64_t>(tags.At(kHeight, 0, 0)),
                                       static_cast<int64_t>(samples), budget));
  for (int64_t y = 0; y < image.height; ++y) {
    const uint64_t strip = static_cast<uint64_t>(y) / rows, line = static_cast<uint64_t>(y) % rows;
    if (strip >= tags.Count(kStrips))
      return InvalidInput("{} strips, expected one for row {}", tags.Count(kStrips), y);
    EVOQ_TRY(CopyRow(bytes, tags.At(kStrips, strip, 0) + line * image.width * samples,
                     static_cast<int>(samples), false, y, image));
  }
  if (photometric == kWhiteIsZero) {
    for (uint8_t& pixel : image.pixels) pixel = static_cast<uint8_t>(255 - pixel);
  }
  return image;
}

}  // namespace evoq
