// The image decoders behind DecodeImage. All give 8-bit RGB, as Pillow's
// Image.open(...).convert("RGB") does, and draw the memory of the pixels, and of what a decoder
// keeps beside them, from the file's budget.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/budget.h"
#include "base/result.h"
#include "data/dataset.h"

namespace evoq {

inline constexpr int64_t kMaxImagePixels = int64_t{1} << 28;

// How the names of images end, in small letters or large ones: those that a folder is searched for.
inline constexpr std::array<std::string_view, 9> kImageExtensions = {
    ".jpg", ".jpeg", ".png", ".bmp", ".pgm", ".ppm", ".pnm", ".tif", ".tiff"};
bool IsImageName(const std::string& path);

// Room for width x height RGB pixels. Errors: kTooLarge over kMaxImagePixels or the budget;
// kInvalidInput for an empty image.
Result<Image> AllocateRgb(int64_t width, int64_t height, Budget& budget);

// Errors: kInvalidInput for corrupt or truncated data, with the library's reason; kUnsupported;
// kTooLarge.
Result<Image> DecodeJpeg(std::span<const std::byte> bytes, Budget& budget);
Result<Image> DecodePng(std::span<const std::byte> bytes, Budget& budget);
Result<Image> DecodeBmp(std::span<const std::byte> bytes, Budget& budget);
Result<Image> DecodePnm(std::span<const std::byte> bytes, Budget& budget);
Result<Image> DecodeTiff(std::span<const std::byte> bytes, Budget& budget);

}  // namespace evoq
