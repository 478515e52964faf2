#include "runtime/range_watch.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"

namespace evoq {
namespace {

constexpr int64_t kPiece = 16;
constexpr double kTellingRatio = 1.1;

// The ends of a range, as real numbers.
struct Ends {
  double low, high;
  explicit Ends(const TensorType& type) {
    const double scale = type.quant->scales[0];
    const int zero = type.quant->zero_points[0];
    low = scale * (IntegerMin(type.dtype) - zero);
    high = scale * (IntegerMax(type.dtype) - zero);
  }
};

bool IsBytes(const TensorType& type) {
  return (type.dtype == DType::kUint8 || type.dtype == DType::kInt8) && type.quantized() &&
         type.quant->per_tensor() && type.quant->scales.size() == 1;
}

}  // namespace

bool RangeWatch::Tells(std::span<const TensorType> types) {
  if (!std::ranges::all_of(types, IsBytes)) return false;
  double least = INFINITY, most = 0;
  for (const TensorType& type : types) {
    least = std::min(least, Ends(type).high - Ends(type).low);
    most = std::max(most, Ends(type).high - Ends(type).low);
  }
  return (types.size() == 1 || most >= kTellingRatio * least) && types[0].bytes().value_or(0) > 0;
}

RangeWatch::RangeWatch(std::span<const TensorType> types, size_t stored, FusedEnds fused)
    : size_(*types[stored].bytes()), flip_(types[stored].dtype == DType::kInt8 ? 0x80 : 0) {
  piece_ = size_ <= kWatchedElements ? size_ : kPiece;
  pieces_ = size_ <= kWatchedElements ? 1 : kWatchedElements / kPiece;
  const TensorType& own = types[stored];
  const double scale = own.quant->scales[0];
  // In the order of uint8, where the stored type's smallest number is 0.
  const int zero = own.quant->zero_points[0] - static_cast<int>(IntegerMin(own.dtype));
  const auto bounded = [](double q) { return static_cast<uint8_t>(std::clamp(q, 0.0, 255.0)); };
  for (size_t s = 0; s < types.size(); ++s) {
    const Ends ends(types[s]);
    Bounds bounds{bounded(std::ceil(ends.low / scale + zero - 1e-3)),
                  bounded(std::floor(ends.high / scale + zero + 1e-3))};
    if (s == stored) {
      bounds.low = zero > 0 && ends.low > fused.low + scale / 2 ? 1 : 0;
      bounds.high = zero < 255 && ends.high < fused.high - scale / 2 ? 254 : 255;
    }
    bounds_.push_back(bounds);
  }
}

void RangeWatch::Count(const std::byte* data, std::span<uint32_t> outside) const {
  EVOQ_CHECK(outside.size() == bounds_.size());
  alignas(16) uint8_t sample[kWatchedElements];
  const auto* const bytes = reinterpret_cast<const uint8_t*>(data);
  for (int64_t p = 0; p < pieces_; ++p) {
    const uint8_t* const from = bytes + (pieces_ == 1 ? 0 : (size_ - piece_) * p / (pieces_ - 1));
    for (int64_t i = 0; i < piece_; ++i)
      sample[p * piece_ + i] = static_cast<uint8_t>(from[i] ^ flip_);
  }
  const int64_t count = elements();
  for (size_t s = 0; s < bounds_.size(); ++s) {
    const auto [low, high] = bounds_[s];
    uint32_t sum = 0;
    for (int64_t begin = 0; begin < count; begin += 64) {
      uint8_t few = 0;  // at most 64
      for (int64_t i = begin; i < std::min(begin + 64, count); ++i)
        few = static_cast<uint8_t>(few + (sample[i] < low) + (sample[i] > high));
      sum += few;
    }
    outside[s] = sum;
  }
}

}  // namespace evoq
