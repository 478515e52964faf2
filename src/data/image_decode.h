// The image decoders behind DecodeImage. Both give 8-bit RGB, as Pillow's Image.open(...).convert("RGB") does.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/result.h"
#include "data/dataset.h"

namespace evoq {

inline constexpr int64_t kMaxImagePixels = int64_t{1} << 28;

// Room for width x height RGB pixels. Errors: kTooLarge over kMaxImagePixels; kInvalidInput for an empty image.
Result<Image> AllocateRgb(int64_t width, int64_t height);

// Errors: kInvalidInput for corrupt or truncated data, with the library's reason.
Result<Image> DecodeJpeg(std::span<const std::byte> bytes);
Result<Image> DecodePng(std::span<const std::byte> bytes);
Result<Image> DecodeBmp(std::span<const std::byte> bytes);
Result<Image> DecodePnm(std::span<const std::byte> bytes);
Result<Image> DecodeTiff(std::span<const std::byte> bytes);

}  // namespace evoq
