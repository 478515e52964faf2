#include "data/resize.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <deque>
#include <vector>

#include "data/image_decode.h"

namespace evoq {
namespace {

// 32 bits minus 8 for the pixel minus 2 for sign and overshoot.
constexpr int kPrecisionBits = 32 - 8 - 2;

// Weights of one axis: output i reads pixels [first[i], first[i] + count[i]) with weights from i *
// stride on.
struct Taps {
  int stride = 0;
  std::vector<int> first, count;
  std::vector<int32_t> weights;
};

Taps MakeTaps(int in, int out) {
  const double scale = static_cast<double>(in) / out;
  const double support = std::max(scale, 1.0);
  Taps taps;
  taps.stride = static_cast<int>(std::ceil(support)) * 2 + 1;
  taps.weights.resize(static_cast<size_t>(taps.stride) * out);
  std::vector<double> w(taps.stride);
  for (int i = 0; i < out; ++i) {
    const double centre = (i + 0.5) * scale;
    const int first = std::max(static_cast<int>(centre - support + 0.5), 0);
    const int count = std::min(static_cast<int>(centre + support + 0.5), in) - first;
    double sum = 0;
    for (int j = 0; j < count; ++j) {
      w[j] = std::max(0.0, 1.0 - std::fabs((j + first - centre + 0.5) * (1.0 / support)));
      sum += w[j];
    }
    for (int j = 0; j < count; ++j) {
      // The nearest pixel weighs something: the sum is not 0.
      taps.weights[static_cast<size_t>(i) * taps.stride + j] =
          static_cast<int32_t>(0.5 + w[j] / sum * (1 << kPrecisionBits));
    }
    taps.first.push_back(first);
    taps.count.push_back(count);
  }
  return taps;
}

uint8_t ClipToByte(int32_t fixed) {
  return static_cast<uint8_t>(std::clamp(fixed >> kPrecisionBits, 0, 255));
}

// One row of `in`, resampled to the taps' width.
void ResampleRow(const Image& in, const Taps& taps, int y, std::vector<uint8_t>& to) {
  const uint8_t* row = in.pixels.data() + static_cast<size_t>(y) * in.width * in.channels;
  size_t at = 0;
  for (size_t x = 0; x < taps.first.size(); ++x) {
    const int32_t* w = taps.weights.data() + x * taps.stride;
    for (int c = 0; c < in.channels; ++c) {
      int32_t sum = 1 << (kPrecisionBits - 1);
      for (int j = 0; j < taps.count[x]; ++j)
        sum += row[(static_cast<size_t>(taps.first[x]) + j) * in.channels + c] * w[j];
      to[at++] = ClipToByte(sum);
    }
  }
}

}  // namespace

// The rows between the two passes are made when an output row asks for them and dropped after the
// last that does: of a tall image that becomes a small one they would take far more memory than
// either.
Result<Image> ResizeBilinear(const Image& image, int width, int height, Budget& budget) {
  if (width > kMaxImagePixels / height)
    return Fail(ErrorCode::kTooLarge, "resized image of {} x {} pixels, at most {}", width, height,
                kMaxImagePixels);
  if (image.width == width && image.height == height) return image;
  if (image.width != width) {  // about two taps for each pixel of the wider one
    const int64_t taps = int64_t{2} * std::max(image.width, width) * image.channels;
    EVOQ_TRY(budget.TakeWork(taps * image.height, fmt::format("resizing {} rows to a width of {}",
                                                              image.height, width)));
  }
  const Taps across = image.width == width ? Taps{} : MakeTaps(image.width, width);
  const Taps down = image.height == height ? Taps{} : MakeTaps(image.height, height);
  Image out{width, height, image.channels, {}};
  const size_t row_bytes = static_cast<size_t>(width) * image.channels;
  out.pixels.resize(row_bytes * height);
  std::deque<std::vector<uint8_t>> rows;  // the input's from `first` on, as wide as the output
  int first = 0;
  std::vector<int32_t> sums(row_bytes);
  for (int y = 0; y < height; ++y) {
    const int from = down.count.empty() ? y : down.first[y],
              count = down.count.empty() ? 1 : down.count[y];
    for (; first < from; ++first) {
      if (!rows.empty()) rows.pop_front();
    }
    while (static_cast<int>(rows.size()) < count) {
      const int line = first + static_cast<int>(rows.size());
      std::vector<uint8_t>& row = rows.emplace_back(row_bytes);
      if (across.count.empty())
        std::memcpy(row.data(), image.pixels.data() + line * row_bytes, row_bytes);
      else
        ResampleRow(image, across, line, row);
    }
    uint8_t* to = out.pixels.data() + y * row_bytes;
    if (down.count.empty()) {
      std::memcpy(to, rows.front().data(), row_bytes);
      continue;
    }
    const int32_t* w = down.weights.data() + static_cast<size_t>(y) * down.stride;
    std::fill(sums.begin(), sums.end(), 1 << (kPrecisionBits - 1));
    for (int j = 0; j < count; ++j) {
      const uint8_t* row = rows[j].data();
      for (size_t i = 0; i < row_bytes; ++i) sums[i] += row[i] * w[j];
    }
    for (size_t i = 0; i < row_bytes; ++i) to[i] = ClipToByte(sums[i]);
  }
  return out;
}

Result<Image> ResizeShortSide(const Image& image, int size, Budget& budget) {
  const int64_t small = std::min(image.width, image.height),
                large = std::max(image.width, image.height);
  // Truncated double division, as Python's int(size * long / short).
  const double scaled = static_cast<double>(size * large) / static_cast<double>(small);
  if (scaled > static_cast<double>(kMaxImagePixels)) {
    return Fail(ErrorCode::kTooLarge,
                "resizing {} x {} to a short side of {}: the long side would be {}", image.width,
                image.height, size, scaled);
  }
  const int other = static_cast<int>(scaled);
  EVOQ_TRY(budget.TakeMemory(int64_t{size} * other * image.channels,
                             fmt::format("image of {} x {} pixels resized to a short side of {}",
                                         image.width, image.height, size)));
  return image.width <= image.height ? ResizeBilinear(image, size, other, budget)
                                     : ResizeBilinear(image, other, size, budget);
}

Result<Image> CentreCrop(const Image& image, int height, int width) {
  if (height > image.height || width > image.width) {
    return InvalidInput("crop to {} x {} (height x width) of an image of {} x {}", height, width,
                        image.height, image.width);
  }
  const int top = (image.height - height) / 2, left = (image.width - width) / 2;
  Image out{width, height, image.channels, {}};
  const size_t row_bytes = static_cast<size_t>(width) * image.channels;
  out.pixels.resize(row_bytes * height);
  for (int y = 0; y < height; ++y) {
    std::memcpy(
        out.pixels.data() + y * row_bytes,
        image.pixels.data() + (static_cast<size_t>(top + y) * image.width + left) * image.channels,
        row_bytes);
  }
  return out;
}

}  // namespace evoq
