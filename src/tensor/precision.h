// What a step computes in, as kernels say it of themselves and plans, profiles and forecasts tell
// it. It is no element type (tensor/dtype.h): an int8 kernel may read uint8 and accumulate in
// int32.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

namespace evoq {

// All of them with their names, which files and reports hold. kAny: kernels that only move bytes.
#define EVOQ_PRECISIONS(X) \
  X(kAny, "any")           \
  X(kFloat32, "float32")   \
  X(kBf16, "bf16")         \
  X(kInt8, "int8")

enum class Precision : uint8_t {
#define EVOQ_PRECISION(symbol, name) symbol,
  EVOQ_PRECISIONS(EVOQ_PRECISION)
#undef EVOQ_PRECISION
};

#define EVOQ_PRECISION(symbol, name) Precision::symbol,
inline constexpr std::array kPrecisions = {EVOQ_PRECISIONS(EVOQ_PRECISION)};
#undef EVOQ_PRECISION

const char* PrecisionName(Precision precision);
// Nothing where no precision has this name.
std::optional<Precision> ParsePrecision(std::string_view name);

// How many of something (steps, layers) compute in each precision.
class PrecisionCounts {
 public:
  void Add(Precision precision, int times = 1) { counts_[static_cast<size_t>(precision)] += times; }
  int operator[](Precision precision) const { return counts_[static_cast<size_t>(precision)]; }
  int Total() const;

  friend bool operator==(const PrecisionCounts&, const PrecisionCounts&) = default;

 private:
  std::array<int, kPrecisions.size()> counts_ = {};
};

}  // namespace evoq
